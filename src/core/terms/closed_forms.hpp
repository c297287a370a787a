// Components of one or two terms on numeric features: closed forms, of four components side by side.
//
// What a form needs beside the weights are three factors, which do not depend on the subset.
#pragma once

#include "terms/form.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Q = first w^2 + second v^2 + both w v, of the weights w and v; of one term, v may be any number.
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

// The factors of four components, whose atoms lie this far from each other.
template <int kTerms>
PREDGAP_INLINE void factors_of_four(const RowTables& tables, const std::int32_t* atom,
                                    const std::int64_t* apart, std::int32_t size, Four* found) {
    const double* tail = tables.tail.data();
    Four first = four(1.0), second = four(kTerms - 1.0), both = four(2.0 * (kTerms - 1));
    for (std::int32_t j = 0; j < size; ++j, atom += kTerms) {
        Four low[2], high[2];
        for (int t = 0; t < kTerms; ++t) {
            const std::int32_t place[4] = {atom[t], atom[apart[1] + t], atom[apart[2] + t],
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

template <int kTerms>
PREDGAP_INLINE void find_factors(TermState& s, const Alike& run) {
    const auto apart = std::int64_t{run.size} * kTerms;
    const auto* atom = s.terms->atom.data() + s.terms->component[run.first].slots;
    Closed* to = s.closed.data() + run.first;
    for (std::int32_t i = 0; i < run.n; i += 4, atom += 4 * apart, to += 4) {
        const auto n = std::min(run.n - i, 4);  // past the last one, the last one again
        const std::int64_t offset[4] = {0, std::min(1, n - 1) * apart, std::min(2, n - 1) * apart,
                                        std::min(3, n - 1) * apart};
        Four found[3];
        factors_of_four<kTerms>(*s.tables, atom, offset, run.size, found);
        for (int k = 0; k < n; ++k) to[k] = {found[0][k], found[1][k], found[2][k]};
    }
}

// Of all components that have closed forms. Where features do not move the factors mean nothing; weights
// are 0 there.
void find_closed_factors(TermState& s) {
    for (const auto& run : s.terms->alike)
        run.n_terms == 1 ? find_factors<1>(s, run) : find_factors<2>(s, run);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
