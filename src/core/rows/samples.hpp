// Samples of one row: sums over points, and the changes of the prediction at points.
#pragma once

#include <cstdint>
#include <span>

#include "rows/independent.hpp"
#include "sampling/sampling.hpp"

namespace predgap {

// Points of the unit cube, one coordinate per feature of the subset, ascending.
struct Points {
    const double* data;  // (n_sets, n_points, n_columns): one set for all rows, or one per row
    bool shared;
    std::int64_t n_points;
    std::int32_t n_columns;
    std::span<const std::int64_t> stretch_end;  // ascending; the last is n_points
    const double* of_row(std::int64_t row) const { return data + (shared ? 0 : row) * n_points * n_columns; }
};

// Sums of the changes of one output over stretches of points, (n_stretches), when a subset moves.
void sums_of_changes(IndependentRow& solver, std::int32_t output, const std::uint8_t* subset,
                     const Points& points, std::int64_t row, PowerSums* sums);
// f(x') - f(x) at each point, (n_outputs, n_points).
void changes_at_points(IndependentRow& solver, const std::uint8_t* subset, const Points& points,
                       std::int64_t row, double* changes);
// Sums of the squared changes of the prefixes of an order, over all outputs, (n_replicates, n_places).
void squares_of_prefixes(const Independent::Walks& walks, const SharedPoints& points,
                         const std::int32_t* order, std::int32_t n_places, double* sums);

}  // namespace predgap
