#include "terms/set_factors.hpp"

#include <algorithm>
#include <bit>

#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

void SetFactors::choose_grids(const RowTerms& terms, const RowTables& tables, CellRule rule,
                              int32_t n_steps) {
    GridChoice choice(tables.model());
    grid_.clear();
    most_scratch_ = n_kept_ = 0;
    grid_of_.reset(terms.n_components(), -1);
    for (int64_t i = 1; i < terms.n_components(); ++i) {
        const auto& c = terms.component[i];
        if (!c.has_sets) continue;
        const auto chosen = choice.choose(terms, c, rule, n_steps);
        if (!chosen.over_cells) continue;
        grid_of_[i] = static_cast<int32_t>(grid_.size());
        grid_.push(chosen.grid);
        most_scratch_ = std::max(most_scratch_, chosen.grid.scratch(c.n_terms));
        if (chosen.grid.n_cells <= CellGrid::kMostKept) n_kept_ += chosen.grid.n_cells + c.n_terms + 8;
    }
}

// The sets of terms whose pairs are added up.
void SetFactors::list_used(const RowTerms& terms, int32_t n_thresholds) {
    for (int64_t i = 1; i < terms.n_components(); ++i) {
        const auto& c = terms.component[i];
        if (!c.has_sets || grid_of_[i] >= 0) continue;
        for (int32_t j = 0; j < c.size; ++j) {
            const auto* atom = terms.atom.data() + c.slots + int64_t{j} * c.stride;
            if (atom[0] < n_thresholds) continue;
            for (int32_t t = 0; t < c.n_terms; ++t) is_used_[atom[t] - n_thresholds] = 1;
        }
    }
}

void SetFactors::fill(const RowTerms& terms, const RowTables& tables, CellRule rule, std::int32_t n_steps,
                      bool with_moments, const std::atomic<bool>& stop) {
    const auto& sets = tables.model().set_atoms;
    const auto n_thresholds = tables.model().n_thresholds();
    if (sets.size() == 0) return;
    choose_grids(terms, tables, rule, n_steps);
    is_used_.reset(sets.size(), 0);
    row_.reset(sets.size(), -1);
    column_.reset(sets.size(), 0);
    moment_.clear();
    covariance_.clear();
    list_used(terms, n_thresholds);
    for (int32_t first = 0; first < sets.size();) {  // feature by feature
        const auto q = sets.feature[first];
        used_.clear();
        for (const auto last = sets.begin[q + 1] - n_thresholds; first < last; ++first)
            if (tables.is_open[q] && is_used_[first]) used_.push(first);
        if (used_.size() == 0 || used_.size() > kMostSets) continue;
        largest_first(tables, q);
        fill_square(tables, q, with_moments, stop);
    }
}

// By the side of each set that x is not on: of two sets, the cells of the smaller one are looked at.
void SetFactors::largest_first(const RowTables& tables, int32_t q) {
    const auto& model = tables.model();
    const auto size_of = [&](int32_t set) {
        int32_t n = 0;
        for (std::size_t w = 0; w < model.cells.n_words(q); ++w)
            n += std::popcount(model.set_atoms.bits(set)[w]);
        return tables.event[model.n_thresholds() + set] ? model.cells.count(q) - n : n;
    };
    sorted_.reset(used_.size());
    for (int64_t i = 0; i < used_.size(); ++i)
        sorted_[i] = static_cast<uint64_t>(model.cells.count(q) - size_of(used_[i])) << 32 |
                     static_cast<uint64_t>(used_[i]);
    std::sort(sorted_.begin(), sorted_.end());
    for (int64_t i = 0; i < used_.size(); ++i) used_[i] = static_cast<int32_t>(sorted_[i]);
}

void SetFactors::fill_square(const RowTables& tables, int32_t q, bool with_moments,
                             const std::atomic<bool>& stop) {
    const auto& model = tables.model();
    const auto& noise = *tables.laws().categories;
    const int64_t n = used_.size(),
                  stride = (n + SetSquare::kColumns - 1) / SetSquare::kColumns * SetSquare::kColumns;
    const auto n_words = static_cast<int64_t>(model.cells.n_words(q));
    const double* mass = noise.mass.data() + model.cells.begin[q];
    const auto begin = covariance_.size();
    covariance_.grow(begin + n * stride);
    if (with_moments) moment_.grow(begin + n * stride);
    begin_.reset(n + 1, 0);
    cell_.clear();
    other_side_.reset(n_words);
    for (auto* values : {&reach_, &rest_, &sign_}) values->reset(stride, 0.0);
    for (int64_t i = 0; i < n; ++i) {
        const auto set = used_[i];
        row_[set] = begin + i * stride;
        column_[set] = static_cast<int32_t>(i);
        const bool leaves = tables.event[model.n_thresholds() + set];
        sign_[i] = leaves ? -1.0 : 1.0;
        for (int64_t w = 0; w < n_words; ++w) {
            const auto inside = model.set_atoms.bits(set)[w];
            const auto outside = model.cells.full_word(q, static_cast<std::size_t>(w)) & ~inside;
            other_side_[w] = leaves ? inside : outside;
            for (auto side = leaves ? outside : inside; side; side &= side - 1) {
                const auto z = static_cast<int32_t>(64 * w + __builtin_ctzll(side));
                reach_[i] += mass[z];
                cell_.push(z);
            }
        }
        begin_[i + 1] = static_cast<int32_t>(cell_.size());
        rest_[i] = tables.mass(q, other_side_.data());
    }
    member_.reset(model.cells.count(q) * SetSquare::kColumns);
    const SetSquare square{n,
                           stride,
                           model.cells.count(q),
                           begin_.data(),
                           cell_.data(),
                           mass,
                           reach_.data(),
                           rest_.data(),
                           sign_.data(),
                           member_.data(),
                           with_moments ? moment_.data() + begin : nullptr,
                           covariance_.data() + begin};
    for (int64_t first = 0; first < n && !stop.load(std::memory_order_relaxed); first += SetSquare::kColumns)
        kernels().fill_set_square(square, first);
}

}  // namespace predgap
