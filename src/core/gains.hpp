// Gains: what each feature outside a lane's subset would add to its gap.
//
// A component all but one of whose features are in the subset (its frontier) adds W'HW' + 2 cross to the
// gain of that feature. H has E[tau tau'] in the slot of the feature outside, which is min(F, F') on one
// side of x, min(S, S') on the other, and 0 across; the other slots have min(F, F') min(S, S'). Both are
//     min(a, a') min(b, b') + min(c, c'),   (a, b, c) = (F, S, 0) inside, (e+, 1, e-) outside,
// so lanes in different states share one formula. Of categories, see set_factor: (x is out, x is in, e)
// inside, and 0 instead of e outside.
#pragma once

#include "nested.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// One feature: thresholds are sorted, so for s <= t the factor is F_s P_t + N_s S_t, and sums run along.
// Inside the subset P = S and N = 0; outside, P says which thresholds are at or below x, and N which are
// above.
PREDGAP_INLINE Lanes sweep_product(const PlanView& p, Block& b, std::int32_t c) {
    const Lanes zero = splat(0.0);
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    const Lanes *lower = lanes(b.lower), *upper = lanes(b.upper);
    Lanes* product = lanes(b.product);
    const auto first = p.component_term_begin[c], last = p.component_term_begin[c + 1];
    const auto* atom = p.term_atom + p.component_slot_begin[c] - first;
    Lanes f = zero, n = zero;
    for (auto t = first; t < last; ++t) {
        const auto a = atom[t];
        f += weight[t] * below[a];
        n += weight[t] * upper[a];
        product[t] = f * lower[a] + n * above[a];
    }
    Lanes sum = zero, l = zero, s = zero;
    for (auto t = last - 1; t >= first; --t) {
        const auto a = atom[t];
        product[t] += l * below[a] + s * upper[a];
        l += weight[t] * lower[a];
        s += weight[t] * above[a];
        sum += weight[t] * product[t];
    }
    return sum;
}

// Several features, all but one of them in the subset: W'HW'. Terms are sorted by their first atom, so for s
// before t the first slot's factor is F_s P_t + N_s S_t, as above. Gathered rows are [W F, W N, a_1, b_1,
// c_1, a_2, ...].
template <int kSize>
PREDGAP_INLINE Lanes frontier_form(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const std::int32_t stride = 3 * size - 1;
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes sum = splat(0.0);
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += stride) {
        const Lanes w = lanes(b.weight)[first + t];
        const Lanes lower = lanes(b.lower)[atom[0]], above = lanes(b.above)[atom[0]];
        row_t[0] = w * lanes(b.below)[atom[0]];
        row_t[1] = w * lanes(b.upper)[atom[0]];
        Lanes own = row_t[0] * lower + row_t[1] * above;
        for (std::int32_t j = 1; j < size; ++j) {
            Lanes* at = row_t + 3 * j - 1;
            at[0] = lanes(b.pair_below)[atom[j]];
            at[1] = lanes(b.pair_above)[atom[j]];
            at[2] = lanes(b.pair_other)[atom[j]];
            own *= at[0] * at[1] + at[2];
        }
        Lanes f = splat(0.0), u = splat(0.0);
        const Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += stride) {
            Lanes k = splat(1.0);
            for (std::int32_t j = 1; j < size; ++j) {
                const Lanes *at_s = row_s + 3 * j - 1, *at_t = row_t + 3 * j - 1;
                k *= min(at_s[0], at_t[0]) * min(at_s[1], at_t[1]) + min(at_s[2], at_t[2]);
            }
            f += row_s[0] * k;
            u += row_s[1] * k;
        }
        const Lanes earlier = f * lower + u * above;
        sum += w * (earlier + earlier + own);
    }
    return sum;
}

