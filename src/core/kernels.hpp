// What the vector kernels see: plain pointers, so that one source compiles for every instruction set; and for
// sets of categories an interface, for what is behind it allocates.
//
// A block is eight rows (lanes). All per-block arrays hold kLanes doubles per item.
#pragma once

#include <atomic>
#include <cstdint>

#include "lanes.hpp"

namespace predgap {

enum class Law : std::uint8_t { still, normal, uniform, table, category };

// A term of a component on two features that is summed in the order of the one's atoms, with sums by the
// level of the other's.
struct SweptTerm {
    std::int32_t term, lead, other;  // atoms
    std::int32_t level;              // of the other
};

// All that a model fixes, once: boxes, terms and components. See docs/development.md for the layout.
struct PlanView {
    std::int32_t n_features, n_atoms, n_thresholds, n_literals, n_boxes, n_trees, n_components, n_terms;
    std::int32_t widest_box;      // most literals in one box
    std::int32_t most_levels;     // of a swept component
    std::int64_t widest_scratch;  // lanes that the largest component gathers

    // Atoms are events: x < threshold, and after those, x in a set of categories.
    const std::int32_t* atom_begin;      // (n_features + 1) thresholds of each feature
    const double* atom_threshold;        // (n_thresholds)
    const std::int32_t* set_atom_begin;  // (n_features + 1) sets of each feature
    const std::int32_t* cell_begin;      // (n_features + 1) cells of each categorical feature
    const std::int64_t* set_word_begin;  // (sets) of the bits of each set's cells
    const std::uint64_t* set_word;

    // A literal is a box's test on one feature: the event of lo does not hold, that of hi does; or missing.
    const std::int32_t* literal_feature;  // (n_literals)
    const std::int32_t* literal_lo;       // (n_literals) atom, -1 for none
    const std::int32_t* literal_hi;       // (n_literals) atom, -1 for none
    const std::uint8_t* literal_numeric;  // (n_literals) can a number pass at all?
    const std::uint8_t* literal_missing;  // (n_literals) does a missing value pass?

    // Equal boxes of different trees are one; its members are the leaves.
    const std::int32_t* box_literal_begin;  // (n_boxes + 1)
    const std::int32_t* box_literal;        // literal ids, by ascending feature
    const std::int32_t* box_member_begin;   // (n_boxes + 1)
    const std::int32_t* member_tree;
    const double* member_value;
    const std::int32_t* tree_leaf_begin;  // (n_trees + 1)
    const std::int32_t* leaf_box;
    const double* leaf_value;

    // For each box and each non-empty mask of its literals: the component, and the signed terms.
    const std::int64_t* box_group_begin;    // (n_boxes + 1) group of mask m is begin + m - 1
    const std::int32_t* group_component;    // -1 where a literal of the mask has no atoms
    const std::int64_t* group_entry_begin;  // (n_groups + 1)
    const std::int32_t* entry;              // term * 2 + (1 if subtracted)

    // Components by ascending size; the terms of one are neighbours, sorted by their atoms.
    const std::int32_t* component_size;           // (n_components)
    const std::int32_t* component_feature_begin;  // (n_components + 1)
    const std::int32_t* component_feature;        // ascending
    const std::int32_t* component_parent;         // beside component_feature: without it; -1 for none
    const std::int32_t* component_child_begin;    // (n_components + 1)
    const std::int32_t* component_child_feature;  // what a child has besides
    const std::int32_t* component_levels;         // (n_components) of the other feature; 0 if not swept
    const std::int32_t* component_cells;       // (n_components) 1 + the feature whose cells are summed over
    const std::uint8_t* component_has_sets;    // (n_components) is one of its atoms a set?
    const std::int32_t* component_term_begin;  // (n_components + 1)
    const std::int64_t* component_slot_begin;  // (n_components) of the two arrays below
    const std::int32_t* term_atom;             // per term, per slot
    const std::int32_t* term_parent;           // per term, per slot; n_terms is the empty term
    const SweptTerm* swept_term;               // (n_terms) those of a swept component in its order
    const std::int32_t* feature_use_begin;     // (n_features + 1)
    const std::int32_t* use_component;         // components with the feature, ascending
    const std::int32_t* use_slot;
};

// Sums that are kept for n levels: see LevelSums.
constexpr std::int64_t level_nodes(std::int64_t n) { return n <= 8 ? n : n + level_nodes((n + 7) / 8); }

// The noise of the categorical features; see cells.hpp.
struct SetTables {
    const double* mass;              // (cells)
    const double *inside, *outside;  // (sets)
    const double* joint;             // 4 per pair of sets that meet
    const std::int32_t* index;       // per pair of sets of a feature: into joint, or -1
    const std::int64_t* begin;       // (n_features) of its pairs
};

// One block's arrays, owned by the caller and reused from block to block.
struct Block {
    const std::atomic<bool>* stop;  // checked between pieces of work

