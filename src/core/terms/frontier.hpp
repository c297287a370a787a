// The frontier: components with one unit outside the subset, where that is one feature. Each is a part of the
// gain of that unit.
//
// Of many units, the parts are kept. A part changes when the component's weights change, or those of the
// component without the feature: when a unit joins the subset, the components are listed whose parts change
// with it. The gain of a unit is the sum of its parts: those with closed forms, the main effect, and the
// others, each in the order in which they came. So the bits are those of all parts computed anew.
#pragma once

#include "terms/closed_forms.hpp"
#include "terms/pushing.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool keeps_parts(const TermState& s) { return s.link.size() > 0; }

PREDGAP_INLINE void begin_frontier(TermState& s) {
    s.n_frontier = s.n_closed_frontier = s.n_changed = s.n_left = 0;
    constexpr auto kNone = FrontierLink::kNone;
    for (auto& link : s.link) link = {kNone, 0, kNone, kNone};
}

// Lists a component whose part has changed.
PREDGAP_INLINE void note_part(TermState& s, std::int32_t component) {
    auto& state = s.component[component];
    if (!state.has_changed) s.changed[s.n_changed++] = component;
    state.has_changed = true;
}

// Lists the components of the frontier whose parts change with the weights of this one: itself, or if it is
// in the subset, those with one feature more. Main effects are looked at each time.
PREDGAP_INLINE void note_parts_with(TermState& s, std::int32_t component) {
    const auto n_outside = s.component[component].n_outside;
    auto& link = s.link[component];
    if (n_outside == 1 && link.place != FrontierLink::kNone) note_part(s, component);
    if (n_outside > 0) return;
    for (auto* next = &link.first_larger; *next != FrontierLink::kNone;) {
        const auto larger = *next;
        if (s.component[larger].n_outside == 0) {
            *next = s.link[larger].next_larger;  // it has left the frontier
        } else {
            note_part(s, larger);
            next = &s.link[larger].next_larger;
        }
    }
}

// Gives a main effect's unit its place among those that are left.
PREDGAP_INLINE void begin_unit(TermState& s, std::int32_t component, std::int32_t q, std::int32_t unit) {
    s.left[s.n_left++] = unit;
    s.gain_of_unit[unit] = {0.0, component, q, 0, 0, false};
}

// Gives a component that comes to the frontier a place for its part: those of a feature lie side by side,
// where its uses are, those of closed forms from the first one on, and the others from the last one back.
PREDGAP_INLINE void begin_part(TermState& s, Use use, std::int64_t place, std::int32_t q, std::int32_t unit) {
    auto &own = s.link[use.component], &parent = s.link[parent_of(s, use)];
    auto& gain = s.gain_of_unit[unit];
    own.place = static_cast<std::int32_t>(place);
    own.part = is_closed(s.terms->component[use.component]) ? s.terms->use_begin[q] + gain.n_closed++
                                                            : s.terms->use_begin[q + 1] - ++gain.n_others;
    s.part[std::int64_t{own.part} * s.terms->width] = 0.0;
    own.next_larger = parent.first_larger;
    parent.first_larger = use.component;
    note_part(s, use.component);
}

// Adds a component with one unit outside to the frontier. Components of units of several features are found
// by their uses; see unit_gain.
PREDGAP_INLINE void add_to_frontier(TermState& s, Use use) {
    const auto& c = s.terms->component[use.component];
    const auto q = s.terms->feature[c.features + use.slot], unit = s.units->of(q);
    if (!s.units->is_alone(unit)) return;
    if (keeps_parts(s)) {
        if (c.size == 1) return begin_unit(s, use.component, q, unit);
        begin_part(s, use, is_closed(c) ? s.n_closed_frontier : s.n_frontier, q, unit);
    }
    if (is_closed(c))
        s.closed_frontier[s.n_closed_frontier++] = closed_gain(s, use, unit);
    else
        s.frontier[s.n_frontier++] = use;
}

// Adds up the parts of a unit with closed forms.
PREDGAP_INLINE double closed_parts(const TermState& s, GainOfUnit& own) {
    if (!own.is_stale) return own.closed;
    const auto width = std::int64_t{s.terms->width};
    const double* part = s.part.data() + s.terms->use_begin[own.feature] * width;
    own.closed = 0.0;
    for (std::int64_t i = 0; i < own.n_closed * width; ++i) own.closed += part[i];
    own.is_stale = false;
    return own.closed;
}

// Adds the parts of a unit without closed forms, but for the main effect, to its gain.
PREDGAP_INLINE double with_other_parts(const TermState& s, const GainOfUnit& own, double gain) {
    const auto width = std::int64_t{s.terms->width};
    const double* end = s.part.data() + s.terms->use_begin[own.feature + 1] * width;
    for (std::int64_t i = 1; i <= own.n_others; ++i) gain += end[-i * width];
    return gain;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