// Several features, all in the subset: G W. Gathered rows are [W F, sum of later W S k, F_1, S_1, F_2, ...].
template <int kSize>
PREDGAP_INLINE void complete_product(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const std::int32_t stride = 2 * size;
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes* product = lanes(b.product) + first;
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += stride) {
        const Lanes w = lanes(b.weight)[first + t], above = lanes(b.above)[atom[0]];
        const Lanes ws = w * above;
        row_t[0] = w * lanes(b.below)[atom[0]];
        row_t[1] = splat(0.0);
        Lanes own = row_t[0];
        for (std::int32_t j = 1; j < size; ++j) {
            row_t[2 * j] = lanes(b.below)[atom[j]];
            row_t[2 * j + 1] = lanes(b.above)[atom[j]];
            own *= row_t[2 * j] * row_t[2 * j + 1];
        }
        Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += stride) {
            Lanes k = min(row_s[2], row_t[2]) * min(row_s[3], row_t[3]);
            for (std::int32_t j = 2; j < size; ++j)
                k *= min(row_s[2 * j], row_t[2 * j]) * min(row_s[2 * j + 1], row_t[2 * j + 1]);
            own += row_s[0] * k;
            row_s[1] += ws * k;
        }
        product[t] = own * above;
    }
    atom = p.term_atom + p.component_slot_begin[c];
    const Lanes* row = lanes(b.scratch);
    for (std::int32_t t = 0; t < n; ++t, atom += size, row += stride)
        product[t] += row[1] * lanes(b.below)[atom[0]];
}

// W'HW' of two features, by sums over the levels of the other than the leading one. Where the leading one
// is outside (N is not 0) the other is inside, so of the four products of the two factors' parts with N one
// is missing.
Lanes frontier_sweep(const PlanView& p, Block& b, std::int32_t c) {
    const auto n_levels = p.component_levels[c];
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    const Lanes *lower = lanes(b.lower), *upper = lanes(b.upper);
    LevelSums<3> low{lanes(b.scratch), n_levels}, high{low.node + 3 * level_nodes(n_levels), n_levels};
    low.clear();
    high.clear();
    Lanes sum = splat(0.0);
    for (auto k = p.component_term_begin[c]; k < p.component_term_begin[c + 1] && !stopped(b); ++k) {
        const auto [t, i, j, level] = p.swept_term[k];
        const Lanes w = weight[t], wf = w * below[i], wn = w * upper[i];
        Lanes l[3], h[3];
        low.below(level + 1, l);
        high.from(level + 1, h);
        const Lanes f = l[0] * lower[j] + l[1] * above[j] + h[0] * below[j] + h[1] * upper[j];
        const Lanes u = l[2] * lower[j] + h[2] * below[j];
        const Lanes earlier = f * lower[i] + u * above[i];
        const Lanes own = (wf * lower[i] + wn * above[i]) * (below[j] * lower[j] + upper[j] * above[j]);
        sum += w * (earlier + earlier + own);
        low.add(level, {wf * below[j], wf * upper[j], wn * below[j]});
        high.add(level, {wf * lower[j], wf * above[j], wn * lower[j]});
    }
    return sum;
}

// G W of two features: the earlier terms in one sweep, the later ones in another.
void product_sweep(const PlanView& p, Block& b, std::int32_t c) {
    const auto n_levels = p.component_levels[c];
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Lanes* product = lanes(b.product);
    const auto first = p.component_term_begin[c], last = p.component_term_begin[c + 1];
    LevelSums<1> low{lanes(b.scratch), n_levels}, high{low.node + level_nodes(n_levels), n_levels};
    const auto others = [&](const SweptTerm& t, const Lanes& w) {
        Lanes l[1], h[1];
        low.below(t.level + 1, l);
        high.from(t.level + 1, h);
        low.add(t.level, {w * below[t.other]});
        high.add(t.level, {w * above[t.other]});
        return l[0] * above[t.other] + h[0] * below[t.other];
    };
    low.clear();
    high.clear();
    for (auto k = first; k < last && !stopped(b); ++k) {
        const auto& t = p.swept_term[k];
        const Lanes w = weight[t.term] * below[t.lead];
        product[t.term] = (others(t, w) + w * (below[t.other] * above[t.other])) * above[t.lead];
    }
    low.clear();
    high.clear();
    for (auto k = last - 1; k >= first && !stopped(b); --k) {
        const auto& t = p.swept_term[k];
        product[t.term] += others(t, weight[t.term] * above[t.lead]) * below[t.lead];
    }
}

// The quadratic part of the gain where one feature is outside the subset.
Lanes component_form(const PlanView& p, Block& b, std::int32_t c) {
    switch (p.component_size[c]) {
        case 2: return frontier_form<2>(p, b, c);
        case 3: return frontier_form<3>(p, b, c);
        case 4: return frontier_form<4>(p, b, c);
        default: return frontier_form<0>(p, b, c);
    }
}

// G W where all features are inside.
void component_product(const PlanView& p, Block& b, std::int32_t c) {
    switch (p.component_size[c]) {
        case 2: return complete_product<2>(p, b, c);
        case 3: return complete_product<3>(p, b, c);
        case 4: return complete_product<4>(p, b, c);
        default: return complete_product<0>(p, b, c);
    }
}

