// Rankings of one row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/candidates.hpp"
#include "engine/row_solver.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

constexpr double kNotRanked = std::numeric_limits<double>::quiet_NaN();  // the score of a feature

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

// Error scales of the subset so far, and of what each candidate would add.
void RowSolver::read_errors(Candidates& c) {
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    c.base_error = 0.0;
    Buffer<double> scale;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const auto& state = states_[g];
        const auto& terms = *state.terms;
        if (uses_plan_)
            routes_.plan[g]->error_scales(tables_, plan_scratch_[g], scale);
        else
            compilation_.error_scales(g, scale);
        for (int64_t i = 1; i < scale.size(); ++i) {
            const auto n_outside = state.component[i].n_outside;
            if (n_outside == 0) c.base_error += scale[i];
            if (n_outside != 1) continue;
            const auto* feature = terms.feature.data() + terms.component[i].features;
            while (state.in_subset[*feature]) ++feature;
            c.error_scale[static_cast<std::size_t>(*feature)] += scale[i];
        }
    }
}

// Returns the gap of all features that were taken.
double RowSolver::greedy_by_terms(const Places& places, double bound) {
    Candidates c(n_features());
    std::fill_n(places.score, n_features(), kNotRanked);
    const double most_error = largest_error();
    for (auto& state : states_) kernels().begin(state);
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        std::fill(c.gain.begin(), c.gain.end(), 0.0);
        for (auto& state : states_) {
            kernels().gains(state);
            for (const auto q : routes_.model.features) c.gain[static_cast<std::size_t>(q)] += state.gain[q];
        }
        auto best = c.largest();
        if (c.in_doubt(most_error)) {
            read_errors(c);
            best = c.best();
        }
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = bound == 0.0 || c.proves(best, bound, tables_.is_open);
        c.take(best);
        if (place + 1 < places.n)
            for (auto& state : states_) kernels().add_feature(state, best);
    }
    return c.base;
}

double RowSolver::greedy_by_pairs(const Places& places) {
    Candidates c(n_features());
    std::fill_n(places.score, n_features(), kNotRanked);
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        for (std::size_t q = 0; q < n_features() && !stopped(); ++q) {
            if (c.taken[q]) continue;
            subset_[q] = 1;
            tables_.open(subset_.data());
            double gap = 0.0, error = 0.0;
            for (const auto& pairs : routes_.pairs) {
                const auto result = pairs.gap(pairs_, tables_);
                gap += result.gap;
                error += result.error_scale;
            }
            subset_[q] = 0;
            c.gain[q] = gap - c.base;
            c.error_scale[q] = error - c.base_error;
        }
        const auto best = c.best();
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = 1;
        subset_[static_cast<std::size_t>(best)] = 1;
        c.take(best);
    }
    return c.base;
}

// For a few places, terms with at most one feature outside the likely ones suffice: those of a coarse
// ranking, and two more. False if all features are likely, or the row is too large for a guess.
bool RowSolver::guess_first_places(const Places& places) {
    constexpr double kCoarse = 1e-5, kFew = 4e6;
    constexpr int32_t kMore = 2;
    const auto n_used = static_cast<int32_t>(routes_.model.features.size());
    if (places.n + kMore >= n_used || places.n == 0) return false;
    load_compilation();
    likely_ = nullptr;
    const auto n = places.n + kMore;
    std::vector<int32_t> order(static_cast<std::size_t>(n));
    std::vector<double> score(n_features());
    std::vector<uint8_t> proven(static_cast<std::size_t>(n));
    if (!std::isfinite(prepare({Route::compiled, Method::pruned, 0.0, 0.0, kCoarse}, true, kFew)))
        return false;
    greedy_by_terms({n, order.data(), score.data(), proven.data()}, 0.0);
    likely_features_.assign(n_features(), 0);
    for (const auto q : order) likely_features_[static_cast<std::size_t>(q)] = 1;
    likely_ = likely_features_.data();
    return true;
}

Answer RowSolver::greedy(int32_t n_places, const Accuracy& accuracy, int32_t* order, double* score,
                         uint8_t* proven) {
    const std::vector<uint8_t> all(n_features(), 1);
    const Places places{n_places, order, score, proven};
    const Job job{Question::greedy, all.data(), n_places};
    tables_.open(all.data());
    forget_compilation();
    likely_ = nullptr;
    const bool may_plan = !routes_.plan.empty() && !(accuracy.is_forced && accuracy.route != Route::plan);
    const bool by_pairs = accuracy.is_forced && accuracy.route == Route::pairs;
    bool is_guess = !may_plan && !by_pairs && guess_first_places(places);
    for (;;) {
        const auto found = answer(job, of_scores(accuracy), [&](const Cost& cost, double& bound) {
            if (cost.route == Route::pairs) return greedy_by_pairs(places);
            bound = prepare(cost, true);
            if (!std::isfinite(bound)) return 0.0;
            const double value = greedy_by_terms(places, bound);
            if (cost.method == Method::pruned) std::fill_n(proven, n_places, uint8_t{0});
            return value;
        });
        // The candidates for a place are complete only while those before it are likely.
        bool is_right = true;
        for (int32_t place = 0; is_guess && place + 1 < n_places; ++place) {
            auto& likely = likely_features_[static_cast<std::size_t>(order[place])];
            is_right = is_right && likely;
            likely = 1;
        }
        if (is_right || stopped()) {
            likely_ = nullptr;
            return found;
        }
    }
}

void RowSolver::single(int32_t n_places, int32_t* order, double* score) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    forget_compilation();
    load_compilation();
    Candidates c(n_features());
    Buffer<double> error;
    compilation_.main_error_scales(error);
    for (const auto q : routes_.model.features) {
        c.gain[static_cast<std::size_t>(q)] = compilation_.main_effects()[q];
        c.error_scale[static_cast<std::size_t>(q)] = error[q];
    }
    for (int32_t place = 0; place < n_places; ++place) {
        order[place] = c.best();
        score[order[place]] = c.gain[static_cast<std::size_t>(order[place])];
        c.taken[static_cast<std::size_t>(order[place])] = 1;
    }
}

}  // namespace predgap
