// Chooses how the forms with categories are evaluated, and fills the determinants that sums over pairs need.
#include "terms/set_factors.hpp"

#include <algorithm>

#include "terms/form_scratch.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;

namespace {

// True if the component has categories and all its features can move. Terms of others have no weight.
bool needs_sets(const RowTerms& terms, const RowTables& tables, const Component& c) {
    const auto* feature = terms.feature.data() + c.features;
    return c.has_sets &&
           std::all_of(feature, feature + c.size, [&](int32_t q) { return tables.is_open[q] != 0; });
}

}  // namespace

void SetFactors::choose_grids(const RowTerms& terms, const RowTables& tables, CellRule rule,
                              int32_t n_steps) {
    GridChoice choice(tables.model());
    grid_.clear();
    most_scratch_ = n_kept_ = 0;
    grid_of_.reset(terms.n_components(), -1);
    nanoseconds_.reset(terms.n_components(), 0.0);
    for (int64_t i = 1; i < terms.n_components(); ++i) {
        const auto& c = terms.component[i];
        if (!needs_sets(terms, tables, c)) continue;
        const auto chosen = choice.choose(terms, c, rule, n_steps);
        nanoseconds_[i] = chosen.nanoseconds;
        if (!chosen.over_cells) continue;
        grid_of_[i] = static_cast<int32_t>(grid_.size());
        grid_.push(chosen.grid);
        most_scratch_ = std::max(most_scratch_, grid_scratch(chosen.grid, c.n_terms));
        n_kept_ += chosen.grid.kept(c.n_terms);
    }
}

// Marks the sets of terms whose pairs are added up.
void SetFactors::list_used(const RowTerms& terms, const RowTables& tables) {
    const auto n_thresholds = tables.model().n_thresholds();
    for (int64_t i = 1; i < terms.n_components(); ++i) {
        const auto& c = terms.component[i];
        if (grid_of_[i] >= 0 || !needs_sets(terms, tables, c)) continue;
        for (int32_t j = 0; j < c.size; ++j) {
            const auto* atom = terms.atom.data() + c.slots + int64_t{j} * c.stride;
            if (atom[0] < n_thresholds) continue;
            for (int32_t t = 0; t < c.n_terms; ++t) is_used_[atom[t] - n_thresholds] = 1;
        }
    }
}

void SetFactors::fill(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps,
                      const RowWork& work) {
    const auto& sets = tables.model().set_atoms;
    const auto n_thresholds = tables.model().n_thresholds();
    if (sets.size() == 0) return;
    if (kept_.empty()) {
        kept_.resize(static_cast<std::size_t>(tables.model().n_features()));
        number_.reset(sets.size(), -1);
    }
    choose_grids(terms, tables, rule, n_steps);
    is_used_.reset(sets.size(), 0);
    row_.reset(sets.size(), nullptr);
    list_used(terms, tables);
    for (int32_t first = 0; first < sets.size();) {  // feature by feature
        const auto q = sets.feature[first];
        used_.clear();
        for (const auto last = sets.begin[q + 1] - n_thresholds; first < last; ++first)
            if (tables.is_open[q] && is_used_[first]) used_.push(first);
        auto& kept = kept_[static_cast<std::size_t>(q)];
        if (!kept.add(used_, tables, number_.data(), work)) continue;
        for (const auto set : used_) row_[set] = kept.row(number_[set]);
    }
}

// The bytes without the determinants, which are of all rows; see KeptSets::bytes.
double SetFactors::used_bytes() const {
    return grid_.used_bytes() + grid_of_.used_bytes() + nanoseconds_.used_bytes() + number_.used_bytes() +
           row_.used_bytes() + used_.used_bytes() + is_used_.used_bytes();
}

}  // namespace predgap
