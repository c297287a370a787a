// What one gap costs: counted without any work on rows, and weighed with constants that benchmarks/planner.py
// fits.
#pragma once

#include <array>
#include <cstdint>

#include "kernels.hpp"
#include "pairs.hpp"

namespace predgap {

// How often each strategy does each thing for one row, typically.
struct Counts {
    // rows, thresholds and sets, leaves, signed terms of the weights, factors of pairs of terms, the same
    // where one is a set of categories, terms of sweeps
    std::array<double, 7> terms;
    // rows, leaves reached, splits that eight of them meet in the other trees
    std::array<double, 3> pairs;
    double pairs_bytes;  // at most

    static constexpr double kMostBytes = 1 << 30;
};

// Without a plan, the terms count nothing.
Counts count(const PlanView& p, bool has_plan, const Pairs& pairs, const std::uint8_t* perturbed);

struct Cost {
    double terms, pairs;              // nanoseconds for one gap; infinite where the strategy is not to be had
    double pairs_work, pairs_memory;  // of the latter in any case: nanoseconds and bytes
};

Cost cost_of(const Counts& counts, bool has_plan);

}  // namespace predgap
