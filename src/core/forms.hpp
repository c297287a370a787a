// Q_C = sum over the terms s, t of a component of W_s W_t prod min(F_s, F_t) min(S_s, S_t).
#pragma once

#include "masks.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE Lanes sweep(const PlanView& p, const Block& b, std::int32_t c) {
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Lanes sum = splat(0.0), earlier = splat(0.0);
    auto at = p.component_slot_begin[c];
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, ++at) {
        const auto a = p.term_atom[at];
        const Lanes w = weight[t], f = w * below[a];
        sum += w * above[a] * (earlier + earlier + f);
        earlier += f;
    }
    return sum;
}

// Terms are sorted by their first atom, so for s before t the first slot's factor is F_s S_t: it is
// folded into the weights. Gathered rows are [W F, W S, F_1, S_1, F_2, S_2, ...].
template <int kSize>
PREDGAP_INLINE Lanes triangle(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes sum = splat(0.0);
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += 2 * size) {
        const Lanes w = weight[first + t];
        row_t[0] = w * below[atom[0]];
        row_t[1] = w * above[atom[0]];
        Lanes own = row_t[0];
        for (std::int32_t j = 1; j < size; ++j) {
            row_t[2 * j] = below[atom[j]];
            row_t[2 * j + 1] = above[atom[j]];
            own *= row_t[2 * j] * row_t[2 * j + 1];
        }
        Lanes earlier = splat(0.0);
        const Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += 2 * size) {
            Lanes k = row_s[0];
            for (std::int32_t j = 1; j < size; ++j)
                k *= min(row_s[2 * j], row_t[2 * j]) * min(row_s[2 * j + 1], row_t[2 * j + 1]);
            earlier += k;
        }
        sum += row_t[1] * (earlier + earlier + own);
    }
    return sum;
}

// Sums by level that are added to and asked for below a level, each in logarithmic time.
struct Fenwick {
    Lanes* node;
    std::int32_t n_levels;

    PREDGAP_INLINE void clear() {
        for (std::int32_t i = 0; i < n_levels; ++i) node[i] = splat(0.0);
    }
    PREDGAP_INLINE void add(std::int32_t level, const Lanes& value) {
        for (auto i = level; i < n_levels; i |= i + 1) node[i] += value;
    }
    PREDGAP_INLINE Lanes below(std::int32_t level) const {
        Lanes sum = splat(0.0);
        for (auto i = level - 1; i >= 0; i = (i & (i + 1)) - 1) sum += node[i];
        return sum;
    }
};

// Two features, many terms: sorted by the first, they are swept once, with sums by the level of the second.
bool sweeps_two(const PlanView& p, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c] + 1];
    const auto n = p.component_term_begin[c + 1] - p.component_term_begin[c];
    return n >= 32 && p.atom_begin[q + 1] - p.atom_begin[q] <= 4 * n;
}

Lanes sweep_two(const PlanView& p, Block& b, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c] + 1];
    const auto base = p.atom_begin[q], n_levels = p.atom_begin[q + 1] - base;
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Fenwick lower{lanes(b.scratch), n_levels}, upper{lanes(b.scratch) + n_levels, n_levels};
    lower.clear();
    upper.clear();
    Lanes sum = splat(0.0);
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, atom += 2) {
        if (stopped(b)) break;
        const auto level = atom[1] - base;
        const Lanes f = below[atom[1]], s = above[atom[1]], u = weight[t] * below[atom[0]];
        const Lanes uf = u * f, us = u * s;
        const Lanes earlier = s * lower.below(level + 1) + f * upper.below(n_levels - 1 - level);
        sum += weight[t] * above[atom[0]] * (earlier + earlier + uf * s);
        lower.add(level, uf);
        upper.add(n_levels - 1 - level, us);  // levels from above, so that nothing is subtracted
    }
    return sum;
}

Lanes component_gap(const PlanView& p, Block& b, std::int32_t c) {
    switch (p.component_size[c]) {
        case 1: return sweep(p, b, c);
        case 2: return sweeps_two(p, c) ? sweep_two(p, b, c) : triangle<2>(p, b, c);
        case 3: return triangle<3>(p, b, c);
        case 4: return triangle<4>(p, b, c);
        default: return triangle<0>(p, b, c);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
