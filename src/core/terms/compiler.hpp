// Terms compiled for one row: its trees rewritten as turn boxes, multiplied out and merged, without what its
// noise cannot reach or hardly reaches.
//
// For every z, T(z) = T(x) + sum over splits v of 1[z reaches w] (m_w - m_u), where u is the child of v that
// x goes to, w the other one, and m the value that x has when it is routed from there. The box of w has, for
// each feature on its path, a lower and an upper bound; its indicator is the product over features of
// 1[x is inside] + tau_upper - tau_lower.
#pragma once

#include <cstdint>
#include <vector>

#include "model/row_work.hpp"
#include "noise/row_tables.hpp"
#include "terms/left_out.hpp"
#include "terms/main_effects.hpp"
#include "terms/term_store.hpp"
#include "terms/turns.hpp"

namespace predgap {

// Units that probably take the first places, if any are named: terms have features of at most one other unit.
struct Likely {
    const std::uint8_t* feature = nullptr;  // (n_features) 1 if its unit is likely; null: all terms count
    const std::int32_t* unit = nullptr;     // (n_features)

    explicit operator bool() const { return feature != nullptr; }
};

// The rules for what may be left out. A piece is left out if its size, an upper bound of what it changes on
// average, is at most `limit`; in an exact compilation (limit = 0) if it is so small beside the main effects
// of its features that no rounded sum would show it.
struct Pruning {
    double limit = 0.0;
    double negligible = 0.0;              // times the largest main effect of a piece's features
    const double* main_effect = nullptr;  // (n_features) gap of each feature alone; null if not known yet
    const double* amplitude = nullptr;    // (n_atoms) how much more a crossing counts than its probability
    Likely likely;
    double most_entries = kMostEntries;  // where there are more, the work ends

    static constexpr double kMostEntries = 4e7;
    // The share of a gap below which pieces do not show in it, were there ever so many: half an ulp over
    // 2^24.
    static constexpr double kNegligible = 0x1p-77;
    static constexpr double kLowOrder = 0.1;  // of the limit: terms of two features feed all others
};

// The counts of what a compilation did, or would do.
struct CompileCounts {
    double n_nodes = 0;        // of trees that were looked at
    double n_entries = 0;      // signed terms, before they are merged
    double mean_error = 0;     // E|f(x') - f(x) - what is left|, at most
    double square_error = 0;   // its square on average, at most
    double product_error = 0;  // times |what the boxes make|, on average, at most
    bool complete = true;      // false: there were more entries than wanted
};

// The trees that are compiled: one of every `step`, and of these every `of`-th, beginning with number
// `which`.
struct SomeTrees {
    std::size_t step = 1, which = 0, of = 1;
};

class Compiler {
public:
    static constexpr std::size_t kEnoughTrees = 32;  // to estimate counts from
    // The bytes of each atom: its hash, where its terms come, its main effect, and three sizes of what is
    // left out. And of each feature: the bounds of two paths, and the number of its splits on one.
    static constexpr double kOfAtom = 4 * sizeof(double) + 2 * sizeof(std::int32_t);
    static constexpr double kOfFeature = 2 * sizeof(PathBounds) + sizeof(double) + sizeof(std::int32_t);

    Compiler(const Model& model, const TreeGroup& group);

    // Loads a row, which everything else is about.
    void load(const RowTables& tables, RowWork& work);
    void find_main_effects(RowTerms& terms, Buffer<double>& weights);
    const Buffer<double>& main_error_scale() const { return main_effects_.error_scale(); }

    // Counts without compiling; or estimates the counts from at most so many of the trees, evenly spaced.
    CompileCounts count(const Pruning& pruning);
    CompileCounts count_on_some_trees(Pruning pruning, std::size_t most = kEnoughTrees);
    double counted_share(std::size_t most = kEnoughTrees) const;  // of all nodes, those of these trees
    CompileCounts compile(const Pruning& pruning, SomeTrees some, RowTerms& terms, Buffer<double>& weights);

    // sum over trees of the largest possible |T(x') - T(x)|.
    double largest_change() const { return largest_change_; }
    // The scale of rounding errors, of each component of the last compilation: E in
    // the correctness criterion of docs/internals.md.
    void error_scales(const RowTerms& terms, Buffer<double>& scale) const;
    // The bytes of the terms that were collected last, and of what it takes to collect any.
    double bytes() const;

private:
    std::size_t step_of_counts(std::size_t most) const;
    std::size_t counted_tree(std::size_t first, std::size_t step) const;

    static constexpr std::int32_t kNone = -1;
    // The share of an entry that each feature of a box counts beside its entries: chains of splits have many.
    static constexpr double kOfSide = 0.1;

    enum class Mode { count, count_all, compile };

