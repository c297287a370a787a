// Subsets that grow: gaps of all features, of the units added so far, and what each other unit would add.
#pragma once

#include "terms/unit_gain.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool is_open(const TermState& s, const Component& c) {
    std::uint8_t all = 1;
    for (std::int32_t j = 0; j < c.size; ++j) all &= s.tables->is_open[s.terms->feature[c.features + j]];
    return all;
}

// May a component have weight? On a plan, terms of features that stay have none.
PREDGAP_INLINE bool may_matter(const TermState& s, std::int32_t c) {
    return s.terms->edge.size() > 0 ? is_open(s, s.terms->component[c]) : s.component[c].has_weight;
}

// All features that are open move. False if stopped.
PREDGAP_INLINE bool push_open(TermState& s) {
    const auto n = s.terms->n_components();
    const bool on_plan = s.terms->edge.size() > 0;
    for (std::int32_t c = 0; c < n && !on_plan; ++c)
        s.component[c].has_weight = has_weight(s, s.terms->component[c]);
    for (const auto q : s.tables->model().features) {
        if (!s.tables->is_open[q]) continue;
        on_plan ? push_edges(s, q) : push_feature(s, q);
        if (stopped(s)) return false;
    }
    return true;
}

double gap(TermState& s) {
    if (!push_open(s)) return 0.0;
    const auto n = s.terms->n_components();
    for (std::int32_t c = 1; c < n && !stopped(s); ++c)
        if (!is_closed(s.terms->component[c]) && may_matter(s, c)) s.form[c] = form_inside<false>(Form(s, c));
    find_closed_factors(s);
    for (const auto& run : s.terms->alike)
        for (auto c = run.first; c < run.first + run.n; ++c) s.form[c] = closed_form(s, c);
    Four sums = four(0.0);
    for (std::int64_t i = 0; i < s.form.size() / 4; ++i) sums += fours(s.form.data())[i];
    return squared_mean(s) + sum(sums);
}

void covariances(TermState& s, double* found) {
    const std::int64_t width = s.terms->width, n_components = s.terms->n_components();
    std::fill_n(found, width * width, 0.0);
    if (!push_open(s)) return;
    for (std::int32_t c = 1; c < n_components && !stopped(s); ++c) {
        if (!may_matter(s, c)) continue;
        const Form f(s, c);
        form_inside<true>(f);
        for (std::int64_t k = 0; k < width; ++k)
            for (auto l = k; l < width; ++l) {
                const double *product = f.product + k * f.n_weights, *weight = f.weight + l * f.n_weights;
                double sum = 0.0;
                for (std::int32_t t = 0; t < f.c.n_terms; ++t) sum += product[t] * weight[t];
                found[k * width + l] += sum;
            }
    }
    for (std::int64_t k = 0; k < width; ++k)
        for (std::int64_t l = 0; l < k; ++l) found[k * width + l] = found[l * width + k];
}

// Components of units of several features are found by their uses; see unit_gain.
PREDGAP_INLINE void add_to_frontier(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto unit = s.units->of(s.terms->feature[c.features + use.slot]);
    if (!s.units->is_alone(unit)) return;
    if (is_closed(c))
        s.closed_frontier[s.n_closed_frontier++] = closed_gain(s, use, unit);
    else
        s.frontier[s.n_frontier++] = use;
}

void begin(TermState& s) {
    const auto n = s.terms->n_components();
    const bool on_plan = s.terms->edge.size() > 0;
    s.step = 0;
    s.n_frontier = s.n_closed_frontier = 0;
    find_closed_factors(s);
    for (std::int32_t c = 0; c < n; ++c) {
        const auto& own = s.terms->component[c];
        const bool has_any = on_plan ? is_open(s, own) : has_weight(s, own);
        s.component[c] = {0.0, s.units ? n_units(s, own) : own.size, -1, -1, true, has_any};
        s.form[c] = 0.0;
        if (own.size == 1 && s.units) add_to_frontier(s, {c, 0});
    }
}

// The first place of a component whose feature is not in the subset.
PREDGAP_INLINE std::int32_t slot_outside(const TermState& s, const Component& c) {
    std::int32_t slot = 0;
    while (s.in_subset[s.terms->feature[c.features + slot]]) ++slot;
    return slot;
}

