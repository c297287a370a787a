// The gaps of growing subsets, one after the other.
//
// The factors of a component's pairs of terms do not depend on the subset. So the weights that it has after
// each step that changes them, its versions, are kept for a while, and the forms of several are computed at
// once.
#pragma once

#include "terms/nested.hpp"
#include "terms/subset_forms.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// True if the versions of a component are kept until the forms of several are computed at once. Large
// components and those over cells have other ways; of one or two terms there is nothing to share.
PREDGAP_INLINE bool keeps_versions(TermState& s, std::int32_t component) {
    const auto& c = s.terms->component[component];
    if (s.terms->width > 1) return false;
    if (c.has_sets) {
        const Form f(s, component);
        return !f.grid && has_set_rows(f);
    }
    return c.size == 1 ||
           (c.size <= Versions::kMostSlots && c.n_terms > 2 && c.n_terms <= Versions::kMostTerms);
}

// The versions of a feature's main effect lie side by side, the others one after the other.
PREDGAP_INLINE void keep_weights(const double* weight, const Component& c, std::int32_t version, double* to) {
    if (c.size > 1) {
        to += std::int64_t{version} * c.stride;
        for (std::int32_t i = 0; i < c.stride; i += 4)
            for (std::int32_t t = i; t < i + 4; ++t) to[t] = weight[t];
    } else if (version == 0) {
        for (std::int32_t t = 0; t < c.n_terms; ++t) lanes(to)[t] = splat(weight[t]);
    } else {
        for (std::int32_t t = 0; t < c.n_terms; ++t) to[Versions::kMost * t + version] = weight[t];
    }
}

// Computes the forms row by row of the Gram matrix: a factor is computed once for all versions, and used from
// a register.
template <int kSlots, int kVersions>
void forms_of_versions(const Form& f, const double* weight, double* found) {
    const GatheredTables<kSlots> t(f, kInside);
    Four total[kVersions];
    for (auto& of_version : total) of_version = four(0.0);
    for (std::int64_t s = 0; s < f.c.n_terms; ++s) {
        Four own[kVersions];
        for (auto& of_version : own) of_version = four(0.0);
        for (auto v = s / 4; v < t.n; ++v) {
            Four z = four(t.low[s]) * fours(t.high)[v];  // terms are sorted by their first atom
            for (int j = 1; j < kSlots; ++j)
                z *= min(four(t.low[j * t.stride + s]), fours(t.low)[j * t.n + v]) *
                     min(four(t.high[j * t.stride + s]), fours(t.high)[j * t.n + v]);
            if (v == s / 4) z *= *fours(kDiagonal[s % 4]);
            for (int k = 0; k < kVersions; ++k) own[k] += z * load<4>(weight + k * t.stride + 4 * v);
        }
        for (int k = 0; k < kVersions; ++k) total[k] += own[k] * four(weight[k * t.stride + s]);
    }
    for (int k = 0; k < kVersions; ++k) found[k] = 2.0 * sum(total[k]);
}

template <int kSlots>
void forms_of_versions(const Form& f, const VersionWeights& versions, double* found) {
    const double* weight = versions.weight;
    switch (versions.n) {
        case 1: return forms_of_versions<kSlots, 1>(f, weight, found);
        case 2: return forms_of_versions<kSlots, 2>(f, weight, found);
        case 3: return forms_of_versions<kSlots, 3>(f, weight, found);
        case 4: return forms_of_versions<kSlots, 4>(f, weight, found);
        case 5: return forms_of_versions<kSlots, 5>(f, weight, found);
        case 6: return forms_of_versions<kSlots, 6>(f, weight, found);
        case 7: return forms_of_versions<kSlots, 7>(f, weight, found);
        case 8: return forms_of_versions<kSlots, 8>(f, weight, found);
        default: unreachable_size("forms_of_versions, by versions", versions.n);
    }
}

