// Rankings of one row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "rows/beam.hpp"
#include "rows/candidates.hpp"
#include "rows/row_solver.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

constexpr double kNotRanked = std::numeric_limits<double>::quiet_NaN();  // the score of a unit

}  // namespace

// No error scale is larger than the trees times the square of the largest change.
double RowSolver::largest_error() const {
    double sum = 0.0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const double change =
            uses_plan_ ? routes_.plan[g]->largest_change(plan_scratch_[g]) : compilation_.largest_change(g);
        sum += static_cast<double>(routes_.model.group[g].root.size()) * change * change;
    }
    return sum;
}

// Of each component of a group of trees.
void RowSolver::read_component_errors(std::size_t group, Buffer<double>& scale) {
    if (uses_plan_)
        routes_.plan[group]->error_scales(tables_, plan_scratch_[group], scale);
    else
        compilation_.error_scales(group, scale);
}

// Error scales of the subset so far, and of what each candidate would add. Those of the components are read
// once for a row: scales has a buffer for each group of trees, or none yet.
void RowSolver::read_errors(const Units& units, std::vector<Buffer<double>>& scales, Candidates& c) {
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    c.base_error = 0.0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const auto& state = states_[g];
        const auto& terms = *state.terms;
        if (g == scales.size()) read_component_errors(g, scales.emplace_back());
        const auto& scale = scales[g];
        for (int64_t i = 1; i < scale.size(); ++i) {
            const auto n_outside = state.component[i].n_outside;
            if (n_outside == 0) c.base_error += scale[i];
            if (n_outside != 1) continue;
            const auto* feature = terms.feature.data() + terms.component[i].features;
            while (state.in_subset[*feature]) ++feature;
            c.error_scale[static_cast<std::size_t>(units.of(*feature))] += scale[i];
        }
    }
}

// Can a unit change anything?
std::vector<uint8_t> RowSolver::open_units(const Units& units) const {
    std::vector<uint8_t> is_open(static_cast<std::size_t>(units.size()));
    for (int32_t u = 0; u < units.size(); ++u)
        is_open[static_cast<std::size_t>(u)] = any_of(units.members(u), tables_.is_open);
    return is_open;
}

// Returns the gap of all units that were taken. After an idle unit everything stays as it is.
double RowSolver::greedy_by_terms(const Units& units, const Places& places, double bound) {
    Candidates c(routes_.model, units);
    std::fill_n(places.score, units.size(), kNotRanked);
    const double most_error = largest_error();
    const auto is_open = open_units(units);
    std::vector<Buffer<double>> component_errors;
    for (auto& state : states_) {
        state.keep_grams();
        kernels().begin(state);
    }
    hold_states();
    bool is_new = true, knows_errors = false;
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        if (is_new) {
            for (const auto u : c.busy()) c.gain[u] = 0.0;
            for (auto& state : states_) {
                kernels().gains(state);
                for (const auto u : c.busy()) c.gain[u] += state.gain[static_cast<int64_t>(u)];
            }
            knows_errors = false;
        }
        auto best = c.largest();
        if (c.in_doubt(most_error)) {
            if (!knows_errors) read_errors(units, component_errors, c);
            knows_errors = true;
            best = c.best();
        }
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = c.proves(best, [bound](std::size_t) { return bound; }, is_open);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
        if (place + 1 < places.n && is_new)
            for (auto& state : states_) kernels().add_unit(state, best);
    }
    return c.base;
}

double RowSolver::greedy_by_pairs(const Units& units, const Places& places) {
    Candidates c(routes_.model, units);
    bool is_new = true;
    std::fill_n(places.score, units.size(), kNotRanked);
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        for (const auto at : c.busy()) {
            if (!is_new || stopped()) break;
            const auto unit = units.members(static_cast<int32_t>(at));
            set_subset(unit, 1);
            const auto found = gap_by_pairs(subset_.data());
            set_subset(unit, 0);
            c.gain[at] = found.gap - c.base;
            c.error_scale[at] = found.error_scale - c.base_error;
        }
        const auto best = c.best();
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = 1;
        set_subset(units.members(best), 1);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
    }
    return c.base;
}

