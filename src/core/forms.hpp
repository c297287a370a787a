// Q_C = sum over the terms s, t of a component of W_s W_t prod min(F_s, F_t) min(S_s, S_t).
#pragma once

#include "mixed.hpp"

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

// kSums sums by level, added to at one level, and asked for below a level or from it on; nothing is
// subtracted. Tiers of a tree of eights: the levels, then their sums by eights, and so on.
template <int kSums>
struct LevelSums {
    Lanes* node;
    std::int32_t n_levels;

    PREDGAP_INLINE void clear() {
        for (std::int64_t i = 0; i < level_nodes(n_levels) * kSums; ++i) node[i] = splat(0.0);
    }
    PREDGAP_INLINE void add(std::int32_t level, const Lanes (&value)[kSums]) {
        Lanes* tier = node;
        for (auto n = n_levels;; tier += n * kSums, n = (n + 7) / 8, level /= 8) {
            for (int k = 0; k < kSums; ++k) tier[level * kSums + k] += value[k];
            if (n <= 8) return;
        }
    }
    PREDGAP_INLINE void below(std::int32_t level, Lanes (&sum)[kSums]) const {
        for (auto& s : sum) s = splat(0.0);
        const Lanes* tier = node;
        for (auto n = n_levels;; tier += n * kSums, n = (n + 7) / 8, level /= 8) {
            for (auto i = n <= 8 ? 0 : level / 8 * 8; i < level; ++i)  // the last tier has no more above it
                for (int k = 0; k < kSums; ++k) sum[k] += tier[i * kSums + k];
            if (n <= 8) return;
        }
    }
    PREDGAP_INLINE void from(std::int32_t level, Lanes (&sum)[kSums]) const {
        for (auto& s : sum) s = splat(0.0);
        const Lanes* tier = node;
        for (auto n = n_levels;; tier += n * kSums, n = (n + 7) / 8, level = (level + 7) / 8) {
            const auto end = (level + 7) / 8 * 8;
            for (auto i = level; i < end && i < n; ++i)
                for (int k = 0; k < kSums; ++k) sum[k] += tier[i * kSums + k];
            if (n <= 8) return;
        }
    }
};

// Two features, in the order of one: swept once, with sums by the level of the other.
Lanes sweep_two(const PlanView& p, Block& b, std::int32_t c) {
    const auto n_levels = p.component_levels[c];
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    LevelSums<1> low{lanes(b.scratch), n_levels}, high{low.node + level_nodes(n_levels), n_levels};
    low.clear();
    high.clear();
    Lanes sum = splat(0.0);
    for (auto i = p.component_term_begin[c]; i < p.component_term_begin[c + 1] && !stopped(b); ++i) {
        const auto [t, lead, other, level] = p.swept_term[i];
        const Lanes f = below[other], s = above[other], u = weight[t] * below[lead];
        Lanes lower[1], upper[1];
        low.below(level + 1, lower);
        high.from(level + 1, upper);
        const Lanes uf = u * f, earlier = s * lower[0] + f * upper[0];
        sum += weight[t] * above[lead] * (earlier + earlier + uf * s);
        low.add(level, {uf});
        high.add(level, {u * s});
    }
    return sum;
}

Lanes component_gap(const PlanView& p, Block& b, std::int32_t c) {
    if (p.component_has_sets[c]) return mixed_gap(p, b, c);
    switch (p.component_size[c]) {
        case 1: return sweep(p, b, c);
        case 2: return p.component_levels[c] ? sweep_two(p, b, c) : triangle<2>(p, b, c);
        case 3: return triangle<3>(p, b, c);
        case 4: return triangle<4>(p, b, c);
        default: return triangle<0>(p, b, c);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
