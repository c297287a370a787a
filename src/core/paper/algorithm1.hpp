// The paper's Algorithm 1, for comparison only: O(n^2) in the number of nodes.
#pragma once

#include <cstdint>

#include "model/ensemble.hpp"

namespace predgap {

// Normal noise of one scale per feature; its printed slips are mended (see docs/internals.md). All
// arithmetic is in double, or in float as in the paper's experiments.
double algorithm1_gap(const EnsembleView& e, const double* x, const double* scale, const std::uint8_t* subset,
                      bool float32);

}  // namespace predgap
