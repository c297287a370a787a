#include "rows/from_pairs.hpp"

#include "rows/search.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

Pairs::Result RowPairs::gap(const uint8_t* subset) {
    tables_.open(subset);
    Pairs::Result sum{0.0, 0.0};
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs.gap(memory_, tables_);
        sum.gap += own.gap;
        sum.error_scale += own.error_scale;
    }
    return sum;
}

double RowPairs::counted_nanoseconds(const uint8_t* subset) {
    tables_.open(subset);
    double sum = 0.0;
    for (const auto& pairs : routes_.pairs) sum += pairs.counted_nanoseconds(memory_, tables_);
    return sum;
}

double RowPairs::curve(const Units& units, const int32_t* order, int32_t n, double* gaps) {
    const auto used = used_places(routes_.model, units, order, n);
    std::vector<double> found;
    begin_subset();
    for (const auto i : used) {
        set(units.members(order[i]), 1);
        found.push_back(stopped() ? 0.0 : gap(subset_.data()).gap);
    }
    return fill_places(used, found, n, gaps);
}

void RowPairs::subset_gaps(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    begin_subset();
    for (int64_t subset = 0; subset < int64_t{1} << m && !stopped(); ++subset) {
        for (int32_t i = 0; i < m; ++i) set(units.members(chosen[i]), subset >> i & 1);
        gaps[subset] = gap(subset_.data()).gap;
    }
}

double RowPairs::greedy(const Units& units, const Places& places) {
    Candidates c(routes_.model, units);
    bool is_new = true;
    leave_unranked(units, places);
    begin_subset();
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        for (const auto at : c.busy()) {
            if (!is_new || stopped()) break;
            const auto unit = units.members(static_cast<int32_t>(at));
            set(unit, 1);
            const auto found = gap(subset_.data());
            set(unit, 0);
            c.gain[at] = found.gap - c.base;
            c.error_scale[at] = found.error_scale - c.base_error;
        }
        const auto best = c.best();
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = 1;
        set(units.members(best), 1);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
    }
    return c.base;
}

double RowPairs::beam(SearchOf& search) {
    struct Nothing {};
    std::vector<double> gain(static_cast<std::size_t>(search.units.size()));
    const auto gains = [&](const Beam<Nothing>::Entry& entry) {
        begin_subset();
        for (const auto u : entry.order) set(search.units.members(u), 1);
        for (const auto u : search.chosen) {
            if (entry.has(u) || stopped()) continue;
            set(search.units.members(u), 1);
            gain[static_cast<std::size_t>(u)] = gap(subset_.data()).gap - entry.gap();
            set(search.units.members(u), 0);
        }
        return gain.data();
    };
    constexpr int32_t kNarrow = 1;  // each gap takes long
    Beam<Nothing> beam(search.chosen, search.n_places, kNarrow, search.units.size());
    beam.run({}, gains, [](const Nothing&, int32_t) { return Nothing{}; }, [&] { return stopped(); });
    return beam.write(search.order, search.gaps);
}

void RowPairs::moments(double* change, double* covariance) {
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k) {
        const auto found = routes_.pairs[k].spread(memory_, tables_);
        change[k] = found.mean_change;
        covariance[k * (routes_.pairs.size() + 1)] = found.variance;
    }
}

void RowPairs::mean_change(double* change) {
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k)
        change[k] = routes_.pairs[k].mean_change(memory_, tables_);
}

}  // namespace predgap
