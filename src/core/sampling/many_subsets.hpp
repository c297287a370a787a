// Walks of many perturbed copies of one row through whole trees, for many subsets at once: a copy's path
// changes only where a feature that joins the subset turns off it, so subsets that differ by a feature share
// almost all of their walks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/ensemble.hpp"
#include "model/units.hpp"
#include "sampling/copies.hpp"

namespace predgap {

// The trees, with all that a visit needs in one place.
struct Forest {
    Forest(const EnsembleView& e, const Atoms& atoms);

    // kPlain: there are only thresholds, and nothing is missing.
    template <bool kPlain>
    bool goes_right(std::int32_t at, std::int32_t cell) const {
        const auto test = node[at].test;
        if (!kPlain && cell == kMissingCell) return missing_goes_right[at];
        if (!kPlain && test < 0) return !holds(e.cells->set(~test), cell);
        return cell > test;
    }
    // The number of splits on the way of these cells (n_features) from a root.
    std::int32_t path_length(std::int32_t root, const std::int32_t* cells) const;

    struct Node {
        std::int32_t feature;   // any at a leaf
        std::int32_t test;      // right iff the cell is past this place among the thresholds; or ~(a set)
        std::int32_t child[2];  // a leaf is its own child
    };

    const EnsembleView& e;
    const Atoms& atoms;
    std::vector<Node> node;                        // numbered as in e
    std::vector<std::uint8_t> missing_goes_right;  // beside node; not at a leaf, where nothing turns
    std::int32_t depth;
    bool has_sets = false;
};

class Walker {
public:
    Walker(const Forest& forest, const Units& units);

    // The number of copies to walk through one tree before the next: their arrays should stay in the cache.
    static std::int64_t batch(std::int64_t width) {
        return std::clamp<std::int64_t>((1 << 17) / std::max<std::int64_t>(width, 1), 8, 256);
    }

    std::size_t n_trees() const { return leaf_.size(); }

    // The copies of a row, which stay as they are until the next are loaded.
    void load(const Copies& copies);

    // Writes, for the copies first ... first + n - 1, change[p] = f(x') - f(x) when the units that are
    // `taken` move, and more[p * n_units + u] = what is added to it when u moves too, for the open units u.
    void candidates(std::int64_t first, std::int64_t n, const std::uint8_t* taken, const std::uint8_t* open,
                    double* change, double* more);
    // The sum over copies and trees of the squared change of each tree, after candidates(): with the units
    // that are taken; and, over the paths that unit u turns off, with u taken too.
    double taken_squares() const { return taken_squares_; }
    double turned_squares(std::int32_t u) const { return turned_squares_[u]; }

    // Writes more[p * n_places + k] = what the unit at place k of the order adds to f(x') - f(x) when it
    // joins those before it.
    void prefixes(std::int64_t first, std::int64_t n, const std::int32_t* order, std::int32_t n_places,
                  double* more);

private:
    struct Divergence {  // where a copy's path parts if a unit joins
        std::int32_t copy, unit, to;
    };
    struct Prefix {                        // a copy, with the first k units of the order moved
        std::int32_t copy, k, next, leaf;  // next: the first place, from k on, that turns off the path
    };

    void locate(std::int64_t first, std::int64_t n);
    template <class GoesRight>
    void walk(GoesRight goes_right);
    template <bool kPlain>
    void walk_candidates(std::size_t tree, double* change, double* more);
    template <bool kPlain>
    void walk_prefixes(std::size_t tree, std::int32_t n_places, double* more);
    template <bool kPlain>
    std::span<const Divergence> find_turns(std::size_t tree);

    const Forest& forest_;
    const Units& units_;
    const Copies* copies_ = nullptr;
    std::int64_t d_;
    std::vector<std::int32_t> leaf_;  // (n_trees) the row's
    bool is_plain_ = false;           // nothing but thresholds, and nothing missing
    // The state of the copies that are walked now.
    std::int64_t n_ = 0;
    std::vector<Move> moves_;         // (n, n_features)
    std::vector<std::int32_t> at_;    // where walks are
    std::vector<std::int32_t> base_;  // (n) leaves
    std::vector<Divergence> turn_;    // room for as many as there may be
    std::vector<std::size_t> seen_;   // (n, n_units) the last tree in which the unit turned
    std::vector<double> squares_;     // (n) of the changes of trees
    double taken_squares_ = 0.0;
    std::vector<double> turned_squares_;  // (n_units)
    std::vector<Prefix> prefix_;
    std::vector<std::int32_t> place_;  // (n_features + 1) in the order
};

}  // namespace predgap