// For a few places, terms with at most one unit outside the likely ones suffice: those of a coarse ranking,
// and two more. False if all units are likely, or the row is too large for a guess.
bool RowSolver::guess_first_places(const Units& units, const Places& places) {
    constexpr double kCoarse = 1e-4, kFew = 4e6;
    constexpr int32_t kMore = 2;
    std::fill(subset_.begin(), subset_.end(), 0);
    for (const auto q : routes_.model.features) subset_[static_cast<std::size_t>(q)] = 1;
    int32_t n_used = 0;
    for (int32_t u = 0; u < units.size(); ++u) n_used += any_of(units.members(u), subset_);
    if (places.n + kMore >= n_used || places.n == 0) return false;
    find_main_effects();
    likely_ = {};
    const auto n = places.n + kMore;
    std::vector<int32_t> order(static_cast<std::size_t>(n));
    std::vector<double> score(static_cast<std::size_t>(units.size()));
    std::vector<uint8_t> proven(static_cast<std::size_t>(n));
    if (!std::isfinite(prepare({Route::compiled, Method::pruned, 0.0, 0.0, kCoarse}, &units, kFew)))
        return false;
    refuse_too_much();
    greedy_by_terms(units, {n, order.data(), score.data(), proven.data()}, 0.0);
    refuse_too_much();
    likely_features_.assign(n_features(), 0);
    for (const auto u : order) set_likely(units.members(u));
    likely_ = {likely_features_.data(), units.of_features()};
    return true;
}

void RowSolver::set_likely(const FeatureList& features) {
    for (const auto q : features) likely_features_[static_cast<std::size_t>(q)] = 1;
}

Answer RowSolver::greedy(const Units& units, const Places& places, const Accuracy& accuracy) {
    const std::vector<uint8_t> all(n_features(), 1);
    const Job job{Question::greedy, all.data(), places.n, &units};
    tables_.open(all.data());
    forget_compilation();
    likely_ = {};
    const bool may_plan = !routes_.plan.empty() && !(accuracy.is_forced && accuracy.route != Route::plan);
    const bool by_pairs = accuracy.is_forced && accuracy.route == Route::pairs;
    const bool is_planned =
        may_plan && (routes_.plan_is_cheap || by_plan(job).nanoseconds <= kCheapNanoseconds);
    bool is_guess = !is_planned && !by_pairs && guess_first_places(units, places);
    for (;;) {
        const auto found = answer(job, of_scores(accuracy), [&](const Cost& cost, double& bound) {
            if (cost.route == Route::pairs) {
                is_guess = false;  // all candidates are complete
                return greedy_by_pairs(units, places);
            }
            bound = prepare(cost, &units);
            if (!std::isfinite(bound)) return 0.0;
            const double value = greedy_by_terms(units, places, bound);
            if (cost.method == Method::pruned) std::fill_n(places.proven, places.n, uint8_t{0});
            return value;
        });
        // The candidates for a place are complete only while those before it are likely.
        bool is_right = true;
        for (int32_t place = 0; is_guess && place + 1 < places.n; ++place) {
            const auto taken = units.members(places.order[place]);
            is_right = is_right && likely_features_[static_cast<std::size_t>(*taken.first)];
            set_likely(taken);
        }
        if (is_right || stopped()) {
            likely_ = {};
            return found;
        }
    }
}

double RowSolver::search_by_terms(SearchOf& search) {
    using States = std::shared_ptr<std::vector<TermState>>;
    for (auto& state : states_) kernels().begin(state);
    std::vector<double> gain;
    const auto copied = [](const std::vector<TermState>& from) {
        auto states = std::make_shared<std::vector<TermState>>(from.size());
        for (std::size_t g = 0; g < from.size(); ++g) (*states)[g].copy(from[g]);
        return states;
    };
    const auto gains = [&](const Beam<States>::Entry& entry) {
        gain.assign(static_cast<std::size_t>(search.units.size()), 0.0);
        for (auto& state : *entry.state) {
            kernels().gains(state);
            for (std::size_t u = 0; u < gain.size(); ++u) gain[u] += state.gain[static_cast<int64_t>(u)];
        }
        return gain.data();
    };
    const auto grown = [&](const States& parent, int32_t unit) {
        auto states = copied(*parent);
        for (auto& state : *states) kernels().add_unit(state, unit);
        return states;
    };
    double copy = 0.0;
    for (const auto& state : states_) copy += state.bytes_of_copy();
    work_.hold(RowWork::Arrays::copies,
               copy * (2 * search.width + 1));  // those of two lengths, and the first
    Beam<States> beam(search.chosen, search.n_places, search.width, search.units.size());
    beam.run(copied(states_), gains, grown, [&] { return stopped(); });
    return beam.write(search.order, search.gaps);
}

