// The planner of a row: it chooses the way in which an answer is obtained, by what each way costs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "rows/independent.hpp"

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

// The mean of -log2 of the probability that x' crosses a threshold of an open feature: how rarely it does.
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

// The entries that are left of those that an exact compilation counts: products of many features are small,
// and left out, unless the noise is wide.
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

// A cheap exact answer may be taken whatever a bounded one would take. Curves and rankings that are not short
// are compared with it; exact gaps hardly take longer.
bool is_exact_taken(const Cost& exact, const Job& job, const Accuracy& accuracy) {
    constexpr double kShort = 10e6;  // nanoseconds
    return accuracy.kind != Method::bounded || job.question == Question::gap || exact.nanoseconds <= kShort;
}
// An exact answer may take half as long again as a bounded one.
bool is_exact_worth_it(const Cost& exact, const Cost& bounded) {
    return exact.nanoseconds <= 1.5 * bounded.nanoseconds;
}

}  // namespace

Cost IndependentRow::by_plan(const Job& job) {
    Cost sum{Route::plan};
    EvaluationCounts terms;
    for (const auto& plan : routes_.plan) {
        const auto moving = plan->count(job.features);
        const auto own = plan_cost(*plan, moving, routes_.model, job);
        sum.nanoseconds += own.nanoseconds;
        sum.bytes += own.bytes;
        terms += moving;
    }
    const auto lively = features_likely_to_cross(job);
    if (std::all_of(routes_.model.features.begin(), routes_.model.features.end(),
                    [&](int32_t q) { return job.features[q] == lively[static_cast<std::size_t>(q)]; }))
        lively_terms_ = terms;
    return sum;
}

// Finds the features that can matter in a product with others; of the rest hardly a term is left.
std::vector<uint8_t> IndependentRow::features_likely_to_cross(const Job& job) const {
    constexpr double kNever = 1e-24;
    const auto& atoms = routes_.model.atoms;
    const auto may_cross = [&](int32_t q, int32_t atom) {
        return atoms.begin[q] <= atom && atom < atoms.begin[q + 1] && tables_.reach(atom) >= kNever;
    };
    std::vector<uint8_t> lively(n_features(), 0);
    for (const auto q : routes_.model.features) {
        const auto above = tables_.first_above[q];
        lively[static_cast<std::size_t>(q)] =
            job.features[q] && tables_.is_open[q] &&
            (routes_.model.cells.categorical(q) || may_cross(q, above - 1) || may_cross(q, above));
    }
    return lively;
}

// Counts the terms that the plans have on these features.
const EvaluationCounts& IndependentRow::lively_terms(const Job& job) {
    if (lively_terms_) return *lively_terms_;
    const auto lively = features_likely_to_cross(job);
    lively_terms_.emplace();
    for (const auto& plan : routes_.plan) *lively_terms_ += plan->count(lively.data());
    return *lively_terms_;
}

// The terms that a compilation makes of so many entries.
EvaluationCounts IndependentRow::compiled_terms(double n_entries, bool is_pruned, const Job& job) {
    if (!routes_.plan.empty()) return terms_of_plan(n_entries, lively_terms(job));
    const auto lively = features_likely_to_cross(job);
    const double n_lively = std::accumulate(lively.begin(), lively.end(), 0.0);
    return typical_terms(n_entries, n_lively, is_pruned, routes_.model, job);
}

// Says whether the plan takes less than compiling the row. Where the fewest entries that a row may have do
// not tell, a look at some of the trees does, which takes a small part of the plan's time.
bool IndependentRow::plan_is_best(const Job& job, const Cost& plan) {
    constexpr double kLeastEntries = 0.4;  // of a term that the plan has
    constexpr double kOfPlan = 0.12, kMostOfPlan = 0.3, kFewTrees = 2.0;
    if (routes_.plan_is_cheap) return true;
    if (plan.nanoseconds > kCheapNanoseconds) return false;
    const double n_entries = kLeastEntries * lively_terms(job).terms;
    const auto least = compiled_cost(n_entries, least_nodes(routes_.model), false,
                                     compiled_terms(n_entries, false, job), routes_.model, job);
    if (plan.nanoseconds <= least.nanoseconds) return true;
    const double n_trees = trees_within(plan.nanoseconds, n_moving(job), routes_.model);
    if (kMostOfPlan * n_trees < kFewTrees) return true;
    load_compilation();
    const auto totals = compilation_.look(std::max(kOfPlan * n_trees, kFewTrees), kMostEntries);
    return plan.nanoseconds <= cost_of(totals, job, 0.0, Method::exact).nanoseconds;
}

