#include "terms/term_state.hpp"

#include <algorithm>

namespace predgap {

void TermState::prepare(const RowTerms& row_terms, const RowTables& row_tables,
                        const std::atomic<bool>& stopped, const Units* ranked, CellRule rule,
                        std::int32_t n_steps) {
    units = ranked;
    keeps_grams = false;
    terms = &row_terms;
    tables = &row_tables;
    stop = &stopped;
    own_sets.fill(row_terms, row_tables, rule, n_steps, stopped);
    scratch.reset(std::max(terms->most_scratch, own_sets.most_scratch()));
    sets = &own_sets;
    component.reset(terms->n_components());
    closed.reset(terms->n_components());
    mattering.reset(terms->n_components() + 1);
    form.reset((terms->n_components() + 3) / 4 * 4, 0.0);
    if (!units) return;
    frontier.reset(terms->n_components());
    closed_frontier.reset(terms->n_components());
    const auto d = tables->model().n_features();
    product.reset(weight.size(), 0.0);
    shifted.reset(weight.size());
    main_mean.reset(std::int64_t{d} * terms->width);
    gain.reset(units->size(), 0.0);
    in_subset.reset(d, 0);
    if (units->are_alone()) return;
    trial.reset(weight.size());
    received.reset(terms->n_components());
    receiver.reset(terms->n_components(), 0);
}

void TermState::keep_grams() {
    keeps_grams = terms->n_gram > 0 && units->are_alone();
    if (keeps_grams) gram.reset(terms->n_gram);
}

void TermState::prepare_curve() {
    const auto d = tables->model().n_features();
    versions.reset(terms->n_components());
    step_of.reset(d);
    due.reset(terms->n_components());
    due_begin.reset(d + 2);
    ended.reset(d + 1, 0.0);
    kept.reset(
        std::min(Versions::kMostKept, std::int64_t{Versions::kMost} * terms->n_weights + sets->n_kept()));
    scratch.reset(std::max(scratch.size(), Versions::kScratch));
}

void TermState::copy(const TermState& other) {
    terms = other.terms;
    tables = other.tables;
    units = other.units;
    keeps_grams = false;
    stop = other.stop;
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
    n_frontier = other.n_frontier;
    n_closed_frontier = other.n_closed_frontier;
    step = other.step;
    trial.reset(other.trial.size());
    received.reset(other.received.size());
    receiver.assign(other.receiver);
    n_received = 0;
}

}  // namespace predgap
