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
    const Tiles<kSlots> t(f, outside, false);
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

PREDGAP_INLINE void product_of_gram(const Form& f, const double* gram) {
    const std::int64_t n = f.c.stride / 4;
    for (std::int64_t v = 0; v < n; ++v) {
        Four sum = four(0.0);
        for (std::int64_t s = 0; s < f.c.n_terms; ++s) sum += four(f.weight[s]) * fours(gram)[s * n + v];
        store(sum, f.product + 4 * v);
    }
}

// The Gram matrix and the product of a component whose features outside have changed.
void begin_gram(TermState& s, std::int32_t component, std::int32_t outside) {
    const Form f(s, component);
    double* gram = s.gram.data() + s.terms->gram_at[component];
    switch (f.c.size) {
        case 2: write_gram<2>(f, outside, gram); break;
        case 3: write_gram<3>(f, outside, gram); break;
        default: write_gram<4>(f, outside, gram);
    }
    product_of_gram(f, gram);
}

// The terms of a component have given weight to those without a feature: so changes their product.
PREDGAP_INLINE void add_to_product(TermState& s, Use use, std::int32_t to) {
    const auto &from = s.terms->component[use.component], &c = s.terms->component[to];
    const auto at = from.slots + std::int64_t{use.slot} * from.stride;
    const auto *atom = s.terms->atom.data() + at, *parent = s.terms->parent.data() + at;
    const double *weight = s.weight.data() + from.first_term, *gram = s.gram.data() + s.terms->gram_at[to];
    double *product = s.product.data() + c.first_term, *change = s.shifted.data() + from.first_term;
    for (std::int32_t t = 0; t < from.n_terms; ++t) change[t] = weight[t] * s.tables->shift[atom[t]];
    const std::int64_t n = c.stride / 4;
    for (std::int64_t v = 0; v < n; ++v) {
        Four sum = load<4>(product + 4 * v);
        for (std::int32_t t = 0; t < from.n_terms; ++t)
            sum += four(change[t]) * fours(gram)[(parent[t] - c.first_term) * n + v];
        store(sum, product + 4 * v);
    }
}

// G W of a component in the subset.
PREDGAP_INLINE void renew_product(TermState& s, std::int32_t component) {
    auto& state = s.component[component];
    if (!state.is_stale) return;
    if (is_closed(s.terms->component[component]))
        closed_product(s, component);
    else if (keeps_gram(s, component))
        begin_gram(s, component, kInside);
    else
        form_inside<true>(Form(s, component));
    state.is_stale = false;
    state.product_at = s.step;
}

// After a push: the weights of the component without the feature have changed.
PREDGAP_INLINE void renew_parent(TermState& s, Use use) {
    const auto to = parent_of(s, use);
    if (!keeps_gram(s, to) || s.component[to].is_stale) return mark_parent(s, use);
    add_to_product(s, use, to);
    s.component[to].product_at = s.step;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
