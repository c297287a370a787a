// The pairs strategy: sums over pairs of reachable leaves. Slower than terms on shallow trees, but its cost
// does not explode with depth.
#pragma once

#include <cstdint>

#include "pairs/reduced_trees.hpp"

namespace predgap {

class Pairs {
public:
    struct Result {
        double gap;          // E[(sum of g_t)^2]
        double error_scale;  // see docs/internals.md
    };
    Pairs(const EnsembleView& e, const Atoms& atoms) : e_(e), atoms_(atoms) {}

    // A walk's state, reused from subset to subset.
    struct Scratch {
        RowWork* work = nullptr;
        ReducedTrees trees;
    };

    // Counts the nanoseconds of a gap: the walk, and the pairs of some of the leaves.
    double counted_nanoseconds(Scratch& s, const RowTables& row) const;

    // The features that are open in the row's tables move.
    Result gap(Scratch& s, const RowTables& row) const;
    double mean_change(Scratch& s, const RowTables& row) const;
    struct Spread {
        double mean_change, variance;
    };
    Spread spread(Scratch& s, const RowTables& row) const;

    // A rough count of the leaves that a row reaches, and of the splits that eight of them meet.
    struct Work {
        double leaves, splits, bytes;
        double walked = 0.0;  // nodes, to count them
    };
    Work work(const std::uint8_t* perturbed, const RowTables& row) const;
    // Estimates the work if all trees are alike and all features are numeric.
    static Work work(double n_leaves, double n_trees, double n_features);

private:
    struct Reach {
        double leaves;
        double depth;   // perturbed splits on a path, at most
        double walked;  // nodes
    };
    Reach reachable(std::int32_t root, const std::uint8_t* perturbed, const RowTables& row) const;
    double bytes_per_interval() const;

    const EnsembleView& e_;
    const Atoms& atoms_;
};

}  // namespace predgap