PREDGAP_INLINE void versions_forms(TermState& s, std::int32_t component, const VersionWeights& versions,
                                   double* found) {
    const Form f(s, component);
    if (f.c.has_sets) return set_forms_of_versions(f, versions, found);
    switch (f.c.size) {
        case 1: *lanes(found) = sweep_lanes(f, lanes(versions.weight), 1); return;
        case 2: return forms_of_versions<2>(f, versions, found);
        case 3: return forms_of_versions<3>(f, versions, found);
        case 4: return forms_of_versions<4>(f, versions, found);
        case 5: return forms_of_versions<5>(f, versions, found);
        case 6: return forms_of_versions<6>(f, versions, found);
        case 7: return forms_of_versions<7>(f, versions, found);
        case 8: return forms_of_versions<8>(f, versions, found);
        default: unreachable_size("forms_of_versions, by features", f.c.size);
    }
}

// Gives a component another form, from the present step on.
PREDGAP_INLINE void show(TermState& s, Versions& v, double form, std::int32_t step) {
    s.ended[v.since] += v.form;
    v.form = form;
    v.since = step;
}

// Adds forms that ended with the last step to the gaps of all steps since they began.
PREDGAP_INLINE void count_ended(TermState& s, std::int32_t step, double* gaps) {
    double sum = 0.0;
    for (std::int32_t i = 0; i < step; ++i) {
        gaps[i] += sum += s.ended[i];
        s.ended[i] = 0.0;
    }
}

// Counts the work of n versions. Factors are computed once, and each version has its sums.
PREDGAP_INLINE void count_versions(const TermState& s, std::int32_t component, std::int32_t n) {
    constexpr double kOfVersion = 0.4;
    s.work->add(form_nanoseconds(s, component) * (1.0 - kOfVersion + kOfVersion * n));
}

PREDGAP_INLINE void show_versions(TermState& s, std::int32_t component, double* gaps) {
    auto& v = s.versions[component];
    alignas(64) double found[Versions::kMost];
    if (v.n == 0) return;
    count_versions(s, component, v.n);
    versions_forms(s, component, {s.kept.data() + v.kept, v.n}, found);
    for (std::int32_t k = 0; k < v.n; ++k) {
        for (auto i = v.since; i < v.step[k]; ++i) gaps[i] += v.form;
        v.form = found[k];
        v.since = v.step[k];
    }
    v.n = 0;
}

// Makes room for the weights of the versions to come, as long as there is any.
PREDGAP_INLINE void make_room(TermState& s, const Component& c, Versions& v) {
    const auto most = std::min(v.n_coming, Versions::kMost);
    const auto size =
        c.size == 1 ? std::int64_t{c.n_terms} * Versions::kMost : (std::int64_t{c.stride} * most + 7) / 8 * 8;
    if (s.n_kept + size > s.kept.size()) return;
    v.room = most;
    v.kept = s.n_kept;
    s.n_kept += size;
}

// Computes a form at once instead of batching it. Over cells, the sums to which terms were added are kept as
// long as there is room and the weights change again.
PREDGAP_INLINE double form_at_once(TermState& s, std::int32_t component, Versions& v) {
    count_form(s, component);
    const Form f(s, component);
    const auto size = f.grid ? f.grid->kept(f.c.n_terms) : 0;
    if (size == 0 || f.width > 1) return form_inside<false>(f);
    if (v.room == 0 && v.n_coming > 1 && s.n_kept + size <= s.kept.size()) {
        v.room = 1;
        v.kept = s.n_kept;
        s.n_kept += size;
        std::fill_n(s.kept.data() + v.kept, size, 0.0);
    }
    return v.room ? form_of_changes(f, *f.grid, s.kept.data() + v.kept) : form_inside<false>(f);
}

