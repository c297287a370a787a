#include "terms/term_state.hpp"

namespace predgap {

void TermState::prepare(const RowTerms& row_terms, const RowTables& row_tables,
                        const std::atomic<bool>& stopped, bool for_gains) {
    terms = &row_terms;
    tables = &row_tables;
    stop = &stopped;
    scratch.reset(terms->most_scratch);
    sets.fill(row_terms, row_tables, stopped);
    component.reset(terms->n_components());
    form.reset((terms->n_components() + 3) / 4 * 4, 0.0);
    frontier.reset(for_gains ? terms->n_components() : 0);
    if (!for_gains) return;
    const auto d = tables->model().n_features();
    product.reset(weight.size());
    shifted.reset(weight.size());
    main_mean.reset(std::int64_t{d} * terms->width);
    gain.reset(d);
    in_subset.reset(d, 0);
}

}  // namespace predgap