// The units that move and that trees use, in the order of a curve, or of their main effects.
std::vector<int32_t> IndependentRow::likely_order(const Job& job) {
    std::vector<uint8_t> counts(n_features(), 0);
    for (const auto q : routes_.model.features) counts[static_cast<std::size_t>(q)] = job.features[q];
    std::vector<int32_t> order;
    for (int32_t i = 0; job.order && i < job.n_places; ++i)
        if (any_of(job.units->members(job.order[i]), counts)) order.push_back(job.order[i]);
    if (job.order || (job.question != Question::curve && job.question != Question::greedy)) return order;
    find_main_effects();
    std::vector<double> effect(static_cast<std::size_t>(job.units->size()), 0.0);
    for (int32_t u = 0; u < job.units->size(); ++u) {
        if (!any_of(job.units->members(u), counts)) continue;
        order.push_back(u);
        for (const auto q : job.units->members(u))
            effect[static_cast<std::size_t>(u)] += compilation_.main_effects()[q];
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return effect[static_cast<std::size_t>(a)] > effect[static_cast<std::size_t>(b)];
    });
    return order;
}

Cost IndependentRow::cost_by_pairs(const Job& job) {
    Cost sum{Route::pairs};
    if (!job.by_pairs) {
        sum.nanoseconds = sum.bytes = kInfinity;
        return sum;
    }
    const auto order = likely_order(job);
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs_cost(pairs, job, order, tables_);
        sum.nanoseconds += own.nanoseconds;
        sum.bytes = std::max(sum.bytes, own.bytes);
    }
    return sum;
}

Cost IndependentRow::cost_of(const RowCompilation::Totals& totals, const Job& job, double limit,
                             Method method) {
    const double n_entries = limit == 0.0 ? not_negligible(totals, tables_) : totals.n_entries;
    const bool is_pruned = limit > 0.0;
    auto cost = compiled_cost(n_entries, totals.n_nodes, is_pruned, compiled_terms(n_entries, is_pruned, job),
                              routes_.model, job);
    if (!totals.complete || (limit == 0.0 && exact_overflows_)) cost.nanoseconds = cost.bytes = kInfinity;
    cost.limit = limit;
    cost.method = method;
    return cost;
}

