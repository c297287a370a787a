// The products G W of components, which gains need.
//
// Where a plan has room for it, the factors of all pairs of a component's terms, its Gram matrix, are kept
// while the same features are outside. A feature that is pushed then adds a few rows of it to the product:
// one for each term that gives weight. Every product is a sum over the same changes as the weights.
#pragma once

#include "terms/closed_forms.hpp"
#include "terms/forms.hpp"
#include "terms/pushing.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool keeps_gram(const TermState& s, std::int32_t component) {
    return s.keeps_grams && s.terms->gram_at[component] != RowTerms::kNoGram;
}

template <int kSlots, bool kOutside>
void write_gram(const Form& f, std::int32_t outside, double* gram) {
    const GatheredTables<kSlots> t(f, outside);
    for (std::int64_t v = 0; v < t.n; ++v) {
        Four low[kSlots], high[kSlots];
        for (int j = 0; j < kSlots; ++j) {
            low[j] = fours(t.low)[j * t.n + v];
            high[j] = fours(t.high)[j * t.n + v];
        }
        for (std::int64_t b = 0; b <= v; ++b) {
            Four z[4];
            for (int r = 0; r < 4; ++r) {
                z[r] = factors<kSlots, false, kOutside>(t.low, t.high, t.stride, 4 * b + r, low, high);
                fours(gram)[(4 * b + r) * t.n + v] = z[r];
            }
            if (b == v) continue;
            transpose(z);
            for (int r = 0; r < 4; ++r) fours(gram)[(4 * v + r) * t.n + b] = z[r];
        }
    }
}

template <int kSlots>
PREDGAP_INLINE void write_gram(const Form& f, std::int32_t outside, double* gram) {
    outside == kInside ? write_gram<kSlots, false>(f, outside, gram)
                       : write_gram<kSlots, true>(f, outside, gram);
}

// Adds rows of a matrix with n fours of columns to a product: sizes[i] times row_of(i), to kWide fours from
// the first on. Several sums side by side: one addition need not wait for the last.
template <int kWide, class RowOf>
PREDGAP_INLINE void add_columns(const double* gram, std::int64_t n, const double* sizes, std::int32_t n_rows,
                                const RowOf& row_of, std::int64_t first, double* product) {
    Four sum[kWide];
    for (int j = 0; j < kWide; ++j) sum[j] = load<4>(product + 4 * (first + j));
    for (std::int32_t i = 0; i < n_rows; ++i) {
        const Four size = four(sizes[i]), *row = fours(gram) + row_of(i) * n + first;
        for (int j = 0; j < kWide; ++j) sum[j] += size * row[j];
    }
    for (int j = 0; j < kWide; ++j) store(sum[j], product + 4 * (first + j));
}

template <class RowOf>
PREDGAP_INLINE void add_rows(const double* gram, std::int64_t n, const double* sizes, std::int32_t n_rows,
                             const RowOf& row_of, double* product) {
    std::int64_t v = 0;
    for (; v + 4 <= n; v += 4) add_columns<4>(gram, n, sizes, n_rows, row_of, v, product);
    for (; v + 2 <= n; v += 2) add_columns<2>(gram, n, sizes, n_rows, row_of, v, product);
    if (v < n) add_columns<1>(gram, n, sizes, n_rows, row_of, v, product);
}

// Computes the Gram matrix and the product of a component whose features outside have changed.
void begin_gram(TermState& s, std::int32_t component, std::int32_t outside) {
    const Form f(s, component);
    double* gram = s.gram.data() + s.terms->gram_at[component];
    count_form(s, component);
    switch (f.c.size) {
        case 2: write_gram<2>(f, outside, gram); break;
        case 3: write_gram<3>(f, outside, gram); break;
        case 4: write_gram<4>(f, outside, gram); break;
        default: unreachable_size("write_gram", f.c.size);
    }
    std::fill_n(f.product, f.c.stride, 0.0);
    add_rows(gram, f.c.stride / 4, f.weight, f.c.n_terms, [](std::int32_t t) { return t; }, f.product);
}

// Changes the product of the component `to`, to which the terms of a component with one more feature have
// given weight.
PREDGAP_INLINE void add_to_product(TermState& s, Use use, std::int32_t to) {
    const auto &from = s.terms->component[use.component], &c = s.terms->component[to];
    const auto at = from.slots + std::int64_t{use.slot} * from.stride;
    const auto *atom = s.terms->atom.data() + at, *parent = s.terms->parent.data() + at;
    s.work->add(nominal::kSlotOfPair * from.n_terms * c.stride);
    const double *weight = s.weight.data() + from.first_term, *gram = s.gram.data() + s.terms->gram_at[to];
    double *product = s.product.data() + c.first_term, *change = s.shifted.data() + from.first_term;
    for (std::int32_t t = 0; t < from.n_terms; ++t) change[t] = weight[t] * s.tables->shift[atom[t]];
    add_rows(
        gram, c.stride / 4, change, from.n_terms, [&](std::int32_t t) { return parent[t] - c.first_term; },
        product);
}

// Computes the product G W of a component in the subset, if it is stale.
PREDGAP_INLINE void renew_product(TermState& s, std::int32_t component) {
    auto& state = s.component[component];
    if (!state.is_stale) return;
    count_form(s, component);
    if (is_closed(s.terms->component[component]))
        closed_product(s, component);
    else if (keeps_gram(s, component))
        begin_gram(s, component, kInside);
    else
        form_inside<true>(Form(s, component));
    state.is_stale = false;
    state.product_at = s.step;
}

// Renews what is kept of the component without the feature, whose weights have changed by a push.
PREDGAP_INLINE void renew_parent(TermState& s, Use use) {
    const auto to = parent_of(s, use);
    if (!keeps_gram(s, to) || s.component[to].is_stale) return mark_parent(s, use);
    add_to_product(s, use, to);
    s.component[to].product_at = s.step;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
