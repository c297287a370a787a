// How the noise spreads in the prediction: moments of the outputs, and which units the variance comes from.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rows/row_solver.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

void RowSolver::moments_by_terms(double* change, double* covariance) {
    const auto n_outputs = static_cast<int64_t>(routes_.pairs.size());
    for (std::size_t g = 0; g < states_.size(); ++g) {
        auto& state = states_[g];
        const int64_t width = state.terms->width;
        if (width > 1) {  // then there is one group
            state.product.reset(state.weight.size());
            kernels().covariances(state, covariance);
        } else {
            kernels().gap(state);
            double& variance = covariance[static_cast<int64_t>(g) * (n_outputs + 1)];
            variance = 0.0;
            for (int64_t c = 1; c < state.terms->n_components(); ++c) variance += state.form[c];
        }
        for (int64_t k = 0; k < width; ++k)
            change[static_cast<int64_t>(g) + k] = state.weight[k * state.terms->n_weights];
    }
    for (int64_t k = 0; k < n_outputs; ++k) {
        auto& variance = covariance[k * (n_outputs + 1)];
        variance = std::max(variance, 0.0);
    }
}

void RowSolver::moments_by_pairs(double* change, double* covariance) {
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k) {
        const auto found = routes_.pairs[k].spread(pairs_, tables_);
        change[k] = found.mean_change;
        covariance[k * (routes_.pairs.size() + 1)] = found.variance;
    }
}

Answer RowSolver::moments(const uint8_t* subset, const Accuracy& accuracy, double* change,
                          double* covariance) {
    tables_.open(subset);
    forget_compilation();
    const auto n_outputs = routes_.pairs.size();
    const bool is_joint = states_.size() < n_outputs;  // covariances are sums over terms
    std::fill_n(covariance, n_outputs * n_outputs, std::numeric_limits<double>::quiet_NaN());
    const Job job{Question::gap, subset, 0, nullptr, !is_joint, false};
    return answer(job, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) {
            moments_by_pairs(change, covariance);
        } else {
            bound = prepare(cost, nullptr);
            if (!std::isfinite(bound)) return 0.0;
            moments_by_terms(change, covariance);
        }
        double square = 0.0, variance = 0.0;
        for (std::size_t k = 0; k < n_outputs; ++k) {
            square += change[k] * change[k];
            variance += covariance[k * (n_outputs + 1)];
        }
        const double gap = square + variance;
        if (bound > 0.0) {  // of the variances, and of the means times the root of the gap
            const double of_mean = left_out_.mean_error;
            bound = std::max(bound + of_mean * (2.0 * std::sqrt(square) + of_mean), of_mean * std::sqrt(gap));
        }
        return gap;
    });
}

Answer RowSolver::main_weights(const uint8_t* subset, const Accuracy& accuracy, double* weights) {
    tables_.open(subset);
    forget_compilation();
    return answer(
        {Question::gap, subset, 0, nullptr, false, false}, accuracy, [&](const Cost& cost, double& bound) {
            bound = prepare(cost, nullptr);
            if (!std::isfinite(bound)) return 0.0;
            auto& state = states_[0];
            const double gap = kernels().gap(state);
            const auto& terms = *state.terms;
            std::fill_n(weights, routes_.model.n_thresholds(), 0.0);
            for (int32_t i = 1; i < terms.n_components(); ++i) {
                const auto& c = terms.component[i];
                if (c.size > 1) break;
                for (int32_t t = 0; t < c.n_terms; ++t)
                    if (const auto atom = terms.atom[c.slots + t]; atom < routes_.model.n_thresholds())
                        weights[atom] = state.weight[c.first_term + t];
            }
            return gap;
        });
}

// A component counts for the units of its features.
void RowSolver::add_shares(const TermState& state, const Units& units, const Shares& shares) {
    const auto& terms = *state.terms;
    std::vector<int32_t> own;
    for (int32_t i = 1; i < terms.n_components(); ++i) {
        const double form = std::max(state.form[i], 0.0);
        if (form == 0.0) continue;
        const auto& c = terms.component[i];
        own.clear();
        for (int32_t j = 0; j < c.size; ++j) own.push_back(units.of(terms.feature[c.features + j]));
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        shares.variance += form;
        const double equal_part = form / static_cast<double>(own.size());
        for (const auto u : own) {
            shares.total[u] += form;
            shares.shapley[u] += equal_part;
        }
        if (own.size() == 1) shares.first[own[0]] += form;
        if (own.size() != 2) continue;
        shares.interaction[int64_t{own[0]} * units.size() + own[1]] += form;
        shares.interaction[int64_t{own[1]} * units.size() + own[0]] += form;
    }
}

Answer RowSolver::sensitivity(const Units& units, const Accuracy& accuracy, const Shares& shares) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    forget_compilation();
    // The share of a pair is off by at most so many bounds of the gap; see docs/internals.md.
    constexpr double kBounds = 6.0;
    auto of_gap = accuracy;
    of_gap.tolerance /= kBounds;
    const int64_t n = units.size();
    auto found = answer({Question::gap, all.data(), 0, nullptr, false, false}, of_gap,
                        [&](const Cost& cost, double& bound) {
                            bound = prepare(cost, nullptr);
                            if (!std::isfinite(bound)) return 0.0;
                            shares.variance = 0.0;
                            for (auto* sums : {shares.first, shares.total, shares.shapley})
                                std::fill_n(sums, n, 0.0);
                            std::fill_n(shares.interaction, n * n, 0.0);
                            for (auto& state : states_) {
                                kernels().gap(state);
                                add_shares(state, units, shares);
                            }
                            const double root = std::sqrt(left_out_.square_error);
                            const double by_squares = 2.0 * root * (2.0 * std::sqrt(shares.variance) + root);
                            bound = std::min(bound, by_squares / kBounds);
                            return shares.variance;
                        });
    if (found.bound > 0.0) found.bound *= kBounds / shares.variance;
    return found;
}

}  // namespace predgap
