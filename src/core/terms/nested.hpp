// Subsets that grow: gaps of all features, of the features added so far, and what each other one would add.
#pragma once

#include "terms/forms.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool stopped(const TermState& s) { return s.stop->load(std::memory_order_relaxed); }

PREDGAP_INLINE bool has_weight(const TermState& s, const Component& c) {
    bool any = false;  // without a jump for each: these could not be foreseen
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double* w = s.weight.data() + k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) any |= w[t] != 0.0;
    }
    return any;
}

// W[t without its atom in the slot] += W[t] E tau, for all terms of a component.
PREDGAP_INLINE void push(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto at = c.slots + std::int64_t{use.slot} * c.stride;
    const auto *atom = s.terms->atom.data() + at, *parent = s.terms->parent.data() + at;
    const double* shift = s.tables->shift.data();
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        double* weight = s.weight.data() + k * s.terms->n_weights;
        const double* own = weight + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) weight[parent[t]] += own[t] * shift[atom[t]];
    }
}

PREDGAP_INLINE std::int32_t parent_of(const TermState& s, Use use) {
    return s.terms->parent_component[s.terms->component[use.component].features + use.slot];
}

// Centres a feature in all terms; their parents then have weights, too.
PREDGAP_INLINE void push_feature(TermState& s, std::int32_t q) {
    const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
    for (auto i = begin; i < end; ++i) {
        const auto use = s.terms->use[i];
        if (!s.component[use.component].has_weight) continue;
        push(s, use);
        auto& parent = s.component[parent_of(s, use)];
        parent.has_weight = parent.is_stale = true;
    }
}

PREDGAP_INLINE double squared_mean(const TermState& s) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double mean = s.weight[k * s.terms->n_weights];
        sum += mean * mean;
    }
    return sum;
}

// push_feature on a plan, where terms that do not matter have weight 0.
PREDGAP_INLINE void push_edges(TermState& s, std::int32_t q) {
    const double* shift = s.tables->shift.data();
    const Edge *first = s.terms->edge.data() + s.terms->edge_begin[q],
               *last = s.terms->edge.data() + s.terms->edge_begin[q + 1];
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        double* weight = s.weight.data() + k * s.terms->n_weights;
        for (const auto* e = first; e != last; ++e) weight[e->parent] += weight[e->term] * shift[e->atom];
    }
}

PREDGAP_INLINE bool is_open(const TermState& s, const Component& c) {
    std::uint8_t all = 1;
    for (std::int32_t j = 0; j < c.size; ++j) all &= s.tables->is_open[s.terms->feature[c.features + j]];
    return all;
}

double gap(TermState& s) {
    const auto n = s.terms->n_components();
    const bool on_plan = s.terms->edge.size() > 0;
    for (std::int32_t c = 0; c < n; ++c) {  // on a plan, terms of features that stay have no weight
        const auto& own = s.terms->component[c];
        s.component[c].has_weight = on_plan ? is_open(s, own) : has_weight(s, own);
    }
    for (const auto q : s.tables->model().features) {
        if (!s.tables->is_open[q]) continue;
        on_plan ? push_edges(s, q) : push_feature(s, q);
        if (stopped(s)) return 0.0;
    }
    double sum = squared_mean(s);
    for (std::int32_t c = 1; c < n && !stopped(s); ++c)
        if (s.component[c].has_weight) sum += form_inside<false>(Form(s, c));
    return sum;
}

void begin(TermState& s) {
    const auto n = s.terms->n_components();
    s.step = 0;
    s.n_frontier = 0;
    for (std::int32_t c = 0; c < n; ++c) {
        const auto& own = s.terms->component[c];
        s.component[c] = {0.0, own.size, -1, -1, true, has_weight(s, own)};
        s.form[c] = 0.0;
        if (own.size == 1 && s.frontier.size() > 0) s.frontier[s.n_frontier++] = {c, 0};
    }
}

