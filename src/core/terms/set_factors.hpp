// How the forms of a row's components with categories are evaluated: over cells, or over pairs of terms, with
// the factors of pairs of sets that these need.
#pragma once

#include <atomic>
#include <cstdint>

#include "noise/row_tables.hpp"
#include "terms/grid_choice.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

// Sets of one feature, for the kernel that fills a part of the square of their factors.
struct SetSquare {
    static constexpr std::int64_t kColumns = 16;  // of a part

    std::int64_t n, stride, n_cells;
    const std::int32_t *begin, *cell;  // (n + 1), – the side of each set that x is not on
    const double* mass;                // (n_cells)
    const double* reach;               // (n) P(x' on that side)
    const double* rest;                // (n) P(x' on the other side)
    const double* sign;                // (n) of tau
    double* member;                    // (n_cells, kColumns) scratch: masses of the cells that sets have
    double *moment, *covariance;       // (stride, stride); no moments where this is null
};

class SetFactors {
public:
    // Moments are needed for gains only; n_steps: see GridChoice.
    void fill(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps,
              bool with_moments, const std::atomic<bool>& stop);

    // The cells of a component that is evaluated over them, else null.
    PREDGAP_INLINE const CellGrid* grid(std::int64_t component) const {
        return grid_of_[component] < 0 ? nullptr : grid_.data() + grid_of_[component];
    }
    std::int64_t most_scratch() const { return most_scratch_; }  // doubles that one of these needs
    std::int64_t n_kept() const { return n_kept_; }              // doubles that a curve keeps of all

    // Are the factors of a set at hand?
    PREDGAP_INLINE bool is_filled(std::int32_t set) const { return row_[set] >= 0; }
    // Of sets, numbered from 0: where the factors of one begin, and which of them is that with another.
    PREDGAP_INLINE std::int64_t row(std::int32_t set) const { return row_[set]; }
    PREDGAP_INLINE std::int32_t column(std::int32_t set) const { return column_[set]; }
    // E[tau tau'], and the covariances.
    PREDGAP_INLINE const double* moments() const { return moment_.data(); }
    PREDGAP_INLINE const double* covariances() const { return covariance_.data(); }

private:
    static constexpr std::int64_t kMostSets = 2048;  // of a feature: 64 MB

    void choose_grids(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps);
    void list_used(const RowTerms& terms, std::int32_t n_thresholds);
    void largest_first(const RowTables& tables, std::int32_t q);
    void fill_square(const RowTables& tables, std::int32_t q, bool with_moments,
                     const std::atomic<bool>& stop);

    Buffer<CellGrid> grid_;
    Buffer<std::int32_t> grid_of_;  // (n_components) or -1
    std::int64_t most_scratch_ = 0, n_kept_ = 0;
    Buffer<std::int64_t> row_;
    Buffer<std::int32_t> column_, used_;
    Buffer<std::uint8_t> is_used_;
    Buffer<std::int32_t> begin_, cell_;
    Buffer<std::uint64_t> sorted_, other_side_;
    Buffer<double> reach_, rest_, sign_, member_;
    Buffer<double> moment_, covariance_;  // one square per feature
};

}  // namespace predgap
