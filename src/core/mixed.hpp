// Components with categories.
#pragma once

#include <utility>

#include "masks.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

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

// One categorical feature, alone or with a numeric one, many terms and few cells: the form is the mean over
// the cells that x' may be in of the numeric feature's form, whose weights are sums over the terms of
//     a_t(cell) = (cell in K ? out_t : -in_t) - c_t,   with c = e inside the subset and 0 outside.
class CellMeans {
public:
    CellMeans(const PlanView& p, Block& b, std::int32_t c, const double* constant)
        : p_(p),
          b_(b),
          feature_(p.component_cells[c] - 1),
          first_(p.component_term_begin[c]),
          n_(p.component_term_begin[c + 1] - first_),
          n_levels_(p.component_levels[c]),
          out_(lanes(b.scratch)),
          in_(out_ + n_),
          base_(in_ + n_),
          sum_(base_ + n_levels_) {
        for (std::int32_t l = 0; l < n_levels_; ++l) base_[l] = splat(0.0);
        for (std::int32_t i = 0; i < n_; ++i) {
            const auto& t = term(i);
            const Lanes w = lanes(b.weight)[t.term];
            out_[i] = w * lanes(b.below)[t.lead];
            in_[i] = splat(0.0) - w * lanes(b.above)[t.lead];
            base_[t.level] = base_[t.level] - w * lanes(constant)[t.lead];
        }
        Lanes elsewhere = splat(0.0);
        for (std::int32_t cell = 0; cell < n_cells(); ++cell)
            elsewhere += select(here(cell), splat(0.0), splat(mass(cell)));
        stays_ = max(splat(1.0) - elsewhere, splat(0.0));
    }

    std::int32_t n_terms() const { return n_; }
    std::int32_t n_levels() const { return n_levels_; }
    const SweptTerm& term(std::int32_t i) const { return p_.swept_term[first_ + i]; }
    bool in_set(std::int32_t i, std::int32_t cell) const {
        const auto* word = p_.set_word + p_.set_word_begin[term(i).lead - p_.n_thresholds];
        return (word[cell / 64] >> (cell % 64)) & 1;
    }
    Lanes* spare() const { return sum_ + n_levels_; }  // (3 n_levels)

    // Calls visit(cell, P(x' in it), weights by level) for each cell.
    template <class Visit>
    PREDGAP_INLINE void each(Visit visit) {
        for (std::int32_t cell = 0; cell < n_cells() && !stopped(b_); ++cell) {
            for (std::int32_t l = 0; l < n_levels_; ++l) sum_[l] = base_[l];
            for (std::int32_t i = 0; i < n_; ++i) sum_[term(i).level] += in_set(i, cell) ? out_[i] : in_[i];
            visit(cell, select(here(cell), stays_, splat(mass(cell))), sum_);
        }
    }

private:
    std::int32_t n_cells() const { return p_.cell_begin[feature_ + 1] - p_.cell_begin[feature_]; }
    double mass(std::int32_t cell) const { return b_.sets.mass[p_.cell_begin[feature_] + cell]; }
    Lanes here(std::int32_t cell) const {
        const Lanes x = lanes(b_.x)[feature_], at = splat(cell);
        return splat(1.0) - max(is_less(x, at), is_less(at, x));
    }

    const PlanView& p_;
    Block& b_;
    std::int32_t feature_, first_, n_, n_levels_;
    Lanes *out_, *in_, *base_, *sum_;
    Lanes stays_;
};

// The atoms of the numeric feature by level, ascending; with none there is one level.
PREDGAP_INLINE void atoms_by_level(const CellMeans& means, std::int32_t* atom) {
    for (std::int32_t i = 0; i < means.n_terms(); ++i) atom[means.term(i).level] = means.term(i).other;
}

// W'HW', or, if not nested, the form of a complete component.
template <bool kNested>
Lanes form_by_cells(const PlanView& p, Block& b, std::int32_t c) {
    CellMeans means(p, b, c, kNested ? b.pair_other : b.shift);
    const Lanes zero = splat(0.0);
    Lanes total = zero;
    if (p.component_size[c] == 1) {
        means.each([&](std::int32_t, const Lanes& mass, const Lanes* w) { total += mass * (w[0] * w[0]); });
        return total;
    }
    std::int32_t* atom = b.level_atom;
    atoms_by_level(means, atom);
    means.each([&](std::int32_t, const Lanes& mass, const Lanes* w) {
        Lanes sum = zero, f = zero, n = zero;
        for (std::int32_t l = 0; l < means.n_levels(); ++l) {
            const auto a = atom[l];
            const Lanes above = lanes(b.above)[a], lower = kNested ? lanes(b.lower)[a] : above;
            const Lanes wf = w[l] * lanes(b.below)[a];
            Lanes own = wf * lower, earlier = f * lower;
            if (kNested) {
                const Lanes wn = w[l] * lanes(b.upper)[a];
                own += wn * above;
                earlier += n * above;
                n += wn;
            }
            sum += w[l] * (earlier + earlier + own);
            f += wf;
        }
        total += mass * sum;
    });
    return total;
}

// G W where all features are inside.
void product_by_cells(const PlanView& p, Block& b, std::int32_t c) {
    CellMeans means(p, b, c, b.shift);
    Lanes *product = lanes(b.product), *applied = means.spare();
    std::int32_t* atom = b.level_atom;
    if (p.component_size[c] == 2) atoms_by_level(means, atom);
    for (std::int32_t i = 0; i < means.n_terms(); ++i) product[means.term(i).term] = splat(0.0);
    means.each([&](std::int32_t cell, const Lanes& mass, const Lanes* w) {
        applied[0] = w[0];
        if (p.component_size[c] == 2) {
            Lanes f = splat(0.0), s = splat(0.0);
            for (std::int32_t l = 0; l < means.n_levels(); ++l) {
                f += w[l] * lanes(b.below)[atom[l]];
                applied[l] = f * lanes(b.above)[atom[l]];
            }
            for (std::int32_t l = means.n_levels() - 1; l >= 0; --l) {
                applied[l] += s * lanes(b.below)[atom[l]];
                s += w[l] * lanes(b.above)[atom[l]];
            }
        }
        for (std::int32_t i = 0; i < means.n_terms(); ++i) {
            const auto& t = means.term(i);
            const Lanes side =
                means.in_set(i, cell) ? lanes(b.below)[t.lead] : splat(0.0) - lanes(b.above)[t.lead];
            product[t.term] += mass * ((side - lanes(b.shift)[t.lead]) * applied[t.level]);
        }
    });
}

Lanes mixed_gap(const PlanView& p, Block& b, std::int32_t c) {
    if (p.component_cells[c]) return form_by_cells<false>(p, b, c);
    const Lanes zero = splat(0.0);
    const auto third = [&](std::int32_t a) { return a < p.n_thresholds ? zero : lanes(b.shift)[a]; };
    Lanes sum = zero;
    each_pair(p, b, c, b.below, b.above, third,
              [&](std::int32_t s, std::int32_t t, const Lanes& w_s, const Lanes& w_t, const Lanes& k) {
                  sum += w_s * w_t * (s < t ? k + k : k);
              });
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

}  // namespace
}  // namespace predgap::PREDGAP_ISA
