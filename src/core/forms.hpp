// Q_C = sum over the terms s, t of a component of W_s W_t prod min(F_s, F_t) min(S_s, S_t).
#pragma once

#include <utility>

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

// A slot of a component with categories.
struct Slot {
    const SetTables* sets;  // null for a threshold
    const std::int32_t* index;
    std::int32_t first, n_thresholds;  // its first atom, and that of all sets

    // E[tau tau'] less c c' of two atoms: with tau = +1 on K where x is out of it, -1 on its complement where
    // x is in it, the joint masses of those sides. Rows are [x is out, x is in, c]; of thresholds, [a, b, c].
    PREDGAP_INLINE Lanes factor(std::int32_t atom_s, const Lanes* s, std::int32_t atom_t,
                                const Lanes* t) const {
        if (!sets) return min(s[0], t[0]) * min(s[1], t[1]) + min(s[2], t[2]);
        if (atom_s < atom_t) {
            std::swap(atom_s, atom_t);
            std::swap(s, t);
        }
        const std::int64_t row = atom_s - first;
        const auto pair = index[row * (row + 1) / 2 + (atom_t - first)];
        if (pair < 0) {
            const Lanes in_s = splat(sets->inside[atom_s - n_thresholds]);
            const Lanes in_t = splat(sets->inside[atom_t - n_thresholds]);
            return splat(0.0) - s[0] * (t[1] * in_s) - s[1] * (t[0] * in_t) - s[2] * t[2];
        }
        const double* joint = sets->joint + 4 * std::int64_t{pair};
        return s[0] * (t[0] * splat(joint[0]) - t[1] * splat(joint[1])) +
               s[1] * (t[1] * splat(joint[3]) - t[0] * splat(joint[2])) - s[2] * t[2];
    }
};

// Any atoms. Gathered rows are [W, a_0, b_0, c_0, a_1, ...]; pair(s, t, k) is told the product of factors.
template <class Third, class Pair>
PREDGAP_INLINE void each_pair(const PlanView& p, Block& b, std::int32_t c, const double* first_of,
                              const double* second_of, Third third_of, Pair pair) {
    const auto size = p.component_size[c];
    const std::int32_t stride = 1 + 3 * size;
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    Slot slot[32];
    for (std::int32_t j = 0; j < size; ++j) {
        const auto q = p.component_feature[p.component_feature_begin[c] + j];
        const auto begin = p.set_atom_begin[q], n_sets = p.set_atom_begin[q + 1] - begin;
        slot[j] = {n_sets ? &b.sets : nullptr, b.sets.index + (n_sets ? b.sets.begin[q] : 0), begin,
                   p.n_thresholds};
    }
    const auto* atom_t = p.term_atom + p.component_slot_begin[c];
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom_t += size, row_t += stride) {
        row_t[0] = lanes(b.weight)[first + t];
        for (std::int32_t j = 0; j < size; ++j) {
            row_t[1 + 3 * j] = lanes(first_of)[atom_t[j]];
            row_t[2 + 3 * j] = lanes(second_of)[atom_t[j]];
            row_t[3 + 3 * j] = third_of(atom_t[j]);
        }
        const Lanes* row_s = lanes(b.scratch);
        const auto* atom_s = p.term_atom + p.component_slot_begin[c];
        for (std::int32_t s = 0; s <= t; ++s, row_s += stride, atom_s += size) {
            Lanes k = splat(1.0);
            for (std::int32_t j = 0; j < size; ++j)
                k *= slot[j].factor(atom_s[j], row_s + 1 + 3 * j, atom_t[j], row_t + 1 + 3 * j);
            pair(s, t, row_s[0], row_t[0], k);
        }
    }
}

Lanes mixed_gap(const PlanView& p, Block& b, std::int32_t c) {
    const Lanes zero = splat(0.0);
    const auto third = [&](std::int32_t a) { return a < p.n_thresholds ? zero : lanes(b.shift)[a]; };
    Lanes sum = zero;
    each_pair(p, b, c, b.below, b.above, third,
              [&](std::int32_t s, std::int32_t t, const Lanes& w_s, const Lanes& w_t, const Lanes& k) {
                  sum += w_s * w_t * (s < t ? k + k : k);
              });
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
