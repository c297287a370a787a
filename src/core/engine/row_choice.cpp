// Which way a row's answer is obtained, and what that costs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/row_solver.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Cost cheaper(const Cost& a, const Cost& b) {
    const auto fits = [](const Cost& c) { return c.bytes <= kMostBytes; };
    if (fits(a) != fits(b)) return fits(a) ? a : b;
    return a.nanoseconds <= b.nanoseconds ? a : b;
}

// How rarely x' crosses the thresholds of open features: -log2 of the probability, in the mean.
double mean_rarity(const RowTables& tables) {
    constexpr int kMost = 100;
    const auto& model = tables.model();
    int64_t sum = 0, n = 0;
    for (const auto q : model.features) {
        if (!tables.is_open[q]) continue;
        for (auto a = model.atoms.begin[q]; a < model.atoms.begin[q + 1]; ++a, ++n)
            sum += std::min(-std::ilogb(std::max(tables.reach(a), 1e-300)), kMost);
    }
    return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(n, 1));
}

// Of the entries that an exact compilation counts: products of many features are small, and left out, unless
// the noise is wide.
double not_negligible(const RowCompilation::Totals& totals, const RowTables& tables) {
    constexpr double kMany = 130.0, kLeast = 0.45, kRare = 13.0;
    const double narrow = std::min(mean_rarity(tables) / kRare, 1.0);
    const double of_node = totals.n_entries / std::max(totals.n_nodes, 1.0);
    return totals.n_entries * std::max(kLeast, 1.0 / (1.0 + narrow * narrow * of_node / kMany));
}

// What cannot be counted to its end takes at least the limits.
void refuse_too_costly(const Cost& cost) {
    if (cost.nanoseconds <= kMostNanoseconds && cost.bytes <= kMostBytes) return;
    const auto known = [](double found, double limit) { return std::isfinite(found) ? found : limit; };
    throw TooCostly{known(cost.nanoseconds, kMostNanoseconds), known(cost.bytes, kMostBytes)};
}

}  // namespace

// The first places are as exact as the whole ranking, whose cost decides that.
RowSolver::ByPlan RowSolver::by_plan(Job job) const {
    if (job.question == Question::greedy) job.n_places = job.units->size();
    Cost sum{Route::plan};
    double n_terms = 0.0;
    for (const auto& plan : routes_.plan) {
        const auto moving = plan->count(job.features);
        const auto own = plan_cost(*plan, moving, routes_.model, job);
        sum.nanoseconds += own.nanoseconds;
        sum.bytes += own.bytes;
        n_terms += moving.terms;
    }
    const double asking = guess_compiled_cost(0.0, routes_.model, job).nanoseconds;
    const double compiled = guess_compiled_cost(n_terms, routes_.model, job).nanoseconds;
    constexpr double kRegret = 1.5;  // what is asked in vain counts more
    constexpr double kRough = 1.5;   // a guess may be too high by that
    return {sum, kRegret * asking + (compiled - asking) / kRough};
}

Cost RowSolver::cost_by_pairs(const Job& job) const {
    Cost sum{Route::pairs};
    if (!job.by_pairs) sum.nanoseconds = sum.bytes = kInfinity;
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs_cost(pairs, job, routes_.model.n_features());
        sum.nanoseconds += own.nanoseconds;
        sum.bytes = std::max(sum.bytes, own.bytes);
    }
    return sum;
}

Cost RowSolver::cost_of(const RowCompilation::Totals& totals, const Job& job, double limit,
                        Method method) const {
    const double n_entries = limit == 0.0 ? not_negligible(totals, tables_) : totals.n_entries;
    auto cost = compiled_cost(n_entries, totals.n_nodes, limit > 0.0, routes_.model, job);
    if (!totals.complete || (limit == 0.0 && exact_overflows_)) cost.nanoseconds = cost.bytes = kInfinity;
    cost.limit = limit;
    cost.method = method;
    return cost;
}

// The bound to aim at: the tolerance of what the answer will be, as far as main effects tell. In the mean of
// a curve a unit counts from its place on.
double RowSolver::first_target(const Job& job, double tolerance) {
    load_compilation();
    const auto& effect = compilation_.main_effects();
    double sum = 0.0;
    if (job.order) {
        for (int32_t i = 0; i < job.n_places; ++i)
            for (const auto q : job.units->members(job.order[i]))
                sum += effect[q] * (job.n_places - i) / job.n_places;
        return 0.85 * tolerance * sum;
    }
    for (const auto q : routes_.model.features)
        if (likely_ ? likely_.feature[q] : job.features[q]) sum += effect[q];
    return tolerance * (job.question == Question::curve ? 0.6 : 0.75) * sum;
}