    using Bounds = PathBounds;
    // Products over the features of the path.
    struct Path {
        double chance = 1.0, size = 1.0;
    };
    struct Visit {
        std::int32_t node, feature;  // or kNone at a root
        Bounds bounds;               // of the feature from here on
        Path products;
        bool undo;
    };
    // One feature of a box.
    struct Side {
        std::int32_t feature;
        std::int32_t atom[2];           // lower and upper bound, or kNone where it cannot be crossed
        double chance[2];               // that it is crossed
        double size[2];                 // the same times its amplitude, at most 1
        double most_chance, most_size;  // if x is outside
        bool inside;
        std::int32_t near;      // if x is outside: the bound next to it
        std::int32_t unlikely;  // its unit if that is not likely, else kNone
    };
    // A product of bounds of a box, one for some of its features.
    struct Entry {
        double size, chance;
        std::uint64_t hash;  // of its term
        std::int32_t term, prefix;
        std::int32_t stage;     // 2 * side + bound
        std::int32_t order;     // features, with those outside of which x is
        std::int32_t unlikely;  // the unit that is not likely, or kNone
        std::int8_t sign;       // 0: needed by longer ones only
        std::int8_t n_atoms;
    };

    // A box that is multiplied out.
    struct Box {
        Buffer<Side> sides;
        Buffer<Entry> entries;             // the first one is of no bounds
        Buffer<std::int32_t> extended;     // entries by stage and prefix
        Buffer<std::int64_t> stage_begin;  // of extended
        std::vector<double> change;        // (width) what it adds
        double scale = 0.0;                // see error_scales

        double bytes() const {
            return sides.used_bytes() + entries.used_bytes() + extended.used_bytes() +
                   stage_begin.used_bytes();
        }

        std::int32_t atom_of(const Entry& e) const { return sides[e.stage / 2].atom[e.stage % 2]; }
    };

    // Walks these trees.
    template <Mode kMode>
    CompileCounts run(const Pruning& pruning, SomeTrees some);
    std::int32_t end_of(std::size_t tree) const;
    void prefetch(std::size_t tree) const;
    template <Mode kMode>
    void walk(std::int32_t root);
    template <Mode kMode>
    std::int32_t branch(std::int32_t node);
    PREDGAP_INLINE void enter(const Visit& visit);
    bool is_leaf(std::int32_t node) const {
        return group_.node[static_cast<std::size_t>(node)].feature == kLeaf;
    }
    PREDGAP_INLINE Path with(const Bounds& before, const Bounds& after) const;
    PREDGAP_INLINE Bounds side_bounds(const Node& node, const Bounds& bounds, bool left) const;
    bool is_too_unlikely(std::int32_t feature) const;
    double path_main_effect(std::int32_t feature) const;
    double negligible(double range, std::int32_t feature) const;
    void lose_turn(std::int32_t feature, const Bounds& turned, double range, double mean);
    void lose(const Side& side, int bound, double lost, double n_lost);
    void add_lost();
    template <Mode kMode>
    void add_box(std::int32_t turned, const Bounds& bounds, std::int32_t on_side, std::int32_t other);
    double n_entries(std::int32_t turned, const Bounds& bounds) const;
    void collect_sides(std::int32_t turned, const Bounds& bounds);
    PREDGAP_INLINE void collect_side(std::int32_t feature, const Bounds& bounds);
    template <Mode kMode>
    void expand(double size);
    template <Mode kMode>
    void extend(std::int32_t j);
    template <Mode kMode, bool kExact>
    void extend_by(const Side& side, int bound, std::int64_t n, std::int32_t stage);
    template <Mode kMode>
    void count_tree(double n_nodes, double n_entries, double n_terms);
    void merge_later();
    void merge_pending();
    void fill_slots(std::int32_t entry, TermStore::Slot* slots) const;
    double largest_change_of(std::size_t tree);

    const Model& model_;
    const TreeGroup& group_;
    const RowTables* tables_ = nullptr;
    RowWork* work_ = nullptr;
    TermStore store_;
    Leaves leaves_;
    double largest_change_ = 0.0;
    MainEffects main_effects_;

    Pruning pruning_;
    CompileCounts counts_;
    std::vector<Bounds> bounds_;           // (n_features) of the path
    std::vector<std::int32_t> n_bounded_;  // (n_features) splits of the path on it
    std::vector<std::int32_t> path_;       // features of the path
    std::vector<std::int32_t> features_;   // of a box
    Path products_;                        // of the path
    std::vector<Visit> stack_;
    Box boxes_[2];  // one is multiplied out, the terms of the other one are not looked up yet
    Box* box_ = boxes_;
    Box& other_box() { return boxes_[box_ == boxes_]; }
    LeftOut left_out_;
    double box_size_ = 0.0;        // of its change
    double box_lost_ = 0.0;        // of the box, what mean_error is of all
    std::int32_t anchor_ = kNone;  // the rarest atom that all its pieces need
    Buffer<double> lost_;          // beside its entries: what was left out of those that would extend it
    Buffer<double> entry_main_;    // beside its entries: the largest main effect of its features
    struct BoxScale {
        std::int32_t term;  // on the features outside of which x is
        double scale;
    };
    Buffer<BoxScale> box_scale_;
};

}  // namespace predgap
