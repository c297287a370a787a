// Factors of pairs of sets of categories, for the sets that a row's terms use.
#pragma once

#include <cstdint>

#include "noise/row_tables.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

class SetFactors {
public:
    // Of the terms of several features: one alone is summed over its cells.
    void fill(const RowTerms& terms, const RowTables& tables);

    // Are the factors of a set's feature at hand? If its sets are too many, they are not.
    PREDGAP_INLINE bool is_filled(std::int32_t set) const { return row_[set] >= 0; }
    // Of sets, numbered from 0: where the factors of one begin, and which of them is that with another.
    PREDGAP_INLINE std::int64_t row(std::int32_t set) const { return row_[set]; }
    PREDGAP_INLINE std::int32_t column(std::int32_t set) const { return column_[set]; }
    // E[tau tau'], and the covariances.
    PREDGAP_INLINE const double* moments() const { return moment_.data(); }
    PREDGAP_INLINE const double* covariances() const { return covariance_.data(); }

private:
    static constexpr std::int64_t kMostSets = 2048;  // of a feature: 64 MB
    void list_used(const RowTerms& terms, std::int32_t n_thresholds);

    Buffer<std::int64_t> row_;
    Buffer<std::int32_t> column_, used_;
    Buffer<std::uint8_t> is_used_;
    Buffer<double> moment_, covariance_;  // one square per feature
};

}  // namespace predgap
