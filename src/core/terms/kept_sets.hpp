// Determinants of pairs of sets of categories; see CategoryNoise. They depend on no row, so they are kept.
#pragma once

#include <cstdint>

#include "model/row_work.hpp"
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

// The sets of a feature that were used so far. `number`, (n_sets): which of them a set is, or -1.
class KeptSets {
public:
    // The bytes of the sets of some features (n_features) of a model, if as many are used as can be kept.
    static double bytes(const Model& model, const std::uint8_t* features);

    // Adds the used sets that are new. If they become too many, all others go; false if even these are too
    // many, or if the row was stopped.
    bool add(const Buffer<std::int32_t>& used, const RowTables& tables, std::int32_t* number,
             const RowWork& work);
    // The determinants of one set with all that are kept.
    const double* row(std::int32_t of) const { return determinant_.data() + of * stride_; }

private:
    static std::int64_t most_sets(const Model& model, std::int32_t q);
    // The room of each row of determinants of so many sets: the kernel takes kColumns at a time.
    static constexpr std::int64_t stride_of(std::int64_t n_sets) {
        return (n_sets + SetSquare::kColumns - 1) / SetSquare::kColumns * SetSquare::kColumns;
    }
    bool list_new(const Buffer<std::int32_t>& used, const RowTables& tables, const std::int32_t* number);
    void forget(std::int32_t* number);
    void make_room(const Model& model, std::int32_t q);
    void add_side(std::int32_t set, const RowTables& tables);
    void fill_from(std::int64_t first, const RowTables& tables, const RowWork& work);

    std::int64_t stride_ = 0, most_ = 0;
    Buffer<std::int32_t> set_, new_, begin_, cell_;
    Buffer<double> side_, sign_, member_, determinant_;
};

}  // namespace predgap
