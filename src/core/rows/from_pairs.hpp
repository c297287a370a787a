// Answers from pairs of leaves, gap by gap: exact, and possible whatever the model.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/routes.hpp"
#include "rows/from_terms.hpp"

namespace predgap {

// The pairs of leaves of a row.
class RowPairs {
public:
    RowPairs(const Routes& routes, RowTables& tables, RowWork& work)
        : routes_(routes), tables_(tables), work_(work) {}

    // Another row is in place.
    void begin() { memory_.work = &work_; }

    Pairs::Result gap(const std::uint8_t* subset);
    // Counts the nanoseconds of a gap, on some of the leaves.
    double counted_nanoseconds(const std::uint8_t* subset);
    // These return what a tolerance would be relative to, as those from terms do.
    double curve(const Units& units, const std::int32_t* order, std::int32_t n, double* gaps);
    void subset_gaps(const Units& units, const std::int32_t* chosen, std::int32_t m, double* gaps);
    double greedy(const Units& units, const Places& places);
    double beam(SearchOf& search);
    // Of the open features. The covariances of different outputs are left.
    void moments(double* change, double* covariance);
    void mean_change(double* change);

private:
    bool stopped() const { return work_.stopped(); }
    void begin_subset() { subset_.assign(static_cast<std::size_t>(routes_.model.n_features()), 0); }
    void set(const FeatureList& features, std::uint8_t flag) {
        for (const auto q : features) subset_[static_cast<std::size_t>(q)] = flag;
    }

    const Routes& routes_;
    RowTables& tables_;
    RowWork& work_;
    Pairs::Scratch memory_;
    std::vector<std::uint8_t> subset_;  // (n_features)
};

}  // namespace predgap