Cost RowSolver::decide_exact(const Job& job, const Accuracy& accuracy) {
    load_compilation();
    const auto most =
        accuracy.is_forced ? kMostEntries : std::min(kMostEntries, entries_within(kMostNanoseconds, job));
    const auto compiled = cost_of(compilation_.count(0.0, most, likely_), job, 0.0, Method::exact);
    if (accuracy.is_forced || compiled.nanoseconds <= kCheapNanoseconds) return compiled;
    return cheaper(compiled, cost_by_pairs(job));
}

// Is an exact compilation cheap, or a sum over pairs? The cost is that of the cheaper one, or of the former.
// All terms count, also where only the first places are asked for: they are as exact as a whole ranking.
bool RowSolver::is_exact_cheap(const Job& job, Cost& cost) {
    constexpr double kWorthAsking = 8e6;  // nanoseconds
    constexpr double kUnsure = 1.6;       // it is counted on some trees only, and may take longer by that
    load_compilation();
    cost = cost_of(compilation_.count(0.0, kMostEntries, {}), job, 0.0, Method::exact);
    if (kUnsure * cost.nanoseconds > kCheapNanoseconds) return false;
    if (cost.nanoseconds > kWorthAsking && are_few(job)) cost = cheaper(cost, cost_by_pairs(job));
    return true;
}

// What may be left out of an exact gap: the bound must be so small beside the gap itself that the criterion
// of exact answers holds. Curves and rankings have gaps that are far smaller than what bounds are compared
// with.
double RowSolver::exact_limit(const Job& job, const Accuracy& accuracy, const Cost& cost) {
    constexpr double kFewEntries = 1e4;   // leaving some out saves little
    constexpr double kMostCounted = 0.4;  // of the trees: else a guess takes longer than it saves
    if (cost.route != Route::compiled || cost.method != Method::exact || job.question != Question::gap ||
        !job.is_whole_gap || accuracy.kind == Method::exact || cost.n_entries < kFewEntries ||
        compilation_.counted_share() > kMostCounted)
        return 0.0;
    RowCompilation::Totals totals;
    return compilation_.guess_limit(first_target(job, kExactShare), likely_, totals);
}

// What is left at this limit: from some of the trees, unless that is near to what a row may take.
RowCompilation::Totals RowSolver::count_pruned(const Job& job, double limit) {
    constexpr double kFar = 4.0;
    const auto roughly = compilation_.count(limit, kMostEntries, likely_, true);
    const auto cost = cost_of(roughly, job, limit, Method::pruned);
    if (kFar * cost.nanoseconds <= kMostNanoseconds && kFar * cost.bytes <= kMostBytes) return roughly;
    return compilation_.count(limit, kMostEntries, likely_);
}

// Exact where that is cheap; else with as much left out as the tolerance allows.
Cost RowSolver::decide_bounded(const Job& job, const Accuracy& accuracy) {
    Cost cost;
    if (!accuracy.is_forced && is_exact_cheap(job, cost)) return cost;
    RowCompilation::Totals totals;
    double limit = accuracy.tolerance;
    if (accuracy.kind == Method::bounded)
        limit = compilation_.find_limit(first_target(job, accuracy.tolerance), kMostEntries, likely_, totals);
    else
        totals = count_pruned(job, limit);
    auto pruned = cost_of(totals, job, limit, accuracy.kind);
    // Where the bound says nothing at all, experience does not either.
    constexpr double kHopeless = 1e4;
    if (accuracy.kind == Method::pruned && !accuracy.is_forced &&
        totals.bound > kHopeless * compilation_.scale() * compilation_.scale())
        pruned.nanoseconds = pruned.bytes = kInfinity;
    const bool fits = pruned.nanoseconds <= kMostNanoseconds && pruned.bytes <= kMostBytes;
    if (accuracy.is_forced || pruned.nanoseconds <= kCheapNanoseconds ||
        (accuracy.kind == Method::pruned && fits))
        return pruned;
    return cheaper(pruned, cost_by_pairs(job));
}

Cost RowSolver::decide(const Job& job, const Accuracy& accuracy) {
    Cost cost;
    if (accuracy.is_forced && accuracy.route == Route::pairs) {
        cost = cost_by_pairs(job);
    } else {
        const bool may_plan = !routes_.plan.empty() && (!accuracy.is_forced || accuracy.route == Route::plan);
        ByPlan plan;
        if (may_plan) plan = by_plan(job);
        cost = plan.cost;
        if (Cost other; may_plan && !accuracy.is_forced && !routes_.plan_is_cheap && !plan.is_best() &&
                        is_exact_cheap(job, other))
            cost = cheaper(cost, other);
        if (!may_plan || (!accuracy.is_forced && cost.nanoseconds > kCheapNanoseconds)) {
            const auto other =
                accuracy.kind == Method::exact ? decide_exact(job, accuracy) : decide_bounded(job, accuracy);
            cost = may_plan ? cheaper(cost, other) : other;
        }
    }
    if (const double limit = exact_limit(job, accuracy, cost); limit > 0.0)
        cost = cost_of(compilation_.count(limit, kMostEntries, likely_), job, limit, Method::exact);
    if (!stopped()) refuse_too_costly(cost);  // counts that were stopped are not complete
    return cost;
}

