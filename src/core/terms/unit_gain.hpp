// The gain of a unit of several features: what it would add to the gap.
//
// Only components with features of the unit matter whose other features are all in the subset. In a copy of
// their weights, `trial`, the unit is pushed: if it were taken, they would be complete, with these weights,
// and the components without the unit would get some weight D more. The gain is the sum of the forms of the
// former, and of D'G D + 2 D'G W of the latter. Nothing is subtracted.
#pragma once

#include "terms/products.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool is_first_of_unit(const TermState& s, Use use) {
    const auto* feature = s.terms->feature.data() + s.terms->component[use.component].features;
    const auto unit = s.units->of(feature[use.slot]);
    if (s.units->is_alone(unit)) return true;
    for (std::int32_t slot = 0; slot < use.slot; ++slot)
        if (s.units->of(feature[slot]) == unit) return false;
    return true;
}

PREDGAP_INLINE std::int32_t n_units(const TermState& s, const Component& c) {
    if (s.units->are_alone()) return c.size;
    const auto number = static_cast<std::int32_t>(&c - s.terms->component.data());
    std::int32_t n = 0;
    for (std::int32_t slot = 0; slot < c.size; ++slot) n += is_first_of_unit(s, {number, slot});
    return n;
}

// visit(use) of all components that have a feature of the unit and no other feature outside the subset.
template <class Visit>
PREDGAP_INLINE void each_use(const TermState& s, std::int32_t unit, Visit visit) {
    for (const auto q : s.units->members(unit))
        for (auto i = s.terms->use_begin[q]; i < s.terms->use_begin[q + 1]; ++i)
            if (s.component[s.terms->use[i].component].n_outside == 1) visit(s.terms->use[i]);
}

// Writes the weights of a component to the trial, or 0; with its room.
template <bool kWeights>
PREDGAP_INLINE void write_trial(TermState& s, std::int32_t component) {
    const auto& c = s.terms->component[component];
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const auto at = k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.stride; ++t) s.trial[at + t] = kWeights ? s.weight[at + t] : 0.0;
    }
}

// Notes that a component in the subset gets weight from another one.
PREDGAP_INLINE void receive(TermState& s, std::int32_t component, std::int32_t from) {
    auto& at = s.receiver[component];
    if (at >= s.n_received || s.received[at].component != component) {
        at = s.n_received++;
        s.received[at] = {component, from, false};
        write_trial<false>(s, component);
    }
    s.received[at].is_stale |= s.component[from].is_stale;
}

// Pushes the unit in the trial weights. Forms are kept as long as the weights that come in are the same.
PREDGAP_INLINE void push_trial(TermState& s, std::int32_t unit) {
    s.n_received = 0;
    each_use(s, unit, [&](Use use) {
        if (is_first_of_unit(s, use)) write_trial<true>(s, use.component);
    });
    each_use(s, unit, [&](Use use) {
        const auto& state = s.component[use.component];
        if (!state.has_weight) return;
        const auto parent = parent_of(s, use);
        if (auto& to = s.component[parent]; to.n_outside == 0) {
            receive(s, parent, use.component);
        } else {
            to.has_weight = true;
            to.is_stale |= state.is_stale;
        }
        push(s, use, s.trial);
    });
}

// The gain from a component that receives weight: D'G D + 2 D'G W; from the empty component, D^2 + 2 D W.
PREDGAP_INLINE double received_gain(TermState& s, const TermState::Received& r) {
    const auto& c = s.terms->component[r.component];
    auto& state = s.component[r.component];
    double square = 0.0, twice = 0.0;
    if (r.component == 0) {
        for (std::int64_t k = 0; k < s.terms->width; ++k) {
            const double more = s.trial[k * s.terms->n_weights];
            square += more * more;
            twice += more * s.weight[k * s.terms->n_weights];
        }
        return square + 2.0 * twice;
    }
    auto& from = s.component[r.from];
    if (r.is_stale || from.cross_at < 0) {  // it was not always the first one that has weight
        count_form(s, r.component);
        from.cross = form_inside<false>(Form(s, r.component, s.trial));
        from.cross_at = s.step;
    }
    if (!state.has_weight) return from.cross;
    renew_product(s, r.component);
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const auto at = k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) twice += s.trial[at + t] * s.product[at + t];
    }
    return from.cross + 2.0 * twice;
}

double unit_gain(TermState& s, std::int32_t unit) {
    push_trial(s, unit);
    double sum = 0.0;
    each_use(s, unit, [&](Use use) {
        auto& state = s.component[use.component];
        if (!state.has_weight || !is_first_of_unit(s, use) || stopped(s)) return;
        if (state.is_stale) {
            count_form(s, use.component);
            s.form[use.component] = form_inside<false>(Form(s, use.component, s.trial));
        }
        state.is_stale = false;
        sum += s.form[use.component];
    });
    for (std::int32_t i = 0; i < s.n_received && !stopped(s); ++i) sum += received_gain(s, s.received[i]);
    return sum;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
