// The way in which the forms of a row's components with categories are evaluated: over cells, or over pairs
// of terms, with the determinants of pairs of sets that these need.
#pragma once

#include <cstdint>
#include <vector>

#include "noise/row_tables.hpp"
#include "terms/grid_choice.hpp"
#include "terms/kept_sets.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

class SetFactors {
public:
    // n_steps: see GridChoice. All rows have the same noise.
    void fill(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps,
              const RowWork& work);

    // The cells of a component that is evaluated over them, else null.
    PREDGAP_INLINE const CellGrid* grid(std::int64_t component) const {
        return grid_of_[component] < 0 ? nullptr : grid_.data() + grid_of_[component];
    }
    std::int64_t most_scratch() const { return most_scratch_; }  // doubles that one of these needs
    std::int64_t n_kept() const { return n_kept_; }              // doubles that a curve keeps of all
    // The nanoseconds of the form of a component with categories.
    PREDGAP_INLINE double nanoseconds(std::int64_t component) const { return nanoseconds_[component]; }
    double used_bytes() const;

    // The determinants of a set, numbered from 0, with the others that this row's pairs of terms have, or
    // null; and which of them is that with a set.
    PREDGAP_INLINE const double* row(std::int32_t set) const { return row_[set]; }
    PREDGAP_INLINE std::int32_t column(std::int32_t set) const { return number_[set]; }

private:
    void choose_grids(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps);
    void list_used(const RowTerms& terms, const RowTables& tables);

    Buffer<CellGrid> grid_;
    Buffer<std::int32_t> grid_of_;  // (n_components) or -1
    Buffer<double> nanoseconds_;    // (n_components) 0 without categories
    std::int64_t most_scratch_ = 0, n_kept_ = 0;
    std::vector<KeptSets> kept_;   // (n_features)
    Buffer<std::int32_t> number_;  // (n_sets) among those that are kept, or -1
    Buffer<const double*> row_;    // (n_sets)
    Buffer<std::int32_t> used_;
    Buffer<std::uint8_t> is_used_;  // (n_sets)
};

}  // namespace predgap
