// Finds the cells of a row, and of its copies by independent noise or by the values of other rows.
#include "sampling/copies.hpp"

#include <algorithm>
#include <cmath>

namespace predgap {

using std::int32_t;
using std::int64_t;

int32_t cell_of(const Model& model, int32_t q, double x) {
    if (std::isnan(x)) return kMissingCell;
    if (model.cells.categorical(q)) return static_cast<int32_t>(x);
    const auto begin = model.atoms.threshold.begin();
    const auto first = begin + model.atoms.begin[q], last = begin + model.atoms.begin[q + 1];
    return static_cast<int32_t>(std::upper_bound(first, last, x) - first);
}

Copies::Copies(const Model& model) : model_(model), own_(static_cast<std::size_t>(model.n_features()), 0) {}

// ---- by independent noise --------------------------------------------------------------------------------

SharedPoints::SharedPoints(const double* p, int32_t columns, const int32_t* column_of,
                           std::span<const int64_t> ends, int replicates)
    : points(p),
      n_columns(columns),
      column(column_of),
      look_end(ends),
      n_replicates(replicates),
      lowest(static_cast<std::size_t>(columns), 1.0),
      highest(static_cast<std::size_t>(columns), 0.0) {
    const int64_t n_points = ends.empty() ? 0 : ends.back();
    for (int64_t i = 0; i < n_points * columns; ++i) {
        lowest[i % columns] = std::min(lowest[i % columns], p[i]);
        highest[i % columns] = std::max(highest[i % columns], p[i]);
    }
}

SampledCopies::SampledCopies(const Model& model, const SharedPoints& points)
    : Copies(model), points_(points), axis_(own_.size()), can_cross_(own_.size()), crosses_(own_.size()) {}

// True if any other cell has mass. The tail on the cell's own far side tells: 1 - F has lost what S still
// knows.
bool SampledCopies::leaves_cell(const RowTables& row, int32_t q) const {
    const auto& cells = model_.cells;
    if (cells.categorical(q)) {
        const double* arriving = row.laws().categories->mass.data() + cells.begin[q];
        for (int32_t cell = 0; cell < cells.count(q); ++cell)
            if (cell != own_[q] && arriving[cell] > 0) return true;
        return false;
    }
    const auto& begin = model_.atoms.begin;
    const auto above = begin[q] + own_[q];  // the threshold at the cell's upper end, if it has one
    return (above > begin[q] && row.F(above - 1) > 0) || (above < begin[q + 1] && row.S(above) > 0);
}

void SampledCopies::load(const RowTables& row) {
    set_own([&](int32_t q) { return row.value(q); });
    for (const auto q : model_.features) {
        can_cross_[q] = crosses_[q] = 0;
        const auto c = points_.column[q];
        if (!row.is_open[q] || c < 0) continue;
        axis_[q].fill(row, model_.all_trees, model_.atoms, q);
        can_cross_[q] = leaves_cell(row, q);
        crosses_[q] =
            axis_[q].cell(points_.lowest[c]) != own_[q] || axis_[q].cell(points_.highest[c]) != own_[q];
    }
}

void SampledCopies::locate(int64_t first, int64_t n, Move* moves) const {
    const auto d = static_cast<int64_t>(own_.size());
    for (int64_t p = 0; p < n; ++p) {
        const double* point = points_.points + (first + p) * points_.n_columns;
        for (int64_t q = 0; q < d; ++q)
            moves[p * d + q] = {own_[q], crosses_[q] ? axis_[q].cell(point[points_.column[q]]) : own_[q]};
    }
}

// ---- by the values of other rows -------------------------------------------------------------------------

RowCells::RowCells(const Model& model, const double* rows, int64_t n)
    : n_rows(n), cell(static_cast<std::size_t>(n * model.n_features()), 0) {
    for (int64_t r = 0; r < n; ++r)
        for (const auto q : model.features) {
            const auto at = r * model.n_features() + q;
            cell[at] = cell_of(model, q, rows[at]);
            has_missing = has_missing || cell[at] == kMissingCell;
        }
}

void RedrawnCopies::load(const double* x) {
    set_own([x](int32_t q) { return x[q]; });
    has_missing_ = has_missing_ || rows_.has_missing;
}

void RedrawnCopies::locate(int64_t first, int64_t n, Move* moves) const {
    const auto d = static_cast<int64_t>(own_.size());
    const auto* cell = rows_.cell.data() + first * d;
    for (int64_t i = 0; i < n * d; ++i) moves[i] = {own_[i % d], cell[i]};
}

}  // namespace predgap
