// Components of one or two terms on numeric features: closed forms, of four components side by side.
//
// Beside the weights a form needs three factors, which do not depend on the subset.
#pragma once

#include "terms/pair_forms.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The form Q = first w^2 + second v^2 + both w v, of the weights w and v; of one term, v may be any finite
// number.
PREDGAP_INLINE double closed_form(const Closed& k, const double* weight) {
    return weight[0] * (k.first * weight[0] + k.both * weight[1]) + k.second * weight[1] * weight[1];
}

PREDGAP_INLINE double closed_form(const TermState& s, std::int32_t component) {
    const double* weight = s.weight.data() + s.terms->component[component].first_term;
    double sum = closed_form(s.closed[component], weight);
    for (std::int64_t k = 1; k < s.terms->width; ++k)
        sum += closed_form(s.closed[component], weight + k * s.terms->n_weights);
    return sum;
}

// Writes the product G W of a component.
PREDGAP_INLINE void closed_product(TermState& s, std::int32_t component) {
    const auto& c = s.terms->component[component];
    const auto& k = s.closed[component];
    for (std::int64_t output = 0; output < s.terms->width; ++output) {
        const auto at = output * s.terms->n_weights + c.first_term;
        const double w = s.weight[at], v = s.weight[at + 1];
        s.product[at] = k.first * w + 0.5 * k.both * v;
        if (c.n_terms == 2) s.product[at + 1] = k.second * v + 0.5 * k.both * w;
    }
}

// All that the gain of a component needs, with the feature of this slot outside the subset.
PREDGAP_INLINE ClosedGain closed_gain(const TermState& s, Use use, std::int32_t unit) {
    const auto& c = s.terms->component[use.component];
    const auto* atom = s.terms->atom.data() + c.slots;
    const auto at = std::int64_t{use.slot} * c.stride;
    const auto* parent = s.terms->parent.data() + c.slots + at;
    const auto second = c.n_terms - 1;
    return {closed_factors(c, atom, *s.tables, use.slot),
            {s.tables->shift[atom[at]], second * s.tables->shift[atom[at + second]]},
            c.first_term,
            {parent[0], parent[second]},
            use.component,
            unit,
            s.terms->parent_component[c.features + use.slot]};
}

// The gain W'HW' + 2 cross of a component; see nested.hpp.
PREDGAP_INLINE double closed_gain(const ClosedGain& own, const double* weight, const double* product) {
    const double* w = weight + own.term;
    const double cross =
        w[0] * own.shift[0] * product[own.parent[0]] + w[1] * own.shift[1] * product[own.parent[1]];
    return closed_form(own.factors, w) + 2.0 * cross;
}

// Finds the factors of four components, whose atoms lie this far from each other.
template <int kTerms>
PREDGAP_INLINE void factors_of_four(const RowTables& tables, const std::int32_t* atom,
                                    const std::int64_t* apart, std::int32_t size, Four* found) {
    const double* tail = tables.tail.data();
    Four first = four(1.0), second = four(kTerms - 1.0), both = four(2.0 * (kTerms - 1));
    for (std::int32_t j = 0; j < size; ++j, atom += kTerms) {
        Four low[2], high[2];
        for (int t = 0; t < kTerms; ++t) {
            const std::int32_t place[4] = {atom[apart[0] + t], atom[apart[1] + t], atom[apart[2] + t],
                                           atom[apart[3] + t]};
            look_up_pairs(tail, place, low[t], high[t]);
        }
        first *= low[0] * high[0];
        if (kTerms == 1) continue;
        second *= low[1] * high[1];
        both *= min(low[0], low[1]) * min(high[0], high[1]);
    }
    found[0] = first;
    found[1] = second;
    found[2] = both;
}

// Finds the factors of n components of a run; nth gives their places in it.
template <int kTerms, class Nth>
PREDGAP_INLINE void find_factors(TermState& s, const RunOfEqualShapes& run, std::int64_t n, const Nth& nth) {
    const auto apart = std::int64_t{run.size} * kTerms;
    const auto* atom = s.terms->atom.data() + s.terms->component[run.first].slots;
    for (std::int64_t i = 0; i < n; i += 4) {
        std::int64_t place[4], offset[4];
        for (int k = 0; k < 4; ++k) {
            place[k] = nth(std::min(i + k, n - 1));  // past the last one, the last one again
            offset[k] = place[k] * apart;
        }
        Four found[3];
        factors_of_four<kTerms>(*s.tables, atom, offset, run.size, found);
        for (int k = 0; k < 4; ++k) s.closed[run.first + place[k]] = {found[0][k], found[1][k], found[2][k]};
    }
}

template <class Nth>
PREDGAP_INLINE void find_factors(TermState& s, const RunOfEqualShapes& run, std::int64_t n, const Nth& nth) {
    run.n_terms == 1 ? find_factors<1>(s, run, n, nth) : find_factors<2>(s, run, n, nth);
}

// Finds the factors of all components that have closed forms. Where features do not move the factors mean
// nothing; weights are 0 there.
void find_closed_factors(TermState& s) {
    for (const auto& run : s.terms->alike) find_factors(s, run, run.n, [](std::int64_t i) { return i; });
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
