// The distribution of a row's change when a subset moves: every combination of cells that the features can
// reach, with its probability and the change of each output.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "model/model.hpp"
#include "noise/row_tables.hpp"

namespace predgap {

class Outcomes {
public:
    // The most that is listed; a row that needs more is not listed.
    static constexpr double kMostOutcomes = 1 << 22;
    static constexpr double kMostAdditions = 1.5e9;  // of one leaf value to one outcome: about a second

    explicit Outcomes(const Model& model);

    // Lists the outcomes of a row whose subset is open; false if there are too many, or if it was stopped.
    bool list(const RowTables& row, const std::atomic<bool>& stop);
    // The least and the largest change that each output's trees could make, (n_outputs, 2): the sums of the
    // least and the largest changes of single trees.
    void range(const RowTables& row, const std::atomic<bool>& stop, double* least_and_most);

    const std::vector<double>& probability() const { return probability_; }  // (n_outcomes)
    const std::vector<double>& change() const { return change_; }            // (n_outputs, n_outcomes)

private:
    // The cells that a feature can be in. A numeric feature has those between the thresholds that it can
    // cross and that some reachable split tests.
    struct Axis {
        std::int32_t feature;
        std::vector<std::int32_t> cut;  // atoms, ascending; none if it is categorical
        std::vector<double> probability;
        std::vector<std::int32_t> category;  // the cell of each entry, if it is categorical
    };
    // The entries of an axis that a walk can still have: a slice of one stack of numbers.
    struct Slice {
        std::size_t begin, end;
        bool empty() const { return begin == end; }
    };
    // A step goes to a node with a slice of an axis (-1: none), or undoes that with the slice of before.
    struct Step {
        std::int32_t node, axis;
        Slice slice;
        std::size_t n_entries;  // that belong to the walk so far
        bool undo;
    };

    void find_axes(const RowTables& row);
    void mark_splits(const EnsembleView& e, const RowTables& row);
    void add_numeric_axis(const RowTables& row, std::int32_t q);
    void add_category_axis(const RowTables& row, std::int32_t q);
    bool goes_left(const EnsembleView& e, const RowTables& row, std::int32_t node, std::int32_t axis,
                   std::int32_t entry) const;

    std::int32_t first_open(const EnsembleView& e, const RowTables& row, std::int32_t node) const;
    // leaf(node): called at each leaf of a tree that the features can get to, with their slices in place.
    template <class Leaf>
    void walk(const EnsembleView& e, const RowTables& row, std::int32_t root, const Leaf& leaf);
    void start_walk(std::int32_t root);
    void fork(const EnsembleView& e, const RowTables& row, std::int32_t node);
    bool moves(const EnsembleView& e, const RowTables& row, std::int32_t root) const;
    void list_leaves(const RowTables& row, std::int32_t root);
    void list_cells(const RowTables& row, const std::atomic<bool>& stop);
    void add_to_box(double by, std::size_t axis, std::size_t at, double* change) const;

    const Model& model_;
    std::vector<std::uint8_t> is_tested_;  // (n_thresholds) by a split that can be reached
    std::vector<std::uint8_t> is_met_;     // (n_features) ... is the feature
    std::vector<Axis> axis_;
    std::vector<std::int32_t> axis_of_;  // (n_features) or -1
    std::vector<std::size_t> stride_;    // (n_axes) of the entries, among the outcomes
    std::vector<Slice> slice_;           // (n_axes)
    std::vector<std::int32_t> entries_;
    std::vector<Step> stack_;
    std::vector<double> probability_, change_;
};

}  // namespace predgap
