// Weights of a block: omega of its rows, and its centring, W[t without i] += W[t] e.
#pragma once

#include <bit>

#include "masks.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Where the event of an atom holds at x, as 1.0 and 0.0.
PREDGAP_INLINE Lanes event(const PlanView& p, const Block& b, std::int32_t atom, const Lanes& x) {
    return atom < p.n_thresholds ? is_less(x, splat(p.atom_threshold[atom]))
                                 : lanes(b.member)[atom - p.n_thresholds];
}

// How likely x' gets as far as the literal's interval: 1 inside, else the tail from its near end on; or into
// its set of categories.
void reach_literals(const PlanView& p, Block& b) {
    const Lanes one = splat(1.0), zero = splat(0.0);
    const auto crossing = [&](std::int32_t atom) {
        return max(lanes(b.shift)[atom], zero - lanes(b.shift)[atom]);
    };
    for (std::int32_t l = 0; l < p.n_literals; ++l) {
        const auto q = p.literal_feature[l], lo = p.literal_lo[l], hi = p.literal_hi[l];
        const Lanes x = lanes(b.x)[q];
        Lanes reach = p.literal_numeric[l] ? one : zero;
        if (p.literal_numeric[l]) {
            if (lo >= 0) reach = select(event(p, b, lo, x), crossing(lo), reach);
            if (hi >= 0) reach = select(event(p, b, hi, x), reach, crossing(hi));
        }
        if (b.gone[q]) reach = select(lanes_of(b.gone[q]), zero, reach);
        lanes(b.reach)[l] = select(lanes(b.inside)[l], one, reach);
    }
}

void test_literals(const PlanView& p, Block& b) {
    for (std::int32_t l = 0; l < p.n_literals; ++l) {
        const auto q = p.literal_feature[l], lo = p.literal_lo[l], hi = p.literal_hi[l];
        const Lanes x = lanes(b.x)[q];
        Lanes inside = splat(p.literal_numeric[l] ? 1.0 : 0.0);
        if (p.literal_numeric[l]) {
            if (lo >= 0) inside *= splat(1.0) - event(p, b, lo, x);
            if (hi >= 0) inside *= event(p, b, hi, x);
        }
        if (b.gone[q]) inside = select(lanes_of(b.gone[q]), splat(p.literal_missing[l]), inside);
        lanes(b.inside)[l] = inside;
        LaneBits bits = 0;
        for (int i = 0; i < kLanes; ++i) bits |= static_cast<LaneBits>((inside[i] != 0.0) << i);
        b.inside_bits[l] = bits;
    }
}

void reach_leaves(const PlanView& p, Block& b) {
    for (std::int32_t box = 0; box < p.n_boxes; ++box) {
        Lanes inside = splat(1.0);
        for (auto l = p.box_literal_begin[box]; l < p.box_literal_begin[box + 1]; ++l)
            inside *= lanes(b.inside)[p.box_literal[l]];
        lanes(b.box_inside)[box] = inside;
    }
    for (std::int32_t tree = 0; tree < p.n_trees; ++tree) {
        Lanes value = splat(0.0);  // just one box of a tree holds x, so this sum is exact
        for (auto leaf = p.tree_leaf_begin[tree]; leaf < p.tree_leaf_begin[tree + 1]; ++leaf)
            value += lanes(b.box_inside)[p.leaf_box[leaf]] * splat(p.leaf_value[leaf]);
        lanes(b.tree_value)[tree] = value;
    }
}

// What reaching the box changes. Residuals, not leaf values: a leaf that x cannot be told from adds
// exactly nothing, and no digits are lost to values that cancel.
PREDGAP_INLINE Lanes residual(const PlanView& p, const Block& b, std::int32_t box) {
    Lanes sum = splat(0.0);
    for (auto i = p.box_member_begin[box]; i < p.box_member_begin[box + 1]; ++i)
        sum += splat(p.member_value[i]) - lanes(b.tree_value)[p.member_tree[i]];
    return sum;
}

