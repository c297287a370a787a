// Subsets that grow: gaps of all features, of the units added so far, and what each other unit would add.
#pragma once

#include "terms/frontier.hpp"
#include "terms/unit_gain.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Tells which components of a plan have open features only.
class OpenComponents {
public:
    explicit OpenComponents(const TermState& s)
        : terms_(*s.terms), is_open_(s.tables->is_open), is_sure_(s.tables->model().n_features() <= 64) {
        for (const auto q : s.tables->model().features)
            if (is_open_[q]) closed_ &= ~RowTerms::signature_of(q);
    }
    PREDGAP_INLINE bool has(std::int32_t c) const {
        return !(terms_.signature[c] & closed_) && (is_sure_ || has_open_features(terms_.component[c]));
    }

private:
    bool has_open_features(const Component& c) const {
        std::uint8_t all = 1;
        for (std::int32_t j = 0; j < c.size; ++j) all &= is_open_[terms_.feature[c.features + j]];
        return all;
    }

    const RowTerms& terms_;
    const Buffer<std::uint8_t>& is_open_;
    std::uint64_t closed_ = ~std::uint64_t{0};  // of a signature: all features with this bit stay
    bool is_sure_;                              // true if there is one feature for each bit
};

PREDGAP_INLINE bool is_on_plan(const TermState& s) { return s.terms->edge.size() > 0; }

// Sets for each component whether it may have weight. On a plan, terms of features that stay have none.
PREDGAP_INLINE void find_weights(TermState& s) {
    const auto n = s.terms->n_components();
    if (is_on_plan(s)) {
        const OpenComponents open(s);
        for (std::int32_t c = 0; c < n; ++c) s.component[c].has_weight = open.has(c);
    } else {
        for (std::int32_t c = 0; c < n; ++c) s.component[c].has_weight = has_weight(s, s.terms->component[c]);
    }
}

// Moves all features that are open. Lists the components that then may have weight, but for the empty one;
// returns how many there are.
PREDGAP_INLINE std::int64_t push_open(TermState& s) {
    find_weights(s);
    for (const auto q : s.tables->model().features)
        if (s.tables->is_open[q] && !stopped(s)) is_on_plan(s) ? push_edges(s, q) : push_feature(s, q);
    std::int64_t n = 0;
    for (std::int32_t c = 1; c < s.terms->n_components(); ++c) {
        s.active_components[n] = c;
        n += s.component[c].has_weight;
    }
    return n;
}

double gap(TermState& s) {
    const auto n = push_open(s);
    const std::int32_t *first = s.active_components.data(), *end = first + n;
    for (const auto* c = first; c < end && !stopped(s); ++c)
        if (!is_closed(s.terms->component[*c])) {
            count_form(s, *c);
            s.form[*c] = form_inside<false>(Form(s, *c));
        }
    for (const auto& run : s.terms->alike) {
        first = std::lower_bound(first, end, run.first);
        const auto* last = std::lower_bound(first, end, run.first + run.n);
        s.work->add(nominal::kComponent * static_cast<double>(last - first));
        find_factors(s, run, last - first, [&](std::int64_t i) { return first[i] - run.first; });
        for (; first < last; ++first) s.form[*first] = closed_form(s, *first);
    }
    Four sums = four(0.0);
    for (std::int64_t i = 0; i < s.form.size() / 4; ++i) sums += fours(s.form.data())[i];
    return squared_mean(s) + sum(sums);
}