    double* x;        // (n_features)
    LaneBits* moves;  // (n_features) lanes where the feature is a finite number and the noise moves it
    LaneBits* gone;   // (n_features) lanes where it is missing
    double* below;    // (n_atoms) F = P(x' < c); 0 where the feature does not move. Of a set: is x out of it?
    double* above;    // (n_atoms) S = P(x' >= c). Of a set: is x in it?
    double* shift;    // (n_atoms) e = E tau_c
    double* member;   // (sets) is x in it, whether it moves or not?
    SetTables sets;

    double* inside;            // (n_literals) 1 or 0
    LaneBits* inside_bits;     // (n_literals)
    double* reach;             // (n_literals) probability that x' gets as far
    double* box_inside;        // (n_boxes)
    double* tree_value;        // (n_trees) the value of the leaf that x reaches
    std::int32_t* level_atom;  // (most_levels)
    double* coefficient;       // (2^widest_box)
    std::int32_t* mask;        // (2^widest_box)
    double* weight;            // (n_terms + 1) W; the last is the empty term's
    double* scratch;           // (widest_scratch)
    std::uint8_t* perturbed;   // (n_features) in the subset of any lane
    std::uint8_t* active;      // (n_components) inside those features

    // Nested subsets and greedy.
    LaneBits* chosen;     // (n_features) lanes whose subset holds the feature
    LaneBits* fresh;      // (n_features) lanes that took it in this step
    LaneBits* dirty;      // (n_components) lanes whose weights or state changed since the last evaluation
    LaneBits* changed;    // (n_components) lanes whose product changed in this step
    double* form;         // (n_components) Q_C, or the quadratic part of a gain
    double* piece;        // (n_components) a component's part of a gain
    double* product;      // (n_terms + 1) G_C W_C; the last is the empty term's
    double* error_scale;  // (n_components) of the boxes that x leaves by just these features
    double* pair_below;   // (n_atoms) a, b and c of a slot's factor: see gains.hpp
    double* pair_above;   // (n_atoms)
    double* pair_other;   // (n_atoms)
    double* lower;        // (n_atoms) P and N of a first slot's factor: see gains.hpp
    double* upper;        // (n_atoms)
    double* gain;         // (n_features)
    double* error_of;     // (n_features + 1) error scale that a feature adds; the last is the subset's own
};

// A split of a tree as one row and one subset see it: only those are left that can go either way.
struct MetNode {
    double below = 0, above = 0;  // F and S of its threshold
    double share = 0;             // of what gets to its parent
    double mean = 0;              // residual of what gets here
    double size = 0;              // largest |residual| from here on
    std::uint64_t features = 0;   // bits of the slots that are split on from here on; none at a leaf
    std::int32_t slot = 0;        // of its feature
    std::int32_t set = -1;        // of categories that it tests, or kNumeric
    std::int32_t child[2] = {0, 0};
};

// The cells that eight boxes allow of the categorical features.
class MetSets {
public:
    // Parts them by the set that a node tests: the masses of both parts, where the probability is positive.
    virtual void split(const MetNode& node, const double* probability, double* left, double* right) = 0;
    virtual void enter(int side) = 0;  // one of the parts of the last split
    virtual void leave() = 0;          // undoes the last split

protected:
    ~MetSets() = default;
};

// Eight leaves of one tree, to meet those of another.
struct Meeting {
    static constexpr int kEnds = 5;      // F and S of the lower end, F and S of the upper, the mass between
    static constexpr int kFrame = 7;     // lanes that a split on the way takes
    double* ends;                        // (n_slots, kEnds)
    double* probability;                 // (1) 0 where there is no leaf
    double* weight;                      // (1) what a residual that is met counts at most
    double* frames;                      // (depth, kFrame)
    std::uint64_t cut_below, cut_above;  // bits of the slots that any of the boxes limits
    MetSets* sets;
    double limit;           // what may be dropped at once, 0 for nothing
    double* rest;           // (1) out: E[residual; in the leaf]
    double* dropped;        // (1) what was left out is at most this, added
    std::int64_t n_visits;  // added
};

struct Kernels {
    const char* name;
    void (*normal_tails)(const double* z, double* below, double* above);  // one block of lanes
    void (*tables)(const PlanView&, Block&, const Law* law, const double* parameter);
    void (*begin_row)(const PlanView&, Block&, bool for_ranking);
    void (*mean)(const PlanView&, Block&, double* out);
    void (*gap)(const PlanView&, Block&, double* out);
    void (*begin_nested)(const PlanView&, Block&);
    void (*take)(const PlanView&, Block&);
    void (*nested_gap)(const PlanView&, Block&, double* out);
    void (*gains)(const PlanView&, Block&);
    void (*errors)(const PlanView&, Block&);
    void (*meet)(const MetNode* nodes, std::int32_t root, Meeting&);
};

const Kernels& kernels();  // the best that this machine runs; see dispatch.cpp

}  // namespace predgap