void add_error_scale(const PlanView& p, Block& b, std::int32_t box) {
    Lanes sum = splat(0.0);
    for (auto i = p.box_member_begin[box]; i < p.box_member_begin[box + 1]; ++i) {
        const Lanes g = splat(p.member_value[i]) - lanes(b.tree_value)[p.member_tree[i]];
        sum += g * g;
    }
    for (auto l = p.box_literal_begin[box]; l < p.box_literal_begin[box + 1]; ++l)
        sum *= lanes(b.reach)[p.box_literal[l]];
    const auto first = p.box_literal_begin[box], last = p.box_literal_begin[box + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
        std::int64_t left = 0;  // the literals that this lane's row fails
        for (auto l = first; l < last; ++l)
            left |= std::int64_t{((b.inside_bits[p.box_literal[l]] >> lane) & 1) == 0} << (l - first);
        const auto c = left ? p.group_component[p.box_group_begin[box] + left - 1] : -1;
        if (c >= 0) lanes(b.error_scale)[c][lane] += sum[lane];
    }
}

// Multiplies out one box: to each mask of perturbed literals, its residual times the other literals.
void spread_box(const PlanView& p, Block& b, std::int32_t box) {
    const auto* literal = p.box_literal + p.box_literal_begin[box];
    const auto n_literals = p.box_literal_begin[box + 1] - p.box_literal_begin[box];
    std::int32_t open[32];
    std::int32_t n_open = 0;
    Lanes keep = splat(1.0);
    LaneBits reachable = kAllLanes;
    for (std::int32_t j = 0; j < n_literals; ++j) {
        if (b.perturbed[p.literal_feature[literal[j]]]) {
            open[n_open++] = j;
        } else {
            keep *= lanes(b.inside)[literal[j]];
            reachable &= b.inside_bits[literal[j]];
        }
    }
    if (n_open == 0 || reachable == 0) return;
    Lanes *coefficient = lanes(b.coefficient), *weight = lanes(b.weight);
    const std::int32_t full = (std::int32_t{1} << n_open) - 1;
    b.mask[0] = 0;
    for (std::int32_t m = 1; m <= full; ++m)
        b.mask[m] = b.mask[m & (m - 1)] | (1 << open[std::countr_zero(static_cast<unsigned>(m))]);
    for (std::int32_t m = full; m > 0; --m) {
        if (m == full) {
            coefficient[m] = residual(p, b, box) * keep;
        } else {
            const auto j = std::countr_one(static_cast<unsigned>(m));
            coefficient[m] = coefficient[m | (1 << j)] * lanes(b.inside)[literal[open[j]]];
        }
        const auto group = p.box_group_begin[box] + b.mask[m] - 1;
        const Lanes plus = coefficient[m], minus = splat(0.0) - coefficient[m];
        for (auto i = p.group_entry_begin[group]; i < p.group_entry_begin[group + 1]; ++i)
            weight[p.entry[i] >> 1] += (p.entry[i] & 1) ? minus : plus;
    }
}

void begin_row(const PlanView& p, Block& b, bool for_ranking) {
    test_literals(p, b);
    reach_leaves(p, b);
    Lanes* weight = lanes(b.weight);
    for (std::int32_t c = 0; c < p.n_components; ++c)
        if (b.active[c])
            for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t)
                weight[t] = splat(0.0);
    weight[p.n_terms] = splat(0.0);
    for (std::int32_t box = 0; box < p.n_boxes && !stopped(b); ++box) spread_box(p, b, box);
    if (!for_ranking) return;
    reach_literals(p, b);
    for (std::int32_t c = 0; c < p.n_components; ++c) lanes(b.error_scale)[c] = splat(0.0);
    for (std::int32_t box = 0; box < p.n_boxes && !stopped(b); ++box) add_error_scale(p, b, box);
}

PREDGAP_INLINE void centre(const PlanView& p, Block& b, std::int32_t c, std::int32_t slot,
                           const Lanes& mask) {
    Lanes* weight = lanes(b.weight);
    const Lanes* shift = lanes(b.shift);
    const auto size = p.component_size[c];
    auto at = p.component_slot_begin[c] + slot;
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, at += size)
        weight[p.term_parent[at]] += weight[t] * (shift[p.term_atom[at]] * mask);
}

void centre_all(const PlanView& p, Block& b) {
    const Lanes all = splat(1.0);
    for (std::int32_t q = 0; q < p.n_features && !stopped(b); ++q) {
        if (!b.perturbed[q]) continue;
        for (auto u = p.feature_use_begin[q]; u < p.feature_use_begin[q + 1]; ++u)
            if (b.active[p.use_component[u]]) centre(p, b, p.use_component[u], p.use_slot[u], all);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
