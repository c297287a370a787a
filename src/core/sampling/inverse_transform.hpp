// A feature's cells along the unit interval.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"
#include "noise/row_tables.hpp"

namespace predgap {

// x' < c exactly where a point of the unit interval is below F = P(x' < c), which is the inverse transform
// for every law, without inverting anything.
class Axis {
public:
    // Fills the axis of a feature that moves in this row.
    void fill(const RowTables& row, const EnsembleView& e, const Atoms& atoms, std::int32_t q) {
        list_below(row, e, atoms, q);
        bucket_.clear();
        n_buckets_ = static_cast<double>(std::clamp(std::bit_ceil(below_.size()), kFewest, kMost));
        std::int32_t cell = 0;
        for (double b = 0; b < n_buckets_; ++b) {
            while (below_[cell] <= b / n_buckets_) ++cell;
            bucket_.push_back(cell);
        }
    }

    std::int32_t cell(double u) const {
        auto cell = bucket_[static_cast<int>(u * n_buckets_)];
        while (below_[cell] <= u) ++cell;
        return cell;
    }

private:
    static constexpr std::size_t kFewest = 256, kMost = 1 << 16;

    // Lists the ends of the feature's cells in the unit interval; no point is past the last.
    void list_below(const RowTables& row, const EnsembleView& e, const Atoms& atoms, std::int32_t q) {
        below_.clear();
        for (auto a = atoms.begin[q]; a < atoms.begin[q + 1]; ++a) below_.push_back(row.F(a));
        if (e.cells->categorical(q)) {
            const auto n = e.cells->count(q), own = static_cast<std::int32_t>(row.value(q));
            const auto* noise = row.laws().categories;
            double sum = 0.0;
            for (std::int32_t cell = 0; cell + 1 < n; ++cell)
                below_.push_back(sum += (cell == own ? noise->stay : noise->mass)[e.cells->begin[q] + cell]);
        }
        below_.push_back(2.0);
    }

    std::vector<double> below_;         // F at the feature's thresholds, or after its categories; then 2
    double n_buckets_ = kFewest;        // of the unit interval, to find a cell in about one step
    std::vector<std::int32_t> bucket_;  // cell of each bucket's left end
};

}  // namespace predgap
