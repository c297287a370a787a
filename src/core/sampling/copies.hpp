// Perturbed copies of one row, as cells: where each feature is among its thresholds, or among its categories.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.hpp"
#include "sampling/inverse_transform.hpp"

namespace predgap {

constexpr std::int32_t kMissingCell = -1;

// The cell of a value of a feature that some split uses; of a categorical one, the value is its cell.
std::int32_t cell_of(const Model& model, std::int32_t q, double x);

// The cells of a feature before and after it moves.
struct Move {
    std::int32_t now, then;
};

class Copies {
public:
    explicit Copies(const Model& model);
    Copies(Copies&&) = default;
    virtual ~Copies() = default;

    const Model& model() const { return model_; }
    // The row's own cells, (n_features).
    std::span<const std::int32_t> own() const { return own_; }
    // True if anything is missing, in the row or in a copy of it.
    bool has_missing() const { return has_missing_; }
    // The copies first ... first + n - 1, if all features move: moves (n, n_features).
    virtual void locate(std::int64_t first, std::int64_t n, Move* moves) const = 0;

protected:
    // x(q): the value of a feature.
    template <class Value>
    void set_own(Value x) {
        has_missing_ = false;
        for (const auto q : model_.features) {
            own_[q] = cell_of(model_, q, x(q));
            has_missing_ = has_missing_ || own_[q] == kMissingCell;
        }
    }

    const Model& model_;
    std::vector<std::int32_t> own_;
    bool has_missing_ = false;
};

// Points of the unit cube, the same for all rows, in replicates: independent randomisations of one sequence.
struct SharedPoints {
    SharedPoints(const double* points, std::int32_t n_columns, const std::int32_t* column,
                 std::span<const std::int64_t> look_end, int n_replicates);

    const double* points;  // (n_points, n_columns)
    std::int32_t n_columns;
    const std::int32_t* column;              // (n_features) the coordinate of each feature, -1 for none
    std::span<const std::int64_t> look_end;  // each look holds as many points of every replicate, in turn
    int n_replicates;
    std::vector<double> lowest, highest;  // (n_columns)
};

// Copies by independent noise, one for each point.
class SampledCopies final : public Copies {
public:
    SampledCopies(const Model& model, const SharedPoints& points);

    // The features that are open in the row's tables move.
    void load(const RowTables& row);

    // can_cross: true if the feature can change cells; crosses: true if it does at any of the points.
    bool can_cross(std::int32_t q) const { return can_cross_[q]; }
    bool crosses(std::int32_t q) const { return crosses_[q]; }

    void locate(std::int64_t first, std::int64_t n, Move* moves) const override;

private:
    bool leaves_cell(const RowTables& row, std::int32_t q) const;

    const SharedPoints& points_;
    std::vector<Axis> axis_;  // (n_features)
    std::vector<std::uint8_t> can_cross_, crosses_;
};

// The cells of given rows.
struct RowCells {
    RowCells(const Model& model, const double* rows, std::int64_t n_rows);

    std::int64_t n_rows;
    std::vector<std::int32_t> cell;  // (n_rows, n_features)
    bool has_missing = false;
};

// Copies that take the values of given rows, one for each of them.
class RedrawnCopies final : public Copies {
public:
    RedrawnCopies(const Model& model, const RowCells& rows) : Copies(model), rows_(rows) {}

    void load(const double* x);  // (n_features)
    void locate(std::int64_t first, std::int64_t n, Move* moves) const override;

private:
    const RowCells& rows_;
};

}  // namespace predgap
