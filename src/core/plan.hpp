// The plan of the terms strategy: all that depends on the model only, built once by sorting.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ensemble.hpp"
#include "kernels.hpp"

namespace predgap {

// Thrown out of long work when its caller wants it to end.
struct Stopped {};

class Stop {
public:
    explicit Stop(const std::atomic<bool>& flag) : flag_(flag) {}
    void check() const {
        if (flag_.load(std::memory_order_relaxed)) throw Stopped{};
    }

private:
    const std::atomic<bool>& flag_;
};

// One leaf's test on one feature: the event of atom lo does not hold, that of hi does (-1 for none), or x is
// missing. On a numeric feature that is lo <= x < hi.
struct Literal {
    std::int32_t feature, lo, hi;
    bool missing;

    bool numeric() const { return lo < 0 || hi < 0 || lo < hi; }  // can a number pass?
    int n_atoms() const { return numeric() ? (lo >= 0) + (hi >= 0) : 0; }
    auto operator<=>(const Literal&) const = default;
};

struct Leaf {
    std::int32_t tree;
    double value;
    std::int64_t literal_begin, literal_end;  // by ascending feature
};

// The leaves that a row can reach, with their boxes.
struct Leaves {
    std::vector<Leaf> leaf;
    std::vector<Literal> literal;
    bool affordable = true;  // if not, collecting ended early and the rest is void

    // Budgets that keep loading within memory.
    static constexpr double kMostEntries = 2.4e7;  // signed terms that multiplying out all boxes gives
    static constexpr double kManyEntries = 3e6, kMostPerLeaf = 256;  // where pairs are better on any subset
    static constexpr double kMostGroups = 2.4e7;                     // masks of literals, over all boxes
    static constexpr std::ptrdiff_t kWidest = 14;                    // literals in one box
    static constexpr std::int32_t kMostSets = 1 << 16;               // that path literals on categories make
    static constexpr double kMostSetPairs = 2e7;                     // pairs of sets of a feature, over all

    Leaves(const EnsembleView& e, const Atoms& atoms, SetAtoms& sets, const Stop& stop);
};

class Plan {
public:
    Plan(const EnsembleView& e, const Atoms& atoms, const SetAtoms& sets, const Leaves& leaves,
         const Stop& stop);
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    const PlanView& view() const { return view_; }
    const std::vector<bool>& set_pairs() const { return set_pairs_; }  // that need joint masses

private:
    void merge_boxes(const Leaves& leaves, std::int32_t n_trees, const Stop& stop);
    void lay_out_groups();
    template <class Visit>
    void each_entry(int size, const Stop& stop, Visit visit);
    void multiply_out(const Stop& stop);
    void list_uses(std::int32_t n_features);
    void expose(const EnsembleView& e, const Atoms& atoms, const SetAtoms& sets);

    struct Level;
    void number_terms(std::vector<Level>& levels, const Stop& stop);
    void link_terms(const std::vector<Level>& levels, std::int32_t empty_term, const Stop& stop);
    void link_components(const std::vector<Level>& levels);
    void list_children();
    void choose_sweeps(const Cells& cells);
    void mark_pairs(const SetAtoms& sets);
    void sweep_cells(std::size_t c, const Cells& cells);
    void sweep_levels(std::size_t c);
    void finish_sweep(std::size_t c, std::vector<SweptTerm>& terms, const std::vector<std::int32_t>& levels);

    std::vector<std::int32_t> atom_feature_;  // thresholds, then sets
    std::vector<std::int32_t> literal_feature_, literal_lo_, literal_hi_;
    std::vector<std::uint8_t> literal_numeric_, literal_missing_;
    std::vector<std::int32_t> box_literal_begin_, box_literal_, box_member_begin_, member_tree_;
    std::vector<double> member_value_;
    std::vector<std::int32_t> tree_leaf_begin_, leaf_box_;
    std::vector<double> leaf_value_;
    std::vector<std::int64_t> box_group_begin_, group_entry_begin_;
    std::vector<std::int32_t> group_component_, entry_;
    std::vector<std::int32_t> component_size_, component_feature_begin_, component_feature_;
    std::vector<std::int32_t> component_parent_, component_term_begin_;
    std::vector<std::uint8_t> component_has_sets_;
    std::vector<std::int32_t> component_child_begin_, component_child_feature_;
    std::vector<std::int64_t> component_slot_begin_;
    std::vector<std::int32_t> component_levels_, component_cells_;
    std::vector<SweptTerm> swept_term_;
    std::vector<bool> set_pairs_;
    std::vector<std::int32_t> term_atom_, term_parent_;
    std::vector<std::int32_t> feature_use_begin_, use_component_, use_slot_;
    PlanView view_{};
};

}  // namespace predgap