// The bound to aim at: the tolerance of what the answer will be, as far as main effects tell. In the mean of
// a curve a unit counts from its place on.
double IndependentRow::first_target(const Job& job, double tolerance) {
    find_main_effects();
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

Cost IndependentRow::decide_exact(const Job& job, const Accuracy& accuracy) {
    find_main_effects();
    const auto most =
        accuracy.is_forced ? kMostEntries : std::min(kMostEntries, entries_within(kMostNanoseconds));
    const auto compiled = cost_of(compilation_.count(0.0, most, likely_), job, 0.0, Method::exact);
    if (accuracy.is_forced || compiled.nanoseconds <= kCheapNanoseconds) return compiled;
    return cheaper(compiled, cost_by_pairs(job));
}

// The exact ways, and the one to take if it is cheap; infinite where one is not asked. All terms count, also
// where only the first places are asked for: they are as exact as a whole ranking.
IndependentRow::ExactWays IndependentRow::exact_ways(Job job, const Accuracy& accuracy) {
    constexpr double kUnsure = 1.6;  // counts are rough; but if the plan is cheap, an exact answer is
    // Not by the plan: there may be none, and a count that is stopped is infinite, too.
    constexpr Cost kNotAsked{.route = Route::compiled, .nanoseconds = kInfinity, .bytes = kInfinity};
    if (job.question == Question::greedy) job.n_places = job.units->size();
    ExactWays ways{kNotAsked, kNotAsked, kNotAsked, std::nullopt};
    if (!routes_.plan.empty() && !accuracy.is_forced) ways.plan = by_plan(job);
    const bool is_plan_cheap = ways.plan.nanoseconds <= kCheapNanoseconds;
    if (is_plan_cheap) ways.cheap = ways.plan;
    // A few trees are enough to tell that the plan is taken, not to compare with a bounded answer.
    if (is_plan_cheap && is_exact_taken(ways.plan, job, accuracy) && plan_is_best(job, ways.plan))
        return ways;
    load_compilation();
    const auto totals = compilation_.look(kInfinity, kMostEntries);
    ways.compiled = cost_of(totals, job, 0.0, Method::exact);
    if (accuracy.is_forced) return ways;
    if (are_pairs_worth_asking(job, totals.n_nodes, ways.compiled)) ways.pairs = cost_by_pairs(job);
    const auto best = cheaper(ways.compiled, ways.pairs);
    if (is_plan_cheap)
        ways.cheap = cheaper(ways.plan, best);
    else if (kUnsure * best.nanoseconds <= kCheapNanoseconds)
        ways.cheap = best;
    return ways;
}

// Sums over pairs of leaves may be short if few features move. What they take is found by walks, which are
// worth it if it could be less than what compiled terms take, or cheap, with as many leaves as the nodes that
// a walk comes to make likely.
bool IndependentRow::are_pairs_worth_asking(const Job& job, double n_nodes, const Cost& compiled) const {
    constexpr double kLong = 8e6;          // nanoseconds: walks are short beside it
    constexpr double kRough = 5.0;         // the guess from leaves may be too high by that
    constexpr double kLeavesOfNode = 0.5;  // that a walk comes to
    constexpr double kFewFeatures = 12.0;
    if (!job.by_pairs || n_moving(job) > kFewFeatures) return false;
    const bool is_gap = job.question == Question::gap;
    const double n_places = std::min<double>(job.n_places, n_moving(job));
    const double n_gaps = is_gap                             ? 1.0
                          : job.question == Question::greedy ? 0.5 * n_places * n_places
                                                             : n_places;
    const auto n_groups = static_cast<double>(routes_.model.group.size());
    const auto work =
        Pairs::work(kLeavesOfNode * n_nodes / n_groups, trees_of(routes_.model) / n_groups, n_moving(job));
    const double likely = n_gaps * static_cast<double>(routes_.pairs.size()) * pairs_nanoseconds(work);
    if (compiled.nanoseconds > kLong) return likely <= kRough * kCheapNanoseconds;
    return is_gap && likely < compiled.nanoseconds;
}

// The limit of what is left out of an exact gap: the bound must be so small beside the gap itself that the
// criterion of exact answers holds. Curves and rankings have gaps that are far smaller than what bounds are
// compared with.
double IndependentRow::exact_limit(const Job& job, const Accuracy& accuracy, const Cost& cost) {
    constexpr double kFewEntries = 1e4;   // leaving some out saves little
    constexpr double kMostCounted = 0.4;  // of the nodes: else a guess takes longer than it saves
    if (cost.route != Route::compiled || cost.method != Method::exact || job.question != Question::gap ||
        !job.is_whole_gap || accuracy.kind == Method::exact || cost.n_entries < kFewEntries ||
        compilation_.counted_share() > kMostCounted)
        return 0.0;
    RowCompilation::Totals totals;
    return compilation_.guess_limit(first_target(job, kExactShare), likely_, totals);
}

// Counts what is left at this limit: in some of the trees, unless that is near to what a row may take.
RowCompilation::Totals IndependentRow::count_pruned(const Job& job, double limit) {
    constexpr double kFar = 4.0;
    const auto roughly = compilation_.count(limit, kMostEntries, likely_, true);
    const auto cost = cost_of(roughly, job, limit, Method::pruned);
    if (kFar * cost.nanoseconds <= kMostNanoseconds && kFar * cost.bytes <= kMostBytes) return roughly;
    return compilation_.count(limit, kMostEntries, likely_);
}

// Leaves out as much as the tolerance allows.
Cost IndependentRow::decide_bounded(const Job& job, const Accuracy& accuracy) {
    find_main_effects();
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

// The cheapest way that keeps the promise.
Cost IndependentRow::decide_freely(const Job& job, const Accuracy& accuracy) {
    if (accuracy.kind == Method::exact && routes_.plan.empty()) return decide_exact(job, accuracy);
    const auto exact = exact_ways(job, accuracy);
    if (exact.cheap && is_exact_taken(*exact.cheap, job, accuracy)) return *exact.cheap;
    const auto other =
        accuracy.kind == Method::exact ? decide_exact(job, accuracy) : decide_bounded(job, accuracy);
    return exact.cheap && is_exact_worth_it(*exact.cheap, other) ? *exact.cheap : cheaper(other, exact.plan);
}

Cost IndependentRow::decide_as_forced(const Job& job, const Accuracy& accuracy) {
    if (accuracy.route == Route::pairs) return cost_by_pairs(job);
    if (accuracy.route == Route::plan && !routes_.plan.empty()) return by_plan(job);
    return accuracy.kind == Method::exact ? decide_exact(job, accuracy) : decide_bounded(job, accuracy);
}

Cost IndependentRow::decide(const Job& job, const Accuracy& accuracy) {
    auto cost = accuracy.is_forced ? decide_as_forced(job, accuracy) : decide_freely(job, accuracy);
    if (const double limit = exact_limit(job, accuracy, cost); limit > 0.0)
        cost = cost_of(compilation_.count(limit, kMostEntries, likely_), job, limit, Method::exact);
    refuse_too_much();
    if (!stopped()) refuse_too_costly(cost);  // counts that were stopped are not complete
    return cost;
}

// Main effects, whatever the accuracy; and the gap of each unit of several features.
Cost IndependentRow::cost_alone(const Job& job, const Accuracy& accuracy) {
    auto sum = compiled_cost(0.0, 0.0, false, {}, routes_.model, job);
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

Cost IndependentRow::cost(const Job& job, const Accuracy& accuracy) {
    tables_.open(job.features);
    forget_compilation();
    if (job.question == Question::single) return cost_alone(job, accuracy);
    return decide(job, job.question == Question::greedy ? of_scores(accuracy) : accuracy);
}

// ---- one try after the other ------------------------------------------------------------------------------

// The first way to try: like decide(), but a limit is guessed where decide() counts.
Cost IndependentRow::first_try(const Job& job, const Accuracy& accuracy) {
    if (accuracy.kind == Method::exact || (accuracy.is_forced && accuracy.route != Route::compiled))
        return decide(job, accuracy);
    const auto exact = exact_ways(job, accuracy);
    if (exact.cheap && is_exact_taken(*exact.cheap, job, accuracy)) {
        auto cost = *exact.cheap;
        cost.limit = exact_limit(job, accuracy, cost);
        return cost;
    }
    // Whatever is left out, it may not fit.
    if (!exact.cheap && exact.compiled.bytes > kMostBytes) return decide(job, accuracy);
    if (accuracy.kind == Method::pruned)
        return {Route::compiled, accuracy.kind, 0.0, 0.0, accuracy.tolerance};
    // Whether first places are exact is decided by the terms of the whole ranking.
    if (exact.cheap) {
        const auto likely = std::exchange(likely_, {});
        const auto whole = guess_bounded(job, accuracy);
        likely_ = likely;
        if (is_exact_worth_it(*exact.cheap, whole)) return *exact.cheap;
        if (!likely) return whole;
    }
    const auto bounded = cheaper(guess_bounded(job, accuracy), exact.plan);
    return accuracy.is_forced || bounded.nanoseconds <= kCheapNanoseconds
               ? bounded
               : cheaper(bounded, cost_by_pairs(job));
}

// Leaves out as much as a guess of the limit allows.
Cost IndependentRow::guess_bounded(const Job& job, const Accuracy& accuracy) {
    RowCompilation::Totals totals;
    const double limit = compilation_.guess_limit(first_target(job, accuracy.tolerance), likely_, totals);
    return cost_of(totals, job, limit, accuracy.kind);
}

// Features that no tree uses do not count.
double IndependentRow::n_moving(const Job& job) const {
    const auto& used = routes_.model.features;
    return static_cast<double>(
        std::count_if(used.begin(), used.end(), [&](int32_t q) { return job.features[q] != 0; }));
}

// After a bound that is `share` times what it may be: leave out less; or nothing, where there is little hope.
Cost IndependentRow::next_try(const Job& job, const Accuracy& accuracy, const Cost& last, double share,
                              int n_tries) {
    constexpr int kTries = 4;
    constexpr double kFar = 10.0, kWorthIt = 2e9;  // nanoseconds
    auto next = last;
    next.limit *= std::clamp(0.7 * std::pow(share, -1.1), 1e-6, 0.7);
    if (n_tries < kTries && share <= kFar) return next;
    const auto exact = decide_exact(job, accuracy);
    if (n_tries < kTries && std::isfinite(share) && exact.nanoseconds > kWorthIt) return next;
    refuse_too_much();
    if (!stopped()) refuse_too_costly(exact);
    return exact;
}

}  // namespace predgap
