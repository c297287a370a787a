// Quadratic forms with categories, over pairs of terms.
#pragma once

#include <algorithm>

#include "terms/pair_forms.hpp"
#include "terms/tiles.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Yields, for each term s, its factors with the terms from 4⌊s/4⌋ on, in scratch memory. Terms are sorted by
// the sets of the leading slot: so its factors come from memory one after the other, and are the same for the
// terms that share a set.
class SetRows {
public:
    static constexpr std::int32_t kMostSlots = kMostFormSlots;
    static constexpr std::int64_t kBlock = 64;  // fours, whose arrays stay in the nearest memory
    static constexpr std::int64_t kAhead = 3;   // terms

    SetRows(const Form& f, std::int32_t outside, Arena memory)
        : n_(f.c.stride / 4),
          outside_(outside),
          arrays_(memory, f.c.size, n_set_slots(f), f.c.stride),
          row_(arrays_.row),
          of_leading_(arrays_.of_leading) {
        add_set(f, f.c.leading);
        for (std::int32_t j = 0; j < f.c.size; ++j) {
            if (j == f.c.leading) continue;
            if (is_set_slot(f, j))
                add_set(f, j);
            else
                add_number(f, j);
        }
    }

    // visit(s, first, end, z): the factors z[first .. end) of term s with these fours, for all terms and
    // fours, block by block. On the diagonal as kDiagonal says.
    template <class Visit>
    PREDGAP_INLINE void each(const Form& f, Visit visit) {
        for (std::int64_t block = 0; block < n_ && !f.stopped(); block += kBlock) {
            const auto end = std::min(block + kBlock, n_);
            for (std::int64_t s = 0; s < std::min(4 * end, std::int64_t{f.c.n_terms}); ++s) {
                const auto first = std::max(block, s / 4);
                look_up_row(s, first, end);
                if (first == s / 4) fours(row_)[first] *= *fours(kDiagonal[s % 4]);
                visit(s, first, end, fours(row_));
            }
        }
    }

private:
    struct Set {
        SetSlot slot;
        std::int32_t* column;  // (stride) which determinant is that with a term
        double* mean;          // (stride) of tau
    };
    struct Number {
        const double *low, *high;  // (stride)
        bool is_outside;
    };
    static std::int64_t n_set_slots(const Form& f) {
        std::int64_t n = 0;
        for (std::int32_t j = 0; j < f.c.size; ++j) n += is_set_slot(f, j);
        return n;
    }
    void add_set(const Form& f, std::int32_t slot) {
        auto& own = sets_[n_sets_] = {set_slot(f, slot, slot == outside_), arrays_.column[n_sets_],
                                      arrays_.mean[n_sets_]};
        ++n_sets_;
        for (std::int64_t i = 0; i < f.c.stride; ++i) {
            own.column[i] = own.slot.column(i);
            own.mean[i] = f.tables.shift[own.slot.atom[i]];
        }
    }
    void add_number(const Form& f, std::int32_t slot) {
        double *low = arrays_.low[n_numbers_], *high = arrays_.high[n_numbers_];
        const double* table = (slot == outside_ ? f.tables.crossing : f.tables.tail).data();
        const auto* atom = f.atom + slot * std::int64_t{f.c.stride};
        for (std::int64_t v = 0; v < n_; ++v)
            look_up_pairs(table, atom + 4 * v, fours(low)[v], fours(high)[v]);
        numbers_[n_numbers_++] = {low, high, slot == outside_};
    }
    // A term with the next but one set in the leading slot, whose determinants are needed soon.
    PREDGAP_INLINE std::int64_t later_set(std::int64_t s) const {
        const auto* atom = sets_[0].slot.atom;
        for (int i = 0; i < 2; ++i)
            for (const auto own = atom[s]; s < 4 * n_ - 1 && atom[s] == own;) ++s;
        return s;
    }
    PREDGAP_INLINE void look_up_row(std::int64_t s, std::int64_t first, std::int64_t end) {
        const auto& leading = sets_[0];
        if (s == 0 || leading.slot.atom[s] != leading.slot.atom[s - 1])
            each_factor(leading, s, later_set(s), first, end,
                        [&](std::int64_t v, const Four& factor) { fours(of_leading_)[v] = factor; });
        const Four* from = fours(of_leading_);
        for (std::int32_t j = 0; j < n_numbers_; ++j, from = fours(row_))
            if (numbers_[j].is_outside)
                multiply<true>(numbers_[j], s, from, first, end);
            else
                multiply<false>(numbers_[j], s, from, first, end);
        for (std::int32_t j = 1; j < n_sets_; ++j, from = fours(row_))
            each_factor(sets_[j], s, s + kAhead, first, end,
                        [&](std::int64_t v, const Four& factor) { fours(row_)[v] = from[v] * factor; });
    }
    // visit(v, factors of term s with four others). Those of a later term are fetched meanwhile.
    template <class Visit>
    PREDGAP_INLINE void each_factor(const Set& q, std::int64_t s, std::int64_t ahead, std::int64_t first,
                                    std::int64_t end, Visit visit) {
        const double *determinant = q.slot.row(s), *next = q.slot.row(std::min(ahead, 4 * n_ - 1));
        const auto look_up_four = [&](std::int64_t v) {
            for (int i = 0; i < 4; ++i) __builtin_prefetch(next + q.column[4 * v + i]);
            return look_up(determinant, q.column + 4 * v);
        };
        if (q.slot.factor.is_determinant()) {
            for (auto v = first; v < end; ++v) visit(v, look_up_four(v));
            return;
        }
        const Four scale = four(q.slot.factor.by_determinant),
                   mean = four(q.slot.factor.by_means * q.mean[s]);
        for (auto v = first; v < end; ++v) visit(v, scale * look_up_four(v) + mean * fours(q.mean)[v]);
    }
    template <bool kOutside>
    PREDGAP_INLINE void multiply(const Number& q, std::int64_t s, const Four* from, std::int64_t first,
                                 std::int64_t end) {
        const Four low = four(q.low[s]), high = four(q.high[s]);
        for (auto v = first; v < end; ++v) {
            const Four a = min(low, fours(q.low)[v]), b = min(high, fours(q.high)[v]);
            fours(row_)[v] = from[v] * (kOutside ? a + b : a * b);
        }
    }

