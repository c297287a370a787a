// Makes room for the state of a row's terms, and copies it.
#include "terms/term_state.hpp"

#include <algorithm>

#include "simd/kernels.hpp"

namespace predgap {

void TermState::begin(const RowTerms& row_terms, const RowTables& row_tables, RowWork& row_work,
                      const TermUse& use, Buffer<double>& weights) {
    weight.swap(weights);
    units = use.units;
    terms = &row_terms;
    tables = &row_tables;
    work = &row_work;
    own_sets.fill(row_terms, row_tables, use.cell_rule, use.n_steps, row_work);
    scratch.reset(std::max(terms->most_scratch, own_sets.most_scratch()));
    sets = &own_sets;
    component.reset(terms->n_components());
    closed.reset(terms->n_components());
    active_components.reset(terms->n_components() + 1);
    form.reset((terms->n_components() + 3) / 4 * 4, 0.0);
    for (auto* array : {&product, &shifted, &main_mean, &gain, &trial, &gram, &kept, &ended}) array->clear();
    for (auto* array : {&receiver, &step_of, &due, &due_begin}) array->clear();
    frontier.clear();
    closed_frontier.clear();
    for (auto* array : {&changed, &left}) array->clear();
    link.clear();
    part.clear();
    gain_of_unit.clear();
    received.clear();
    versions.clear();
    in_subset.clear();
    keeps_grams = use.keeps_grams && terms->n_gram > 0 && units->are_alone();
    if (use.kind == TermUse::Kind::covariances) product.reset(weight.size());
    if (use.kind == TermUse::Kind::curve) begin_curve();
    if (use.kind == TermUse::Kind::gains) begin_gains(use.many_units);
}

void TermState::begin_gains(std::int32_t many_units) {
    frontier.reset(terms->n_components());
    closed_frontier.reset(terms->n_components());
    const auto d = tables->model().n_features();
    product.reset(weight.size(), 0.0);
    shifted.reset(weight.size());
    main_mean.reset(std::int64_t{d} * terms->width);
    gain.reset(units->size(), 0.0);
    in_subset.reset(d, 0);
    if (keeps_grams) gram.reset(terms->n_gram);
    if (!units->are_alone()) {
        trial.reset(weight.size());
        received.reset(terms->n_components());
        receiver.reset(terms->n_components(), 0);
    }
    const auto n_used = static_cast<std::int32_t>(tables->model().features.size());
    if (n_used >= many_units && units->size() >= many_units) begin_parts();
    kernels().begin(*this);
}

void TermState::begin_parts() {
    link.reset(terms->n_components());
    changed.reset(terms->n_components());
    part.reset(terms->use.size() * terms->width);
    gain_of_unit.reset(units->size());
    left.reset(units->size());
}

void TermState::begin_curve() {
    const auto d = tables->model().n_features();
    versions.reset(terms->n_components());
    step_of.reset(d);
    due.reset(terms->n_components());
    due_begin.reset(d + 2);
    ended.reset(d + 1, 0.0);
    kept.reset(
        std::min(Versions::kMostKept, std::int64_t{Versions::kMost} * terms->n_weights + sets->n_kept()));
}

void TermState::copy(const TermState& other) {
    terms = other.terms;
    tables = other.tables;
    units = other.units;
    keeps_grams = false;
    work = other.work;
    sets = other.sets;
    weight.assign(other.weight);
    product.assign(other.product);
    shifted.assign(other.shifted);
    scratch.reset(other.scratch.size());
    component.assign(other.component);
    closed.assign(other.closed);
    form.assign(other.form);
    main_mean.assign(other.main_mean);
    gain.assign(other.gain);
    in_subset.assign(other.in_subset);
    frontier.assign(other.frontier);
    closed_frontier.assign(other.closed_frontier);
    link.assign(other.link);
    changed.assign(other.changed);
    part.assign(other.part);
    gain_of_unit.assign(other.gain_of_unit);
    left.assign(other.left);
    n_changed = other.n_changed;
    n_left = other.n_left;
    n_frontier = other.n_frontier;
    n_closed_frontier = other.n_closed_frontier;
    step = other.step;
    trial.reset(other.trial.size());
    received.reset(other.received.size());
    receiver.assign(other.receiver);
    n_received = 0;
}

double TermState::bytes_of_copy() const {
    double sum = 0.0;
    for (const auto* array : {&weight, &product, &shifted, &scratch, &form, &main_mean, &gain, &trial, &part})
        sum += array->used_bytes();
    return sum + component.used_bytes() + closed.used_bytes() + in_subset.used_bytes() +
           frontier.used_bytes() + closed_frontier.used_bytes() + link.used_bytes() + changed.used_bytes() +
           gain_of_unit.used_bytes() + left.used_bytes() + received.used_bytes() + receiver.used_bytes();
}

double TermState::bytes() const {
    return bytes_of_copy() + own_sets.used_bytes() + active_components.used_bytes() + gram.used_bytes() +
           versions.used_bytes() + kept.used_bytes() + step_of.used_bytes() + due.used_bytes() +
           due_begin.used_bytes() + ended.used_bytes();
}

}  // namespace predgap