double RowSolver::search_by_pairs(SearchOf& search) {
    struct Nothing {};
    std::vector<double> gain(static_cast<std::size_t>(search.units.size()));
    const auto gains = [&](const Beam<Nothing>::Entry& entry) {
        std::fill(subset_.begin(), subset_.end(), 0);
        for (const auto u : entry.order) set_subset(search.units.members(u), 1);
        for (const auto u : search.chosen) {
            if (entry.has(u) || stopped()) continue;
            set_subset(search.units.members(u), 1);
            gain[static_cast<std::size_t>(u)] = gap_by_pairs(subset_.data()).gap - entry.gap();
            set_subset(search.units.members(u), 0);
        }
        return gain.data();
    };
    constexpr int32_t kNarrow = 1;  // each gap takes long
    Beam<Nothing> beam(search.chosen, search.n_places, kNarrow, search.units.size());
    beam.run({}, gains, [](const Nothing&, int32_t) { return Nothing{}; }, [&] { return stopped(); });
    return beam.write(search.order, search.gaps);
}

Answer RowSolver::search(const Units& units, const int32_t* chosen, int32_t m, int32_t n_places,
                         int32_t width, const Accuracy& accuracy, int32_t* order, double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < m; ++i)
        for (const auto q : units.members(chosen[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    likely_ = {};
    SearchOf search{units, {chosen, chosen + m}, n_places, width, order, gaps};
    return answer({Question::greedy, features.data(), n_places, &units}, accuracy,
                  [&](const Cost& cost, double& bound) {
                      if (cost.route == Route::pairs) return search_by_pairs(search);
                      bound = prepare(cost, &units);
                      return std::isfinite(bound) ? search_by_terms(search) : 0.0;
                  });
}

// The gap of some features, and the scale of its rounding error.
Answer RowSolver::alone(const FeatureList& features, const Accuracy& accuracy, double& value,
                        double& error_scale) {
    std::vector<uint8_t> subset(n_features(), 0);
    for (const auto q : features) subset[static_cast<std::size_t>(q)] = 1;
    tables_.open(subset.data());
    forget_compilation();
    return answer({Question::gap, subset.data(), 0, nullptr}, accuracy, [&](const Cost& cost, double& bound) {
        error_scale = 0.0;
        if (cost.route == Route::pairs) {
            const auto found = gap_by_pairs(subset.data());
            error_scale = found.error_scale;
            return value = found.gap;
        }
        bound = prepare(cost, nullptr);
        if (!std::isfinite(bound)) return value = 0.0;
        Buffer<double> scale;
        for (std::size_t g = 0; g < states_.size(); ++g) {
            read_component_errors(g, scale);
            for (int64_t i = 1; i < scale.size(); ++i) error_scale += scale[i];
        }
        return value = gap_by_terms();
    });
}

Answer RowSolver::single(const Units& units, const Places& places, const Accuracy& accuracy) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    forget_compilation();
    find_main_effects();
    Candidates c(routes_.model, units);
    const auto is_open = open_units(units);
    Buffer<double> error;
    compilation_.main_error_scales(error);
    for (const auto q : routes_.model.features) {
        const auto u = static_cast<std::size_t>(units.of(q));
        c.gain[u] = compilation_.main_effects()[q];
        c.error_scale[u] = error[q];
    }
    Answer worst;
    std::vector<double> bound(c.gain.size(), 0.0);
    for (int32_t u = 0; u < units.size() && !stopped(); ++u) {
        const auto at = static_cast<std::size_t>(u);
        if (units.is_alone(u) || c.is_idle[at]) continue;
        const auto found = alone(units.members(u), accuracy, c.gain[at], c.error_scale[at]);
        bound[at] = found.bound;
        worst = {std::max(worst.bound, found.bound), std::max(worst.method, found.method)};
    }
    refuse_too_much();
    for (int32_t place = 0; place < places.n; ++place) {
        const auto best = c.best();
        const auto at = static_cast<std::size_t>(best);
        places.order[place] = best;
        places.score[best] = c.gain[at];
        places.proven[place] = c.proves(best, [&](std::size_t u) { return bound[u]; }, is_open);
        c.leave_out(best);
    }
    return worst;
}

}  // namespace predgap