void add_unit(TermState& s, std::int32_t unit) {
    ++s.step;
    const bool on_plan = s.terms->edge.size() > 0, are_alone = s.units->are_alone();
    for (const auto q : s.units->members(unit)) s.in_subset[q] = 1;
    for (const auto q : s.units->members(unit)) {
        const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
        if (on_plan) push_edges(s, q);
        for (auto i = begin; i < end; ++i) {
            const auto use = s.terms->use[i];
            auto& state = s.component[use.component];
            if (state.has_weight) {
                if (!on_plan) push(s, use, s.weight);
                renew_parent(s, use);
            }
            if ((!are_alone && !is_first_of_unit(s, use)) || --state.n_outside > 1) continue;
            state.is_stale = true;
            if (state.n_outside == 1)
                add_to_frontier(s, {use.component, slot_outside(s, s.terms->component[use.component])});
        }
    }
}

// W E tau of the slot outside, for `cross`.
PREDGAP_INLINE void shift_weights(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto* atom = s.terms->atom.data() + c.slots + std::int64_t{use.slot} * c.stride;
    const double* shift = s.tables->shift.data();
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const auto at = k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.stride; ++t) s.shifted[at + t] = s.weight[at + t] * shift[atom[t]];
    }
}

// The sum over terms of W E tau times the product G W of the term without that atom.
PREDGAP_INLINE double cross(const TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto* parent = s.terms->parent.data() + c.slots + std::int64_t{use.slot} * c.stride;
    const auto n_fours = c.stride / 4;  // one or two terms have none
    Four sums = four(0.0);
    double rest = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double *own = s.shifted.data() + k * s.terms->n_weights + c.first_term,
                     *product = s.product.data() + k * s.terms->n_weights;
        for (std::int32_t i = 0; i < n_fours; ++i)
            sums += load<4>(own + 4 * i) * look_up(product, parent + 4 * i);
        for (auto t = 4 * n_fours; t < c.n_terms; ++t) rest += own[t] * product[parent[t]];
    }
    return sum(sums) + rest;
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

// component_gain where H W' is kept.
PREDGAP_INLINE double gain_of_gram(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    auto& state = s.component[use.component];
    if (state.is_stale) begin_gram(s, use.component, use.slot);
    state.is_stale = false;
    const auto before = parent_of(s, use);
    if (s.component[before].has_weight) renew_product(s, before);
    const auto at = c.slots + std::int64_t{use.slot} * c.stride;
    const auto *atom = s.terms->atom.data() + at, *parent = s.terms->parent.data() + at;
    const double *weight = s.weight.data() + c.first_term, *product = s.product.data() + c.first_term;
    Four square = four(0.0), cross = four(0.0);
    for (std::int32_t t = 0; t < c.stride; t += 4) {
        const Four w = load<4>(weight + t);
        square += w * load<4>(product + t);
        cross += w * look_up(s.tables->shift.data(), atom + t) * look_up(s.product.data(), parent + t);
    }
    return sum(square) + 2.0 * sum(cross);
}

// What a component adds to the gain of its feature outside: W'HW' + 2 cross.
PREDGAP_INLINE double component_gain(TermState& s, Use use) {
    if (keeps_gram(s, use.component)) return gain_of_gram(s, use);
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
    renew_product(s, parent);
    if (state.cross_at != before.product_at) {
        state.cross = cross(s, use);
        state.cross_at = before.product_at;
    }
    return s.form[use.component] + 2.0 * state.cross;
}

// The same of all components with closed forms.
PREDGAP_INLINE void add_closed_gains(TermState& s) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < s.n_closed_frontier && !stopped(s); ++i) {
        const auto& own = s.closed_frontier[i];
        if (s.component[own.component].n_outside != 1) continue;
        if (s.component[own.parent_component].has_weight) renew_product(s, own.parent_component);
        for (std::int64_t k = 0; k < s.terms->width; ++k)
            s.gain[own.unit] += closed_gain(own, s.weight.data() + k * s.terms->n_weights,
                                            s.product.data() + k * s.terms->n_weights);
        if (kept < i) s.closed_frontier[kept] = own;
        ++kept;
    }
    s.n_closed_frontier = kept;
}

void gains(TermState& s) {
    for (const auto q : s.tables->model().features) s.gain[s.units->of(q)] = 0.0;
    add_closed_gains(s);
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < s.n_frontier && !stopped(s); ++i) {
        const auto use = s.frontier[i];
        const auto& state = s.component[use.component];
        if (state.n_outside != 1) continue;
        s.frontier[kept++] = use;
        if (!state.has_weight) continue;
        const auto& c = s.terms->component[use.component];
        const auto q = s.terms->feature[c.features + use.slot];
        s.gain[s.units->of(q)] += c.size == 1 ? main_gain(s, use.component, q) : component_gain(s, use);
    }
    s.n_frontier = kept;
    if (s.units->are_alone()) return;
    for (std::int32_t u = 0; u < s.units->size() && !stopped(s); ++u)
        if (!s.units->is_alone(u) && !s.in_subset[*s.units->members(u).first]) s.gain[u] = unit_gain(s, u);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
