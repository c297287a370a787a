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
PREDGAP_INLINE Lanes sweep_product(const PlanView& p, Block& b, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c]];
    const Lanes in = lanes_of(b.chosen[q]), zero = splat(0.0);
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Lanes* product = lanes(b.product);
    const auto first = p.component_term_begin[c], last = p.component_term_begin[c + 1];
    const auto* atom = p.term_atom + p.component_slot_begin[c] - first;
    const auto lower = [&](std::int32_t a) {  // P
        return select(in, above[a], is_less(zero, lanes(b.shift)[a]));
    };
    const auto upper = [&](std::int32_t a) {  // N
        return select(in, zero, is_less(lanes(b.shift)[a], zero));
    };
    Lanes f = zero, n = zero;
    for (auto t = first; t < last; ++t) {
        const auto a = atom[t];
        f += weight[t] * below[a];
        n += weight[t] * upper(a);
        product[t] = f * lower(a) + n * above[a];
    }
    Lanes sum = zero, l = zero, s = zero;
    for (auto t = last - 1; t >= first; --t) {
        const auto a = atom[t];
        product[t] += l * below[a] + s * upper(a);
        l += weight[t] * lower(a);
        s += weight[t] * above[a];
        sum += weight[t] * product[t];
    }
    return sum;
}

// Several features. Gathered rows are [W, a_0, b_0, c_0, a_1, ...].
template <int kSize>
PREDGAP_INLINE Lanes square_product(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const std::int32_t stride = 1 + 3 * size;
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes* product = lanes(b.product) + first;
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += stride) {
        const Lanes w = row_t[0] = lanes(b.weight)[first + t];
        Lanes own = w;
        for (std::int32_t j = 0; j < size; ++j) {
            row_t[1 + 3 * j] = lanes(b.pair_below)[atom[j]];
            row_t[2 + 3 * j] = lanes(b.pair_above)[atom[j]];
            row_t[3 + 3 * j] = lanes(b.pair_other)[atom[j]];
            own *= row_t[1 + 3 * j] * row_t[2 + 3 * j] + row_t[3 + 3 * j];
        }
        const Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += stride) {
            Lanes k = splat(1.0);
            for (std::int32_t j = 0; j < size; ++j)
                k *= min(row_s[1 + 3 * j], row_t[1 + 3 * j]) * min(row_s[2 + 3 * j], row_t[2 + 3 * j]) +
                     min(row_s[3 + 3 * j], row_t[3 + 3 * j]);
            own += row_s[0] * k;
            product[s] += w * k;
        }
        product[t] = own;
    }
    Lanes sum = splat(0.0);
    for (std::int32_t t = 0; t < n; ++t) sum += lanes(b.weight)[first + t] * product[t];
    return sum;
}

Lanes mixed_product(const PlanView& p, Block& b, std::int32_t c) {
    Lanes* product = lanes(b.product) + p.component_term_begin[c];
    const auto third = [&](std::int32_t a) { return lanes(b.pair_other)[a]; };
    Lanes sum = splat(0.0);
    each_pair(p, b, c, b.pair_below, b.pair_above, third,
              [&](std::int32_t s, std::int32_t t, const Lanes& w_s, const Lanes& w_t, const Lanes& k) {
                  product[t] = s ? product[t] + w_s * k : w_s * k;
                  if (s < t) product[s] += w_t * k;
                  sum += w_s * w_t * (s < t ? k + k : k);
              });
    return sum;
}

Lanes component_product(const PlanView& p, Block& b, std::int32_t c) {
    if (p.component_has_sets[c]) return mixed_product(p, b, c);
    switch (p.component_size[c]) {
        case 1: return sweep_product(p, b, c);
        case 2: return square_product<2>(p, b, c);
        case 3: return square_product<3>(p, b, c);
        case 4: return square_product<4>(p, b, c);
        default: return square_product<0>(p, b, c);
    }
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
    const Lanes zero = splat(0.0), scale = lanes(b.error_scale)[c];
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
        lanes(b.error_of)[q] += select(mask, scale, zero);
    }
}

void gains(const PlanView& p, Block& b) {
    const Lanes zero = splat(0.0);
    for (std::int32_t q = 0; q <= p.n_features; ++q) lanes(b.error_of)[q] = zero;
    for (std::int32_t q = 0; q < p.n_features; ++q) lanes(b.gain)[q] = zero;
    lanes(b.product)[p.n_terms] = lanes(b.weight)[p.n_terms];
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c) {
        const State state = state_of(p, b, c);
        const auto needed = static_cast<LaneBits>(
            state.frontier | (p.component_has_children[c] ? state.complete : LaneBits{0}));
        b.changed[c] = 0;
        if (needed & b.dirty[c]) {
            lanes(b.form)[c] = component_product(p, b, c);
            b.changed[c] = b.dirty[c];
            b.dirty[c] = 0;
        }
        if (state.frontier) add_frontier(p, b, c, state.frontier);
        if (state.complete)
            lanes(b.error_of)[p.n_features] +=
                select(lanes_of(state.complete), lanes(b.error_scale)[c], zero);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
