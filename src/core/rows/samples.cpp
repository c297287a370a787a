#include "rows/samples.hpp"

#include <algorithm>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

// The coordinate of each feature of a subset, -1 for the others.
std::vector<int32_t> columns_of(const uint8_t* subset, int32_t n_features) {
    std::vector<int32_t> column(static_cast<std::size_t>(n_features), -1);
    for (int32_t q = 0, next = 0; q < n_features; ++q)
        if (subset[q]) column[static_cast<std::size_t>(q)] = next++;
    return column;
}

}  // namespace

void sums_of_changes(IndependentRow& solver, int32_t output, const uint8_t* subset, const Points& points,
                     int64_t row, PowerSums* sums) {
    auto& tables = solver.tables();
    const auto& model = tables.model();
    const auto column = columns_of(subset, model.n_features());
    tables.open(subset);
    solver.plan(nominal::kSampledLevel * static_cast<double>(points.n_points) * least_nodes(model));
    Sampler sampler(model.output[static_cast<std::size_t>(output)], model.atoms);
    sampler.reduce(tables, column.data(), points.n_columns);
    const auto* first = points.of_row(row);
    int64_t begin = 0;
    for (const auto end : points.stretch_end) {
        *sums++ = sampler.evaluate(first + begin * points.n_columns, end - begin, solver.stop());
        begin = end;
    }
}

void changes_at_points(IndependentRow& solver, const uint8_t* subset, const Points& points, int64_t row,
                       double* changes) {
    auto& tables = solver.tables();
    const auto& model = tables.model();
    const auto column = columns_of(subset, model.n_features());
    tables.open(subset);
    for (const auto& output : model.output) {
        Sampler sampler(output, model.atoms);
        sampler.reduce(tables, column.data(), points.n_columns);
        sampler.list(points.of_row(row), points.n_points, solver.stop(), changes);
        changes += points.n_points;
    }
}

void squares_of_prefixes(const Independent::Walks& walks, const SharedPoints& points, const int32_t* order,
                         int32_t n_places, double* sums) {
    const auto n_points = points.look_end.back();
    const auto batch = Walker::batch(n_places);
    const auto& stop = walks.solver.stop();
    std::vector<double> more(static_cast<std::size_t>(batch * n_places));
    for (auto& walker : walks.walkers)
        for (int64_t first = 0; first < n_points && !stop; first += batch) {
            const auto n = std::min(batch, n_points - first);
            walker.prefixes(first, n, order, n_places, more.data());
            for (int64_t p = 0; p < n; ++p) {
                const auto replicate = (first + p) * points.n_replicates / n_points;
                double *sum = sums + replicate * n_places, change = 0.0;
                for (int64_t k = 0; k < n_places; ++k) {
                    change += more[static_cast<std::size_t>(p * n_places + k)];
                    sum[k] += change * change;
                }
            }
        }
}

}  // namespace predgap