void covariances(TermState& s, double* found) {
    const std::int64_t width = s.terms->width;
    std::fill_n(found, width * width, 0.0);
    const auto n = push_open(s);
    for (std::int64_t i = 0; i < n && !stopped(s); ++i) {
        s.work->add(static_cast<double>(width) * form_nanoseconds(s, s.active_components[i]));
        const Form f(s, s.active_components[i]);
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

void begin(TermState& s) {
    const auto n = s.terms->n_components();
    s.work->add(nominal::kComponent * n);
    s.step = 0;
    find_closed_factors(s);
    find_weights(s);
    if (s.units) begin_frontier(s);
    for (std::int32_t c = 0; c < n; ++c) {
        const auto& own = s.terms->component[c];
        s.component[c] = {0.0,  s.units ? n_units(s, own) : own.size, -1, -1, true, s.component[c].has_weight,
                          false};
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
    const bool on_plan = is_on_plan(s), are_alone = s.units->are_alone(), has_parts = keeps_parts(s);
    for (const auto q : s.units->members(unit)) s.in_subset[q] = 1;
    for (const auto q : s.units->members(unit)) {
        const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
        s.work->add(nominal::kComponent * (end - begin));
        if (on_plan) push_edges(s, q);
        for (auto i = begin; i < end; ++i) {
            const auto use = s.terms->use[i];
            auto& state = s.component[use.component];
            if (state.has_weight) {
                if (!on_plan) push(s, use, s.weight);
                renew_parent(s, use);
                if (has_parts) note_parts_with(s, parent_of(s, use));
            }
            if ((!are_alone && !is_first_of_unit(s, use)) || --state.n_outside > 1) continue;
            state.is_stale = true;
            if (state.n_outside == 1)
                add_to_frontier(s, {use.component, slot_outside(s, s.terms->component[use.component])});
        }
    }
}

// Writes W E tau of the slot outside, which `cross` needs.
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
        count_form(s, c);
        s.form[c] = main_form_outside(Form(s, c), mean);
        state.is_stale = false;
    }
    double twice = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) twice += mean[k] * s.weight[k * s.terms->n_weights];
    return s.form[c] + 2.0 * twice;
}

// The same amount as component_gain's, for a component whose Gram matrix H and product H W' are kept.
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

// The amount that a component adds to the gain of its feature outside: W'HW' + 2 cross, where W' are its
// weights, H the factors of its pairs of terms with that feature outside, and cross as above.
PREDGAP_INLINE double component_gain(TermState& s, Use use) {
    if (keeps_gram(s, use.component)) return gain_of_gram(s, use);
    auto& state = s.component[use.component];
    if (state.is_stale) {
        count_form(s, use.component);
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
        s.work->add(nominal::kPushedTerm * s.terms->component[use.component].n_terms * s.terms->width);
        state.cross = cross(s, use);
        state.cross_at = before.product_at;
    }
    return s.form[use.component] + 2.0 * state.cross;
}

// The part of a gain that a component of the frontier with several features is, as it is now.
PREDGAP_INLINE void renew_part(TermState& s, std::int32_t component) {
    auto& state = s.component[component];
    state.has_changed = false;
    if (state.n_outside != 1) return;
    const auto& link = s.link[component];
    double* part = s.part.data() + std::int64_t{link.part} * s.terms->width;
    if (is_closed(s.terms->component[component])) {
        const auto& own = s.closed_frontier[link.place];
        if (s.component[own.parent_component].has_weight) renew_product(s, own.parent_component);
        for (std::int64_t k = 0; k < s.terms->width; ++k)
            part[k] = closed_gain(own, s.weight.data() + k * s.terms->n_weights,
                                  s.product.data() + k * s.terms->n_weights);
        s.gain_of_unit[own.unit].is_stale = true;
    } else if (state.has_weight) {
        *part = component_gain(s, s.frontier[link.place]);
    }
}

// Adds up the gains of the units that are left, from parts that are kept.
PREDGAP_INLINE void add_parts(TermState& s) {
    s.work->add(nominal::kComponent * static_cast<double>(s.n_changed) +
                nominal::kUnit * static_cast<double>(s.n_left));
    for (std::int64_t i = 0; i < s.n_changed && !stopped(s); ++i) renew_part(s, s.changed[i]);
    s.n_changed = 0;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < s.n_left && !stopped(s); ++i) {
        const auto unit = s.left[i];
        auto& own = s.gain_of_unit[unit];
        s.gain[unit] = 0.0;
        if (s.in_subset[own.feature]) continue;
        s.left[kept++] = unit;
        double gain = closed_parts(s, own);
        if (s.component[own.main].has_weight) gain += main_gain(s, own.main, own.feature);
        s.gain[unit] = with_other_parts(s, own, gain);
    }
    s.n_left = kept;
}

// Adds the gains of all components with closed forms.
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

// Adds up the gains of all units, component by component.
PREDGAP_INLINE void add_components(TermState& s) {
    for (const auto q : s.tables->model().features) s.gain[s.units->of(q)] = 0.0;
    s.work->add(nominal::kComponent * static_cast<double>(s.n_closed_frontier + s.n_frontier));
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
}

void gains(TermState& s) {
    keeps_parts(s) ? add_parts(s) : add_components(s);
    if (s.units->are_alone()) return;
    for (std::int32_t u = 0; u < s.units->size() && !stopped(s); ++u)
        if (!s.units->is_alone(u) && !s.in_subset[*s.units->members(u).first]) s.gain[u] = unit_gain(s, u);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