double add_feature_and_gap(TermState& s, std::int32_t q) {
    push_feature(s, q);
    const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
    for (auto i = begin; i < end && !stopped(s); ++i) {
        const auto use = s.terms->use[i];
        auto& state = s.component[use.component];
        if (--state.n_outside > 0 || !state.has_weight) continue;
        s.form[use.component] = form_inside<false>(Form(s, use.component));
        if (const auto parent = parent_of(s, use); parent > 0)  // its weights have changed
            s.form[parent] = form_inside<false>(Form(s, parent));
    }
    Four total = four(0.0);
    for (std::int64_t c = 0; c < s.form.size(); c += 4) total += *fours(s.form.data() + c);
    return squared_mean(s) + sum(total);
}

// The place of the only feature of a component that is not in the subset.
PREDGAP_INLINE std::int32_t slot_outside(const TermState& s, const Component& c) {
    std::int32_t slot = 0;
    while (s.in_subset[s.terms->feature[c.features + slot]]) ++slot;
    return slot;
}

void add_feature(TermState& s, std::int32_t q) {
    ++s.step;
    s.in_subset[q] = 1;
    push_feature(s, q);
    const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
    for (auto i = begin; i < end; ++i) {
        const auto c = s.terms->use[i].component;
        auto& state = s.component[c];
        if (--state.n_outside > 1) continue;
        state.is_stale = true;
        if (state.n_outside == 1) s.frontier[s.n_frontier++] = {c, slot_outside(s, s.terms->component[c])};
    }
}

// W E tau of the slot outside, for `cross`.
PREDGAP_INLINE void shift_weights(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto* atom = s.terms->atom.data() + c.slots + std::int64_t{use.slot} * c.stride;
    const double* shift = s.tables->shift.data();
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const auto at = k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) s.shifted[at + t] = s.weight[at + t] * shift[atom[t]];
    }
}

// The sum over terms of W E tau times the product G W of the term without that atom.
PREDGAP_INLINE double cross(const TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto* parent = s.terms->parent.data() + c.slots + std::int64_t{use.slot} * c.stride;
    double sum = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double *own = s.shifted.data() + k * s.terms->n_weights + c.first_term,
                     *product = s.product.data() + k * s.terms->n_weights;
        for (std::int32_t t = 0; t < c.n_terms; ++t) sum += own[t] * product[parent[t]];
    }
    return sum;
}

PREDGAP_INLINE double main_gain(TermState& s, std::int32_t c, std::int32_t q) {
    double* mean = s.main_mean.data() + std::int64_t{q} * s.terms->width;
    auto& state = s.component[c];
    if (state.is_stale) {
        s.form[c] = main_form_outside(Form(s, c), mean);
        state.is_stale = false;
    }
    double twice = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) twice += mean[k] * s.weight[k * s.terms->n_weights];
    return s.form[c] + 2.0 * twice;
}

// What a component adds to the gain of its feature outside: W'HW' + 2 cross.
PREDGAP_INLINE double component_gain(TermState& s, Use use) {
    auto& state = s.component[use.component];
    if (state.is_stale) {
        s.form[use.component] = form_of_several<false>(Form(s, use.component), use.slot);
        shift_weights(s, use);
        state.is_stale = false;
        state.cross_at = -1;
    }
    const auto parent = parent_of(s, use);
    auto& before = s.component[parent];
    if (!before.has_weight) return s.form[use.component];
    if (before.is_stale) {
        form_inside<true>(Form(s, parent));
        before.is_stale = false;
        before.product_at = s.step;
    }
    if (state.cross_at != before.product_at) {
        state.cross = cross(s, use);
        state.cross_at = before.product_at;
    }
    return s.form[use.component] + 2.0 * state.cross;
}

void gains(TermState& s) {
    for (const auto q : s.tables->model().features) s.gain[q] = 0.0;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < s.n_frontier && !stopped(s); ++i) {
        const auto use = s.frontier[i];
        const auto& state = s.component[use.component];
        if (state.n_outside != 1) continue;
        s.frontier[kept++] = use;
        if (!state.has_weight) continue;
        const auto& c = s.terms->component[use.component];
        const auto q = s.terms->feature[c.features + use.slot];
        s.gain[q] += c.size == 1 ? main_gain(s, use.component, q) : component_gain(s, use);
    }
    s.n_frontier = kept;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
