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
    std::int64_t n_thresholds;  // of all features that are numbers

    PREDGAP_INLINE std::int64_t row() const { return length[n_axes - 1]; }
    // Doubles for the cells, a mean along an axis, a row, probabilities along each axis, places of terms and
    // of thresholds.
    PREDGAP_INLINE std::int64_t scratch(std::int64_t n_terms) const {
        std::int64_t sum = n_cells + (n_axes > 1 ? step[0] : 0) + row() + n_numeric * n_terms + n_thresholds;
        for (std::int32_t i = 0; i < n_axes; ++i) sum += (length[i] + 3) / 4 * 4;
        return sum;
    }
};

}  // namespace predgap
