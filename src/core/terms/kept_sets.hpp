// Determinants of pairs of sets of categories; see CategoryNoise. They depend on no row, so they are kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "noise/row_tables.hpp"

namespace predgap {

// Sets of one feature, for the kernel that fills a part of the square of their determinants.
struct SetSquare {
    static constexpr std::int64_t kColumns = 16;  // of a part

    std::int64_t n, stride, n_cells;
    const std::int32_t *begin, *cell;  // (n + 1), – of each set the side with the smaller mass
    const double* mass;                // (n_cells)
    double total;                      // of these
    const double* side;                // (stride) mass of that side
    const double* sign;                // (stride) -1 where it is the complement
    double* member;                    // (n_cells, kColumns) scratch: masses of the cells that sets have
    double* determinant;               // (stride, stride)
};

// Where the determinants of sets, numbered from 0, are.
struct SetPlaces {
    Buffer<const double*> row;    // (n_sets) those with all others of its feature; null: they are not there
    Buffer<std::int32_t> column;  // (n_sets) which of them is that with this set
};

// Those sets of a feature that were used so far.
class KeptSets {
public:
    // Adds some, ascending. If they become too many, the others go; if even these are, all of them.
    void add(const Buffer<std::int32_t>& used, const RowTables& tables, SetPlaces& places,
             const std::atomic<bool>& stop);

private:
    static constexpr std::int64_t kMost = 2048;  // 32 MB

    void forget(SetPlaces& places);
    // Is there room for those that are new?
    bool list_new(const Buffer<std::int32_t>& used, const SetPlaces& places);
    void add_side(std::int32_t set, const RowTables& tables);
    void fill_from(std::int64_t first, const RowTables& tables, const std::atomic<bool>& stop);

    std::int64_t stride_ = 0;
    Buffer<std::int32_t> set_, new_, begin_, cell_;
    Buffer<double> side_, sign_, member_, determinant_;
};

}  // namespace predgap
