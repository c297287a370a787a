// The trees that a row can reach when a subset moves: every tree without the splits that x decides, and its
// leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"
#include "model/row_work.hpp"
#include "noise/row_tables.hpp"
#include "pairs/leaf_group.hpp"

namespace predgap {

class ReducedTrees {
public:
    // The values that a box allows of a feature: between two atoms, or, if it is categorical, the cells that
    // begin at lo in `sets`; -1 for no limit.
    struct Interval {
        std::int32_t feature;
        std::int64_t lo, hi;
        double mass;
    };
    struct Leaf {
        double residual, probability;
        std::int64_t interval_begin, interval_end;
    };

    std::vector<ReducedNode> node;         // children after their parents; nothing gets to node 0
    std::vector<std::int32_t> root;        // (n_trees)
    std::vector<std::int64_t> leaf_begin;  // (n_trees + 1)
    std::vector<Leaf> leaf;                // those with a residual
    std::vector<Interval> interval;
    std::vector<std::int32_t> slot;     // (n_features) of a perturbed feature
    std::vector<std::int32_t> feature;  // (n_slots)
    Bits sets;
    std::int32_t deepest = 0;  // splits on a path, at most
    double error_scale = 0;    // see docs/internals.md

    // The features that are open in the row's tables move.
    void find(const EnsembleView& e, const Atoms& atoms, const RowTables& row, RowWork& work);
    // The bytes of all of it, but for the room that rows before have left.
    double bytes() const;
    // The mean change of each tree, which is subtracted from the means of its nodes.
    std::vector<double> centre();

private:
    struct Step {
        std::int32_t node, feature;  // or kLeaf at a root
        std::int64_t lo, hi;         // of the feature from here on
        double mass, share, probability;
        std::int32_t parent, side, depth;  // among the nodes here
        std::size_t sets_end;              // size of `sets` as the step needs it
        bool undo;
    };
    class Walk;

    std::vector<Step> stack_;
    std::vector<std::int64_t> lo_, hi_;
    std::vector<double> mass_;
    std::vector<std::int32_t> n_limits_, used_;
    Bits walked_;  // cells that the walk allows
};

}  // namespace predgap
