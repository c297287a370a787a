// Sizes that follow from counts: the terms of a block, and the work and the room of the form of a component.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terms/form_arrays.hpp"

namespace predgap {

constexpr std::int64_t kLeastBlock = 64;  // terms

// The ranks of a slot: as many as the terms or the feature's thresholds, and two that stay empty.
PREDGAP_INLINE constexpr std::int64_t ranks_of(const Component& c, std::int64_t n_thresholds) {
    return std::min<std::int64_t>(c.n_terms, n_thresholds) + 2;
}

// The nanoseconds of a slot of a pair of terms; and of a cell of a grid of ranks with its two sums.
constexpr double kSlotOfPair = 0.08, kCellOfRanks = 0.9;

// The number of terms of a block, a multiple of four, by the thresholds of the second and the third feature
// (1 if there is none); all terms where sums over a grid of ranks take longer than pairs.
PREDGAP_INLINE constexpr std::int64_t terms_per_block(const Component& c, std::int64_t second,
                                                      std::int64_t third) {
    constexpr std::int64_t kMostCells = 1 << 18;
    const std::int64_t all = (c.n_terms + 3) / 4 * 4;
    if (c.has_sets || c.size < 2 || c.size > kMostBlockSlots || c.n_terms < 2 * kLeastBlock) return all;
    const auto n_cells = ranks_of(c, second) * (c.size == 3 ? ranks_of(c, third) : 1);
    if (c.size == 3 && n_cells > kMostCells) return all;
    const double refresh = kCellOfRanks * static_cast<double>(n_cells * (c.size - 1));
    const double pair = kSlotOfPair * c.size;
    std::int64_t block =
        kLeastBlock;  // pairs of a block take as long as the sums: block^2 * pair / 2 = refresh
    while (static_cast<double>(block) * static_cast<double>(block) * pair < 2.0 * refresh) block *= 2;
    return 2 * block <= c.n_terms ? block : all;
}

// The work of the form of a component of numeric features: as many pairs of terms, times their slots, take as
// long.
PREDGAP_INLINE constexpr double pairs_of_form(const Component& c, std::int64_t second, std::int64_t third) {
    constexpr double kTerm = 10.0;  // nanoseconds: of a term that goes to a grid and looks there
    const double n = c.n_terms;
    if (c.size == 1) return n;
    const auto block = terms_per_block(c, second, third);
    if (block >= c.n_terms) return 0.5 * c.size * n * (n + 1.0);
    const auto n_cells = ranks_of(c, second) * (c.size == 3 ? ranks_of(c, third) : 1);
    const double of_cells = kCellOfRanks * static_cast<double>(n_cells * (c.size - 1));
    return 0.5 * c.size * n * static_cast<double>(block + 1) +
           (n / static_cast<double>(block) * of_cells + kTerm * n) / kSlotOfPair;
}

// The number of doubles that the forms of a component need at most, from the layouts in form_arrays.hpp;
// those over cells are counted apart. n_sets: its categorical features; second, third: as for
// terms_per_block.
PREDGAP_INLINE constexpr std::int64_t form_scratch(const Component& c, std::int64_t width,
                                                   std::int64_t n_sets, std::int64_t second,
                                                   std::int64_t third) {
    if (c.n_terms <= 2 || c.size > kMostFormSlots || (c.size < 2 && !c.has_sets)) return 0;
    Room pairs;
    if (c.has_sets) {
        take_below(pairs, width, c.stride);
        SetRowArrays(pairs, c.size, n_sets, c.stride);
        return pairs.doubles();
    }
    TileArrays(pairs, c.size, c.stride, width);
    if (terms_per_block(c, second, third) >= c.n_terms) return pairs.doubles();
    Room blocks;
    RankedTerms(blocks, c.size, c.stride);
    Room marks = blocks;  // these lie where the sums come later
    take_marks(marks, std::max(second, third));
    RankSums(blocks, c.size, ranks_of(c, second) * (c.size == 3 ? ranks_of(c, third) : 1));
    return std::max({pairs.doubles(), blocks.doubles(), marks.doubles()});
}

// The number of doubles that the form of a component over its cells needs.
PREDGAP_INLINE constexpr std::int64_t grid_scratch(const CellGrid& grid, std::int64_t n_terms) {
    Room room;
    GridArrays(room, grid, n_terms);
    return room.doubles();
}

}  // namespace predgap