    std::int64_t n_;  // fours
    std::int32_t outside_, n_sets_ = 0, n_numbers_ = 0;
    SetRowArrays arrays_;
    double *row_, *of_leading_;
    Set sets_[kMostSlots];  // the leading one first
    Number numbers_[kMostSlots];
};

// True if there are tables of all factors, and terms enough.
PREDGAP_INLINE bool has_set_rows(const Form& f) {
    return f.c.size <= SetRows::kMostSlots && f.c.n_terms > 2 && are_filled(f);
}

template <bool kProduct>
double form_with_sets(const Form& f, std::int32_t outside) {
    if (!has_set_rows(f)) return form_by_pairs<kProduct>(f, outside);
    const std::int64_t stride = f.c.stride, n = stride / 4;
    Arena memory = f.scratch;
    double* below = kProduct ? take_below(memory, f.width, stride) : nullptr;  // (width, stride)
    SetRows rows(f, outside, memory);
    if (kProduct)
        for (std::int64_t i = 0; i < f.width * n; ++i) fours(below)[i] = four(0.0);
    for (std::int64_t k = 0; kProduct && k < f.width; ++k)
        std::fill_n(f.product + k * f.n_weights, f.c.n_terms, 0.0);
    Four total = four(0.0);
    rows.each(f, [&](std::int64_t s, std::int64_t first, std::int64_t end, const Four* z) {
        for (std::int64_t k = 0; k < f.width; ++k) {
            const double* weight = f.weight + k * f.n_weights;
            const Four of_row = four(weight[s]);
            Four own = four(0.0);
            for (auto v = first; v < end; ++v) {
                own += z[v] * load<4>(weight + 4 * v);
                if (kProduct) fours(below)[k * n + v] += z[v] * of_row;
            }
            total += own * of_row;
            if (kProduct) f.product[k * f.n_weights + s] += sum(own);
        }
    });
    for (std::int64_t k = 0; kProduct && k < f.width; ++k)
        for (std::int64_t i = 0; i < f.c.n_terms; ++i)
            f.product[k * f.n_weights + i] += below[k * stride + i];
    return 2.0 * sum(total);
}

// The forms of several versions of the weights; each factor is computed once.
template <int kVersions>
void set_forms_of_versions(const Form& f, const double* weight, double* found) {
    const std::int64_t stride = f.c.stride;
    SetRows rows(f, kInside, f.scratch);
    Four total[kVersions];
    for (auto& of_version : total) of_version = four(0.0);
    rows.each(f, [&](std::int64_t s, std::int64_t first, std::int64_t end, const Four* z) {
        Four own[kVersions];
        for (auto& of_version : own) of_version = four(0.0);
        for (auto v = first; v < end; ++v)
            for (int k = 0; k < kVersions; ++k) own[k] += z[v] * fours(weight + k * stride)[v];
        for (int k = 0; k < kVersions; ++k) total[k] += own[k] * four(weight[k * stride + s]);
    });
    for (int k = 0; k < kVersions; ++k) found[k] = 2.0 * sum(total[k]);
}
void set_forms_of_versions(const Form& f, const VersionWeights& versions, double* found) {
    const double* weight = versions.weight;
    switch (versions.n) {
        case 1: return set_forms_of_versions<1>(f, weight, found);
        case 2: return set_forms_of_versions<2>(f, weight, found);
        case 3: return set_forms_of_versions<3>(f, weight, found);
        case 4: return set_forms_of_versions<4>(f, weight, found);
        case 5: return set_forms_of_versions<5>(f, weight, found);
        case 6: return set_forms_of_versions<6>(f, weight, found);
        case 7: return set_forms_of_versions<7>(f, weight, found);
        case 8: return set_forms_of_versions<8>(f, weight, found);
        default: unreachable_size("set_forms_of_versions", versions.n);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
