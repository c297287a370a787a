// The cells of a component with categories. Where they are few, forms are sums over them, not over pairs of
// terms; see grid_forms.hpp.
#pragma once

#include <cstdint>

#include "simd/lanes.hpp"

namespace predgap {

// One axis for each feature. The cells of a number lie between the thresholds that the component's terms
// have; those of a category are the model's. Numbers come first. The cells of the last axis are side by side,
// and its length is a multiple of four.
struct CellGrid {
    static constexpr std::int32_t kMostAxes = 8;
    static constexpr std::int64_t kMostCells = 1 << 23;  // 64 MB
    static constexpr std::int64_t kMostKept = 1 << 16;   // of those that a curve keeps from step to step

    std::int32_t n_axes, n_numeric;
    std::int32_t slot[kMostAxes];
    std::int64_t length[kMostAxes];
    std::int64_t step[kMostAxes];  // from a cell to the next one along the axis
    std::int64_t n_cells;
    std::int64_t most_thresholds;  // of a feature that is a number

    // The doubles that a curve keeps of it, from step to step: its cells, and the weights of the terms that
    // were added; a multiple of eight.
    PREDGAP_INLINE constexpr std::int64_t kept(std::int64_t n_terms) const {
        return n_cells <= kMostKept ? (n_cells + n_terms + 7) / 8 * 8 : 0;
    }

    PREDGAP_INLINE constexpr std::int64_t row() const { return length[n_axes - 1]; }
    // The length of an axis with the cells of probability 0 that fill its last four.
    PREDGAP_INLINE constexpr std::int64_t padded_length(std::int32_t axis) const {
        return (length[axis] + 3) / 4 * 4;
    }
};

}  // namespace predgap
