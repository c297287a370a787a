// What a row can reach when a subset moves: every tree without the splits that x decides, and its leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ensemble.hpp"
#include "kernels.hpp"

namespace predgap {

// One row of a block: neighbouring items lie `stride` doubles apart.
struct RowTables {
    const double *x, *below, *above;
    std::int64_t stride;
    const CategoryNoise* categories;  // null if all features are numeric

    double value(std::int32_t q) const { return x[q * stride]; }
    double F(std::int64_t atom) const { return below[atom * stride]; }
    double S(std::int64_t atom) const { return above[atom * stride]; }
    // P(x' in the cells): what arrives there, or, where x is in one of them, all but what arrives elsewhere.
    double mass(std::int32_t q, const std::uint64_t* cells) const;

    // Where the row goes from a split, and in the end.
    std::int32_t child(const EnsembleView& e, std::int32_t node) const {
        return e.goes_left(node, value(e.feature[node])) ? e.left[node] : e.right[node];
    }
    std::int32_t leaf(const EnsembleView& e, std::int32_t node) const {
        while (e.feature[node] != kLeaf) node = child(e, node);
        return node;
    }
};

// The values of the leaves below each node.
struct ValueRange {
    std::vector<double> least, most;  // (n_nodes)
    explicit ValueRange(const EnsembleView& e);
    // How far a value below the node is from this one, at most.
    double from(double value, std::int32_t node) const;
};

class Reached {
public:
    // Where a box lets a feature be: between two atoms, or, if it is categorical, in the cells that begin at
    // lo in `sets`; -1 for no limit.
    struct Interval {
        std::int32_t feature;
        std::int64_t lo, hi;
        double mass;
    };
    struct Leaf {
        double residual, probability;
        std::int64_t interval_begin, interval_end;
    };

    std::vector<MetNode> node;             // children after their parents; nothing gets to node 0
    std::vector<std::int32_t> root;        // (n_trees)
    std::vector<std::int64_t> leaf_begin;  // (n_trees + 1)
    std::vector<Leaf> leaf;                // those with a residual
    std::vector<Interval> interval;
    std::vector<std::int32_t> slot;     // (n_features) of a perturbed feature
    std::vector<std::int32_t> feature;  // (n_slots)
    Bits sets;
    std::int32_t deepest = 0;  // splits on a path, at most
    double error_scale = 0;    // see docs/development.md
    double largest = 0;        // |f(x') - f(x)|, at most
    double dropped = 0;        // the gap without the branches left out is off by this, at most

    // perturbed[q]: the feature is in the subset, is a finite number, and the noise moves it. A branch is
    // left out if that changes the gap by `limit` at most; by 0, none is. False if the rest takes more than
    // most_bytes.
    bool find(const EnsembleView& e, const Atoms& atoms, const ValueRange& values, const RowTables& row,
              const std::uint8_t* perturbed, double limit, double most_bytes);

private:
    double bytes() const {
        return static_cast<double>(node.size() * sizeof(MetNode) + leaf.size() * sizeof(Leaf) +
                                   interval.size() * sizeof(Interval) + sets.size() * sizeof(sets[0]));
    }

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
    std::vector<std::int32_t> first_above_, n_limits_, used_;
    Bits walked_;  // cells that the walk allows
};

}  // namespace predgap