// Each lane's numbers come from one kernel, whatever states its neighbours are in.
void evaluate(const PlanView& p, Block& b, std::int32_t c, LaneBits form, LaneBits product) {
    if (p.component_cells[c]) {
        if (form) lanes(b.form)[c] = form_by_cells<true>(p, b, c);
        if (product) product_by_cells(p, b, c);
    } else if (p.component_has_sets[c]) {
        lanes(b.form)[c] = mixed_product(p, b, c);
    } else if (p.component_size[c] == 1) {
        lanes(b.form)[c] = sweep_product(p, b, c);
    } else if (p.component_levels[c]) {
        if (form) lanes(b.form)[c] = frontier_sweep(p, b, c);
        if (product) product_sweep(p, b, c);
    } else {
        if (form) lanes(b.form)[c] = component_form(p, b, c);
        if (product) component_product(p, b, c);
    }
}

// Lanes in which some child of the component has one feature outside the subset.
PREDGAP_INLINE LaneBits leads_to_frontier(const PlanView& p, const Block& b, std::int32_t c) {
    LaneBits any = 0;
    for (auto i = p.component_child_begin[c]; i < p.component_child_begin[c + 1]; ++i)
        any |= static_cast<LaneBits>(~b.chosen[p.component_child_feature[i]]);
    return any;
}

PREDGAP_INLINE Lanes cross(const PlanView& p, const Block& b, std::int32_t c, std::int32_t slot) {
    const auto size = p.component_size[c];
    auto at = p.component_slot_begin[c] + slot;
    Lanes sum = splat(0.0);
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, at += size)
        sum += lanes(b.weight)[t] * lanes(b.shift)[p.term_atom[at]] * lanes(b.product)[p.term_parent[at]];
    return sum;
}

void add_frontier(const PlanView& p, Block& b, std::int32_t c, LaneBits frontier) {
    const Lanes zero = splat(0.0);
    const auto begin = p.component_feature_begin[c];
    for (std::int32_t slot = 0; slot < p.component_size[c]; ++slot) {
        const auto q = p.component_feature[begin + slot], parent = p.component_parent[begin + slot];
        const auto here = static_cast<LaneBits>(frontier & ~b.chosen[q]);
        if (!here) continue;
        const Lanes mask = lanes_of(here);
        if (here & (b.changed[c] | (parent >= 0 ? b.changed[parent] : kAllLanes))) {
            const Lanes twice = splat(2.0) * cross(p, b, c, slot);
            lanes(b.piece)[c] = select(mask, lanes(b.form)[c] + twice, lanes(b.piece)[c]);
        }
        lanes(b.gain)[q] += select(mask, lanes(b.piece)[c], zero);
    }
}

void gains(const PlanView& p, Block& b) {
    const Lanes zero = splat(0.0);
    for (std::int32_t q = 0; q < p.n_features; ++q) lanes(b.gain)[q] = zero;
    lanes(b.product)[p.n_terms] = lanes(b.weight)[p.n_terms];
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c) {
        const State state = state_of(p, b, c);
        const auto form = static_cast<LaneBits>(state.frontier & b.dirty[c]);
        auto product = static_cast<LaneBits>(state.complete & b.dirty[c]);
        if (product) product &= leads_to_frontier(p, b, c);
        b.changed[c] = 0;
        if (form | product) {
            evaluate(p, b, c, form, product);
            b.changed[c] = b.dirty[c];
            b.dirty[c] = 0;
        }
        if (state.frontier) add_frontier(p, b, c, state.frontier);
    }
}

// Error scales of the subset and of what each feature would add, for near-ties.
void errors(const PlanView& p, Block& b) {
    const Lanes zero = splat(0.0);
    for (std::int32_t q = 0; q <= p.n_features; ++q) lanes(b.error_of)[q] = zero;
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c) {
        const State state = state_of(p, b, c);
        const Lanes scale = lanes(b.error_scale)[c];
        lanes(b.error_of)[p.n_features] += select(lanes_of(state.complete), scale, zero);
        if (!state.frontier) continue;
        for (auto i = p.component_feature_begin[c]; i < p.component_feature_begin[c + 1]; ++i) {
            const auto q = p.component_feature[i];
            const auto here = static_cast<LaneBits>(state.frontier & ~b.chosen[q]);
            lanes(b.error_of)[q] += select(lanes_of(here), scale, zero);
        }
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