// Main effects, whatever the accuracy; and the gap of each unit of several features.
Cost RowSolver::cost_alone(const Job& job, const Accuracy& accuracy) {
    auto sum = compiled_cost(0.0, 0.0, false, routes_.model, job);
    for (int32_t u = 0; u < job.units->size(); ++u) {
        if (job.units->is_alone(u)) continue;
        std::fill(subset_.begin(), subset_.end(), 0);
        set_subset(job.units->members(u), 1);
        tables_.open(subset_.data());
        forget_compilation();
        const auto own = decide({Question::gap, subset_.data(), 0, nullptr}, accuracy);
        sum.nanoseconds += own.nanoseconds;
        sum.bytes = std::max(sum.bytes, own.bytes);
        sum.method = std::max(sum.method, own.method);
    }
    return sum;
}

Cost RowSolver::cost(const Job& job, const Accuracy& accuracy) {
    tables_.open(job.features);
    forget_compilation();
    if (job.question == Question::single) return cost_alone(job, accuracy);
    return decide(job, job.question == Question::greedy ? of_scores(accuracy) : accuracy);
}

// ---- one try after the other ------------------------------------------------------------------------------

// The first way to try: like decide(), but a limit is guessed where decide() counts.
Cost RowSolver::first_try(const Job& job, const Accuracy& accuracy) {
    const bool may_plan = !routes_.plan.empty() && (!accuracy.is_forced || accuracy.route == Route::plan);
    if (accuracy.kind == Method::exact || (accuracy.is_forced && accuracy.route != Route::compiled))
        return decide(job, accuracy);
    const auto plan = may_plan ? by_plan(job) : ByPlan{{.nanoseconds = kInfinity}, 0.0};
    if (plan.is_best()) return plan.cost;
    Cost cost;
    if (is_exact_cheap(job, cost) && !accuracy.is_forced) {
        cost = cheaper(plan.cost, cost);
        cost.limit = exact_limit(job, accuracy, cost);
        return cost;
    }
    if (plan.cost.nanoseconds <= kCheapNanoseconds) return plan.cost;
    if (cost.bytes > kMostBytes) return decide(job, accuracy);  // however much is left out, it may not fit
    if (!accuracy.is_forced && pairs_may_win(job, cost)) return cost_by_pairs(job);
    if (accuracy.kind == Method::pruned)
        return {Route::compiled, accuracy.kind, 0.0, 0.0, accuracy.tolerance};
    RowCompilation::Totals totals;
    const double limit = compilation_.guess_limit(first_target(job, accuracy.tolerance), likely_, totals);
    return cheaper(plan.cost, cost_of(totals, job, limit, accuracy.kind));
}

// Do few features move?
bool RowSolver::are_few(const Job& job) const {
    return std::count(job.features, job.features + n_features(), uint8_t{1}) <= 12;
}

// Many terms on few features have many pairs: sums over pairs of leaves may take less, even if terms are left
// out.
bool RowSolver::pairs_may_win(const Job& job, const Cost& exact) const {
    constexpr double kLong = 2e8;           // nanoseconds: below this, finding out is not worth it
    constexpr double kBoundedShare = 0.35;  // what a bounded answer takes of an exact one, roughly
    if (!job.by_pairs || job.question != Question::gap || !are_few(job) || exact.nanoseconds < kLong)
        return false;
    return cost_by_pairs(job).nanoseconds < kBoundedShare * exact.nanoseconds;
}

// After a bound that is `share` times what it may be: leave out less; or nothing, where there is little hope.
Cost RowSolver::next_try(const Job& job, const Accuracy& accuracy, const Cost& last, double share,
                         int n_tries) {
    constexpr int kTries = 4;
    constexpr double kFar = 10.0, kWorthIt = 2e9;  // nanoseconds
    auto next = last;
    next.limit *= std::clamp(0.7 * std::pow(share, -1.1), 1e-6, 0.7);
    if (n_tries < kTries && share <= kFar) return next;
    const auto exact = decide_exact(job, accuracy);
    if (n_tries < kTries && std::isfinite(share) && exact.nanoseconds > kWorthIt) return next;
    if (!stopped()) refuse_too_costly(exact);
    return exact;
}

}  // namespace predgap
