// Walks of many perturbed copies of one row through whole trees, for many subsets at once: a copy's path
// changes only where a feature that joins the subset turns off it, so subsets that differ by a feature share
// almost all of their walks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/ensemble.hpp"
#include "sampling/inverse_transform.hpp"

namespace predgap {

// Points of the unit points, the same for all rows, in replicates: independent randomisations of one
// sequence.
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

// The trees, with all that a visit needs in one place.
struct Forest {
    Forest(const EnsembleView& e, const Atoms& atoms);

    struct Node {
        std::int32_t feature;   // any at a leaf
        std::int32_t test;      // right iff the cell is past this place among the thresholds; or ~(a set)
        std::int32_t child[2];  // a leaf is its own child
    };
    static constexpr std::int32_t kMissing = -1;  // a cell

    const EnsembleView& e;
    const Atoms& atoms;
    std::vector<Node> node;  // numbered as in e
    std::int32_t depth;
    bool has_sets = false;
};

class Walker {
public:
    Walker(const Forest& forest, const SharedPoints& points);

    // How many points to walk through one tree before the next: their arrays should stay in the cache.
    static std::int64_t batch(std::int64_t n_features) {
        return std::clamp<std::int64_t>((1 << 17) / std::max<std::int64_t>(n_features, 1), 8, 256);
    }

    // The features that are open in the row's tables move.
    void load(const RowTables& row);

    // Can the feature change cells? Does it, at any point of the points?
    bool can_cross(std::int32_t q) const { return can_cross_[q]; }
    bool crosses(std::int32_t q) const { return crosses_[q]; }

    // At the points first ... first + n - 1: change[p] = f(x') - f(x) when the features that are `taken`
    // move, and more[p * n_features + q] = what is added to it when q moves too, for the open features q.
    void candidates(std::int64_t first, std::int64_t n, const std::uint8_t* taken, const std::uint8_t* open,
                    double* change, double* more);

    // more[p * n_places + k] = what the feature at place k of the order adds to f(x') - f(x) when it joins
    // those before it.
    void prefixes(std::int64_t first, std::int64_t n, const std::int32_t* order, std::int32_t n_places,
                  double* more);

private:
    struct Cells {
        std::int32_t now, then;  // before and after the feature joins the subset
    };
    struct Divergence {  // where a point's path parts if a feature joins
        std::int32_t point, feature, to;
    };
    struct Prefix {                         // a point, with the first k features of the order moved
        std::int32_t point, k, next, leaf;  // next: the first place, from k on, that turns off the path
    };

    std::int32_t own_cell(const RowTables& row, std::int32_t q) const;
    bool leaves_cell(const RowTables& row, std::int32_t q) const;
    void locate(std::int64_t first, std::int64_t n);
    template <bool kPlain>
    bool goes_right(std::int32_t at, std::int32_t cell) const;
    template <class GoesRight>
    void walk(GoesRight goes_right);
    template <bool kPlain>
    void walk_candidates(std::size_t tree, double* change, double* more);
    template <bool kPlain>
    void walk_prefixes(std::size_t tree, std::int32_t n_places, double* more);
    template <bool kPlain>
    std::span<const Divergence> find_turns(std::size_t tree);

    const Forest& forest_;
    const SharedPoints& points_;
    std::int64_t d_;
    std::vector<Axis> axis_;                // (n_features)
    std::vector<std::int32_t> own_, leaf_;  // the row's cells, (n_features), and leaves, (n_trees)
    std::vector<std::uint8_t> can_cross_, crosses_;
    bool is_plain_ = false;  // nothing but thresholds, and nothing missing
    // Of the points that are walked now.
    std::int64_t n_ = 0;
    std::vector<Cells> cells_;        // (n, n_features)
    std::vector<std::int32_t> at_;    // where walks are
    std::vector<std::int32_t> base_;  // (n) leaves
    std::vector<Divergence> turn_;    // room for as many as there may be
    std::vector<std::size_t> seen_;   // (n, n_features) the last tree in which the feature turned
    std::vector<Prefix> prefix_;
    std::vector<std::int32_t> place_;  // (n_features + 1) in the order
};

}  // namespace predgap
