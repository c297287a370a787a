// The forms of a component for many subsets, side by side; see SubsetGaps.
#pragma once

#include "terms/forms.hpp"
#include "terms/subset_gaps.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// 1 in the lanes whose number has all bits of i.
alignas(64) constexpr double kSupersets[8][8] = {
    {1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 0, 0, 1, 1}, {0, 0, 0, 1, 0, 0, 0, 1},
    {0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 0, 0, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 1}};

// The weights of all subsets of the block: each is the sum of the parts of its subsets.
PREDGAP_INLINE void sum_parts(const SubsetBlock& b, std::int64_t n_rows) {
    const std::int64_t n_packs = std::int64_t{1} << (b.n_bits - SubsetBlock::kLeastBits);
    for (std::int64_t i = 0; i < n_rows * n_packs; ++i) lanes(b.weight)[i] = splat(0.0);
    for (std::int64_t p = 0; p < b.n_parts; ++p) {
        const auto& part = b.part[p];
        const Lanes has = *lanes(kSupersets[part.subset % 8]);
        Lanes* to = lanes(b.weight) + part.subset / 8;
        for (std::int64_t row = 0; row < n_rows; ++row) to[row * n_packs] += splat(part.weight[row]) * has;
    }
    for (std::int64_t bit = 1; bit < n_packs; bit *= 2)
        for (std::int64_t row = 0; row < n_rows; ++row) {
            Lanes* own = lanes(b.weight) + row * n_packs;
            for (std::int64_t first = bit; first < n_packs; first += 2 * bit)
                for (std::int64_t i = first; i < first + bit; ++i) own[i] += own[i - bit];
        }
}

// The form of one numeric feature by a sweep like `sweep`, for eight subsets side by side.
PREDGAP_INLINE Lanes sweep_lanes(const Form& f, const Lanes* w, std::int64_t n_packs) {
    Lanes total = splat(0.0), earlier = splat(0.0);
    for (std::int32_t t = 0; t < f.c.n_terms; ++t, w += n_packs) {
        const double* tail = f.tables.tail.data() + 2 * f.atom[t];
        const Lanes below = *w * splat(tail[0]);
        total += *w * splat(tail[1]) * (earlier + earlier + below);
        earlier += below;
    }
    return total;
}

PREDGAP_INLINE double pair_factor(const Form& f, std::int32_t s, std::int32_t t) {
    double z = s == t ? 1.0 : 2.0;
    for (std::int32_t j = 0; j < f.c.size; ++j) {
        const auto* atom = f.atom + std::int64_t{j} * f.c.stride;
        z *= atom[s] < f.tables.model().n_thresholds() ? factor(f.tables, atom[s], atom[t], false)
                                                       : set_factor(f, j, false, s, t);
    }
    return z;
}

PREDGAP_INLINE Lanes form_lanes(const double* gram, std::int64_t n, const Lanes* w, std::int64_t n_packs) {
    Lanes total = splat(0.0);
    for (std::int64_t s = 0; s < n; ++s, gram += n) {
        Lanes with = splat(0.0);
        for (auto t = s; t < n; ++t) with += splat(gram[t]) * w[t * n_packs];
        total += with * w[s * n_packs];
    }
    return total;
}

// Computes the forms one subset after the other, where there are many terms, or a categorical feature alone.
void forms_one_by_one(TermState& s, std::int32_t component, const SubsetBlock& b) {
    const auto& c = s.terms->component[component];
    const std::int64_t n_subsets = std::int64_t{1} << b.n_bits;
    for (std::int64_t i = 0; i < n_subsets && !s.work->stopped(); ++i) {
        for (std::int64_t k = 0; k < s.terms->width; ++k)
            for (std::int64_t t = 0; t < c.n_terms; ++t)
                s.weight[k * s.terms->n_weights + c.first_term + t] =
                    b.weight[(k * c.n_terms + t) * n_subsets + i];
        count_form(s, component);
        b.form[i] = form_inside<false>(Form(s, component));
    }
}

void subset_forms(TermState& s, std::int32_t component, const SubsetBlock& b) {
    const Form f(s, component);
    const std::int64_t n_terms = component == 0 ? 1 : f.c.n_terms;
    const std::int64_t n_packs = std::int64_t{1} << (b.n_bits - SubsetBlock::kLeastBits);
    sum_parts(b, n_terms * f.width);
    const bool is_main = component > 0 && f.c.size == 1, is_swept = is_main && !f.c.has_sets;
    if (!is_swept && (is_main || n_terms > SubsetBlock::kMostGram)) return forms_one_by_one(s, component, b);
    if (!is_swept && b.is_first)
        for (std::int32_t i = 0; i < n_terms; ++i)
            for (auto t = i; t < n_terms; ++t)
                b.gram[i * n_terms + t] = component == 0 ? 1.0 : pair_factor(f, i, t);
    for (std::int64_t i = 0; i < n_packs; ++i) {
        Lanes total = splat(0.0);
        for (std::int64_t k = 0; k < f.width; ++k) {
            const Lanes* w = lanes(b.weight) + k * n_terms * n_packs + i;
            total += is_swept ? sweep_lanes(f, w, n_packs) : form_lanes(b.gram, n_terms, w, n_packs);
        }
        lanes(b.form)[i] = total;
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