// Renews the form of a complete component whose weights have changed in this step.
PREDGAP_INLINE void renew(TermState& s, std::int32_t component, std::int32_t step, double* gaps) {
    auto& v = s.versions[component];
    if (v.last == step) return;
    v.last = step;
    const auto& c = s.terms->component[component];
    if (is_closed(c)) return show(s, v, closed_form(s, component), step);
    const double* weight = s.weight.data() + c.first_term;
    if (!keeps_versions(s, component)) return show(s, v, form_at_once(s, component, v), step);
    if (v.room == 0 && (v.n_coming > 1 || c.size == 1)) make_room(s, c, v);
    if (v.room == 0) {
        count_form(s, component);
        if (c.size == 1 || c.has_sets) return show(s, v, form_inside<false>(Form(s, component)), step);
        alignas(64) double found[Versions::kMost];
        versions_forms(s, component, {weight, 1}, found);
        return show(s, v, found[0], step);
    }
    if (v.n == v.room) show_versions(s, component, gaps);
    keep_weights(weight, c, v.n, s.kept.data() + v.kept);
    v.step[v.n++] = step;
}

// Finds in which step each component is complete, and how often its weights will change from then on: then,
// and with each larger one that becomes complete.
PREDGAP_INLINE void schedule(TermState& s, const Units& units, const std::int32_t* order,
                             std::int32_t n_steps) {
    const auto n = s.terms->n_components();
    find_weights(s);
    for (auto& step : s.step_of) step = n_steps;
    for (std::int32_t step = 0; step < n_steps; ++step)
        for (const auto q : units.members(order[step])) s.step_of[q] = step;
    for (std::int32_t step = 0; step <= n_steps + 1; ++step) s.due_begin[step] = 0;
    for (std::int32_t c = 0; c < n; ++c) {
        const auto& own = s.terms->component[c];
        const auto* feature = s.terms->feature.data() + own.features;
        std::int32_t last = -1, slot = 0;
        for (std::int32_t j = 0; j < own.size; ++j) {
            const auto step = s.step_of[feature[j]];
            slot = step > last ? j : slot;
            last = step > last ? step : last;
        }
        const auto parent = c > 0 ? parent_of(s, {c, slot}) : 0;
        s.versions[c].begin(last, parent);
        if (c == 0) continue;
        ++s.due_begin[last + 1];
        if (parent > 0) s.versions[parent].n_coming += last < n_steps;
    }
    for (std::int32_t step = 0; step <= n_steps; ++step) s.due_begin[step + 1] += s.due_begin[step];
    for (std::int32_t c = 1; c < n; ++c) s.due[s.due_begin[s.versions[c].complete]++] = c;
    for (auto step = n_steps; step > 0; --step) s.due_begin[step] = s.due_begin[step - 1];
    s.due_begin[0] = 0;
    s.n_kept = 0;
}

// Adds the gaps of all prefixes. A component is complete when its last feature comes; its weights change
// then, and so do those of the one without that feature.
void curve(TermState& s, const Units& units, const std::int32_t* order, std::int32_t n_steps, double* gaps) {
    const bool on_plan = is_on_plan(s);
    s.work->add(nominal::kComponent * s.terms->n_components());
    schedule(s, units, order, n_steps);
    find_closed_factors(s);
    for (std::int32_t step = 0; step < n_steps; ++step) {
        for (const auto q : units.members(order[step])) on_plan ? push_edges(s, q) : push_feature(s, q);
        for (auto i = s.due_begin[step]; i < s.due_begin[step + 1] && !stopped(s); ++i) {
            const auto c = s.due[i], parent = s.versions[c].parent;
            if (!s.component[c].has_weight) continue;
            renew(s, c, step, gaps);
            if (parent > 0) renew(s, parent, step, gaps);
        }
        gaps[step] += squared_mean(s);
        count_ended(s, step, gaps);
    }
    for (std::int32_t c = 1; c < s.terms->n_components() && !stopped(s); ++c) {
        show_versions(s, c, gaps);
        show(s, s.versions[c], 0.0, n_steps);
    }
    count_ended(s, n_steps, gaps);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
