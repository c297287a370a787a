#include "terms/set_factors.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;

void SetFactors::list_used(const RowTerms& terms, int32_t n_thresholds) {
    for (const auto& c : terms.component) {
        if (!c.has_sets || c.size == 1) continue;
        for (int32_t j = 0; j < c.size; ++j) {
            const auto* atom = terms.atom.data() + c.slots + int64_t{j} * c.stride;
            if (atom[0] < n_thresholds) continue;
            for (int32_t t = 0; t < c.n_terms; ++t) is_used_[atom[t] - n_thresholds] = 1;
        }
    }
}

void SetFactors::fill(const RowTerms& terms, const RowTables& tables, const std::atomic<bool>& stop) {
    const auto& sets = tables.model().set_atoms;
    const auto n_thresholds = tables.model().n_thresholds();
    if (sets.size() == 0) return;
    is_used_.reset(sets.size(), 0);
    row_.reset(sets.size(), -1);
    column_.reset(sets.size(), 0);
    moment_.clear();
    covariance_.clear();
    list_used(terms, n_thresholds);
    for (int32_t first = 0; first < sets.size();) {  // feature by feature
        const auto last = sets.begin[sets.feature[first] + 1] - n_thresholds;
        const bool is_open = tables.is_open[sets.feature[first]];
        used_.clear();
        for (; first < last; ++first)
            if (is_open && is_used_[first]) used_.push(first);
        const auto n = used_.size(), begin = moment_.size();
        if (n > kMostSets) continue;
        moment_.grow(begin + n * n);
        covariance_.grow(begin + n * n);
        for (int64_t i = 0; i < n && !stop.load(std::memory_order_relaxed); ++i) {
            row_[used_[i]] = begin + i * n;
            column_[used_[i]] = static_cast<int32_t>(i);
            for (int64_t j = 0; j <= i; ++j) {
                const auto pair = tables.set_pair(used_[i], used_[j]);
                moment_[begin + i * n + j] = moment_[begin + j * n + i] = pair.moment;
                covariance_[begin + i * n + j] = covariance_[begin + j * n + i] = pair.covariance;
            }
        }
    }
}

}  // namespace predgap
