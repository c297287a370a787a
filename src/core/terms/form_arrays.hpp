// The arrays that forms of components have in scratch memory. Each layout is written once: with an Arena it
// hands out the arrays, with a Room it counts them; see simd/arena.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd/arena.hpp"
#include "terms/cell_grid.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

// Forms of more slots are computed pair by pair, without scratch memory.
constexpr std::int32_t kMostFormSlots = 8;
// Large components of so many numeric features are taken in blocks of terms; see terms/blocks.hpp.
constexpr std::int32_t kMostBlockSlots = 3;

// The tables of a component's slots; see terms/tiles.hpp.
struct TileTables {
    double *low, *high;  // (size, stride)

    template <class Memory>
    PREDGAP_INLINE constexpr TileTables(Memory& memory, std::int64_t size, std::int64_t stride)
        : low(memory.template take<double>(size * stride)),
          high(memory.template take<double>(size * stride)) {}
};

struct TileArrays : TileTables {
    double* column;  // (width, stride) weights, times S of the first slot where it is folded
    double* below;   // (width, stride) of products: what comes from the terms before
    double* sums;    // (width, 4, 4)

    template <class Memory>
    PREDGAP_INLINE constexpr TileArrays(Memory& memory, std::int64_t size, std::int64_t stride,
                                        std::int64_t width)
        : TileTables(memory, size, stride),
          column(memory.template take<double>(width * stride)),
          below(memory.template take<double>(width * stride)),
          sums(memory.template take<double>(width * 16)) {}
};

// The terms of a component that is taken in blocks; see terms/blocks.hpp.
struct RankedTerms {
    double *u[kMostBlockSlots], *v[kMostBlockSlots];  // (stride)
    std::int32_t* rank[kMostBlockSlots];              // (stride) of all slots but the first

    template <class Memory>
    PREDGAP_INLINE constexpr RankedTerms(Memory& memory, std::int64_t size, std::int64_t stride)
        : u{}, v{}, rank{} {
        for (std::int64_t j = 0; j < size; ++j) {
            u[j] = memory.template take<double>(stride);
            v[j] = memory.template take<double>(stride);
            if (j > 0) rank[j] = memory.template take<std::int32_t>(stride);
        }
    }
};

// The ranks of a slot's thresholds.
template <class Memory>
PREDGAP_INLINE constexpr std::int32_t* take_marks(Memory& memory, std::int64_t n_thresholds) {
    return memory.template take<std::int32_t>(n_thresholds);
}

// The cells of a grid of ranks, and their running sums.
struct RankSums {
    static constexpr int kMost = 1 << (kMostBlockSlots - 1);
    static constexpr int count(std::int64_t size) { return 1 << (size - 1); }

    double *cell[kMost], *sum[kMost];  // (rows, columns)

    template <class Memory>
    PREDGAP_INLINE constexpr RankSums(Memory& memory, std::int64_t size, std::int64_t n_cells)
        : cell{}, sum{} {
        for (int i = 0; i < count(size); ++i) {
            cell[i] = memory.template take<double>(n_cells);
            sum[i] = memory.template take<double>(n_cells);
        }
    }
};

// The factors of one term with others, of a component with categories; see terms/category_forms.hpp.
struct SetRowArrays {
    double *row, *of_leading;                            // (stride)
    double *low[kMostFormSlots], *high[kMostFormSlots];  // (stride) of each number
    double* mean[kMostFormSlots];                        // (stride) of each category: of tau
    std::int32_t* column[kMostFormSlots];  // (stride) likewise: which determinant is that with a term

    template <class Memory>
    PREDGAP_INLINE constexpr SetRowArrays(Memory& memory, std::int64_t size, std::int64_t n_sets,
                                          std::int64_t stride)
        : row(memory.template take<double>(stride)),
          of_leading(memory.template take<double>(stride)),
          low{},
          high{},
          mean{},
          column{} {
        for (std::int64_t i = 0; i < n_sets; ++i) {
            column[i] = memory.template take<std::int32_t>(stride);
            mean[i] = memory.template take<double>(stride);
        }
        for (std::int64_t i = 0; i < size - n_sets; ++i) {
            low[i] = memory.template take<double>(stride);
            high[i] = memory.template take<double>(stride);
        }
    }
};

// What comes from the terms before, of the product of a component with categories.
template <class Memory>
PREDGAP_INLINE constexpr double* take_below(Memory& memory, std::int64_t width, std::int64_t stride) {
    return memory.template take<double>(width * stride);
}

// The cells of a component that is evaluated over them; see terms/grid_forms.hpp.
struct GridArrays {
    double* cell;                              // (n_cells)
    double* mean;                              // (step of the first axis), of several axes only
    double* row;                               // (length of the last axis)
    double* probability[CellGrid::kMostAxes];  // (length, and 0 up to a multiple of four)
    std::int32_t* place[CellGrid::kMostAxes];  // of numbers: (n_terms) cells
    std::int32_t* marks;                       // of one number after the other: (n_thresholds)

    template <class Memory>
    PREDGAP_INLINE constexpr GridArrays(Memory& memory, const CellGrid& grid, std::int64_t n_terms)
        : cell(memory.template take<double>(grid.n_cells)),
          mean(memory.template take<double>(grid.n_axes > 1 ? grid.step[0] : 0)),
          row(memory.template take<double>(grid.row())),
          probability{},
          place{},
          marks(nullptr) {
        for (std::int32_t i = 0; i < grid.n_axes; ++i)
            probability[i] = memory.template take<double>(grid.padded_length(i));
        for (std::int32_t i = 0; i < grid.n_numeric; ++i)
            place[i] = memory.template take<std::int32_t>(n_terms);
        marks = memory.template take<std::int32_t>(grid.most_thresholds);
    }
};

}  // namespace predgap
