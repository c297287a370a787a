// Answers from the terms of a row that are in place. Each begins with the row's own weights. Those that a
// tolerance is relative to are returned.
#pragma once

#include <cstdint>
#include <span>

#include "terms/placed.hpp"
#include "terms/subset_gaps.hpp"

namespace predgap {

// A ranking of the first n units.
struct Places {
    std::int32_t n;
    std::int32_t* order;   // (n) units
    double* score;         // (n_units) written for those that are ranked, NaN for the others
    std::uint8_t* proven;  // (n)
};

// A search for a good order of some units.
struct SearchOf {
    const Units& units;
    std::span<const std::int32_t> chosen;
    std::int32_t n_places, width;
    std::int32_t* order;
    double* gaps;
};

// Shares of the variance, when all features move. The sums over components are not divided yet.
struct Shares {
    double& variance;
    double *first, *total, *shapley;  // (n_units)
    double* interaction;              // (n_units, n_units) symmetric, 0 on the diagonal
};

// The gap when all open features move.
double gap_of(Placed& terms);
// The scale of its rounding error.
double error_scale_of(const Placed& terms);

// The gaps of the prefixes of an order, (n); their mean.
double curve_of(Placed& terms, const Units& units, const std::int32_t* order, std::int32_t n, double* gaps);

// The gaps of all subsets of m units, (2^m).
void subset_gaps_of(Placed& terms, SubsetGaps& memory, const Units& units, const std::int32_t* chosen,
                    std::int32_t m, double* gaps);

// The greedy ranking; the gap of all units in it. A place is proven if the choice is the same wherever the
// gaps are within their bounds.
double greedy_of(Placed& terms, const Units& units, const Places& places);

// A beam search; the mean of the gaps of the prefixes that it found.
double beam_of(Placed& terms, SearchOf& search);

// E[f(x')] - f(x) of each output, and the covariances of the outputs, (n_outputs, n_outputs); off the
// diagonal they are left if each output has trees of its own.
void moments_of(Placed& terms, double* change, double* covariance);

// Shares of the variance; the variance.
double shares_of(Placed& terms, const Units& units, const Shares& shares);

// The weights of the main effects of a model with one output, (n_thresholds); the gap.
double main_weights_of(Placed& terms, double* weights);

// ---- beside the terms ------------------------------------------------------------------------------------

// The places of an order that have a feature of the trees; at the others the gap stays as it is.
std::vector<std::int32_t> used_places(const Model& model, const Units& units, const std::int32_t* order,
                                      std::int32_t n);
// All gaps from those of the used places; their mean.
double fill_places(const std::vector<std::int32_t>& used, const std::vector<double>& found, std::int32_t n,
                   double* gaps);
// Says of each unit whether it can change anything.
std::vector<std::uint8_t> open_units(const RowTables& tables, const Units& units);
void leave_unranked(const Units& units, const Places& places);

}  // namespace predgap
