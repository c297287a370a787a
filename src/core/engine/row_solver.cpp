#include "engine/row_solver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "simd/kernels.hpp"

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

Accuracy of_scores(Accuracy accuracy) {
    if (accuracy.kind == Method::bounded) accuracy.tolerance *= 0.5;
    return accuracy;
}

RowSolver::RowSolver(const Routes& routes, const NoiseLaws& laws)
    : routes_(routes),
      tables_(routes.model, laws),
      compilation_(routes.model),
      plan_scratch_(routes.plan.size()),
      states_(routes.model.group.size()),
      subset_(n_features()) {}

void RowSolver::load(const RawRow& row, const std::atomic<bool>& stop) {
    tables_.load(row);
    stop_ = pairs_.stop = &stop;
    forget_compilation();
    likely_ = {};
}

// ---- which way -------------------------------------------------------------------------------------------

void RowSolver::forget_compilation() { is_compilation_loaded_ = exact_overflows_ = false; }

void RowSolver::load_compilation() {
    if (!is_compilation_loaded_) compilation_.load(tables_, *stop_);
    is_compilation_loaded_ = true;
}

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

void RowSolver::set_subset(const FeatureList& features, uint8_t flag) {
    for (const auto q : features) subset_[static_cast<std::size_t>(q)] = flag;
}

Cost RowSolver::cost(const Job& job, const Accuracy& accuracy) {
    tables_.open(job.features);
    forget_compilation();
    if (job.question == Question::single) return cost_alone(job, accuracy);
    return decide(job, job.question == Question::greedy ? of_scores(accuracy) : accuracy);
}

// ---- terms in place --------------------------------------------------------------------------------------

// Returns the bound of what is left out; infinite if even so there is too much.
double RowSolver::prepare(const Cost& cost, const Units* ranked, double most_entries, int32_t n_steps) {
    uses_plan_ = cost.route == Route::plan;
    left_out_ = {};
    if (uses_plan_) {
        prepare_plan(ranked, n_steps);
        return 0.0;
    }
    load_compilation();
    const auto totals = compilation_.compile(cost.limit, most_entries, states_, likely_);
    if (!totals.complete) return kInfinity;
    for (std::size_t g = 0; g < states_.size(); ++g)
        states_[g].prepare(compilation_.terms(g), tables_, *stop_, ranked, cell_rule_, n_steps);
    left_out_ = totals;  // nothing, at a limit of 0
    return left_out_.bound;
}

void RowSolver::prepare_plan(const Units* ranked, int32_t n_steps) {
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const auto& plan = *routes_.plan[g];
        plan.spread(tables_, plan_scratch_[g], states_[g].weight);
        states_[g].prepare(plan.terms(), tables_, *stop_, ranked, CellRule::cheapest, n_steps);
    }
}

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

Answer RowSolver::answer(const Job& job, const Accuracy& accuracy, const Evaluate& evaluate) {
    cell_rule_ = accuracy.cell_rule;
    auto cost = routes_.plan_is_cheap && !accuracy.is_forced ? Cost{Route::plan} : first_try(job, accuracy);
    for (int n_tries = 1;; ++n_tries) {
        double bound = 0.0;
        const double value = evaluate(cost, bound);
        const bool is_exact = cost.method == Method::exact;
        const bool is_met = bound == 0.0 || cost.method == Method::pruned ||
                            bound <= (is_exact ? kExactShare : accuracy.tolerance) * value;
        if ((is_met && std::isfinite(bound)) || stopped()) return {is_exact ? 0.0 : bound, cost.method};
        if (is_exact && std::isfinite(bound)) {  // too much was left out
            cost.limit = 0.0;
            continue;
        }
        if (is_exact) {  // there are more entries than were counted on
            exact_overflows_ = true;
            cost = first_try(job, accuracy);
            continue;
        }
        const double share = value > 0.0 ? bound / (accuracy.tolerance * value) : kInfinity;
        cost = next_try(job, accuracy, cost, share, n_tries);
    }
}

// ---- gaps and curves -------------------------------------------------------------------------------------

double RowSolver::gap_by_terms() {
    double sum = 0.0;
    for (auto& state : states_) sum += kernels().gap(state);
    return std::max(sum, 0.0);
}

Pairs::Result RowSolver::gap_by_pairs(const uint8_t* subset) {
    tables_.open(subset);
    Pairs::Result sum{0.0, 0.0};
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs.gap(pairs_, tables_);
        sum.gap += own.gap;
        sum.error_scale += own.error_scale;
    }
    return sum;
}

Answer RowSolver::gap(const uint8_t* subset, const Accuracy& accuracy, double& value) {
    tables_.open(subset);
    forget_compilation();
    return answer({Question::gap, subset, 0, nullptr}, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) return value = gap_by_pairs(subset).gap;
        bound = prepare(cost, nullptr);
        return value = std::isfinite(bound) ? gap_by_terms() : 0.0;
    });
}

double RowSolver::curve_by_terms(const Units& units, const int32_t* order, int32_t n_places, double* gaps) {
    std::fill_n(gaps, n_places, 0.0);
    for (auto& state : states_) {
        state.prepare_curve();
        kernels().curve(state, units, order, n_places, gaps);
    }
    double total = 0.0;
    for (int32_t i = 0; i < n_places; ++i) total += gaps[i] = std::max(gaps[i], 0.0);
    return total / std::max(n_places, 1);
}

double RowSolver::curve_by_pairs(const Units& units, const int32_t* order, int32_t n_places, double* gaps) {
    double total = 0.0;
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int32_t i = 0; i < n_places && !stopped(); ++i) {
        set_subset(units.members(order[i]), 1);
        total += gaps[i] = gap_by_pairs(subset_.data()).gap;
    }
    return total / std::max(n_places, 1);
}

Answer RowSolver::curve(const Units& units, const int32_t* order, int32_t n_places, const Accuracy& accuracy,
                        double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < n_places; ++i)
        for (const auto q : units.members(order[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    const Job job{.question = Question::curve,
                  .features = features.data(),
                  .n_places = n_places,
                  .units = &units,
                  .order = order};
    return answer(job, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) return curve_by_pairs(units, order, n_places, gaps);
        bound = prepare(cost, nullptr, kMostEntries, n_places);
        return std::isfinite(bound) ? curve_by_terms(units, order, n_places, gaps) : 0.0;
    });
}

// ---- all subsets -----------------------------------------------------------------------------------------

void RowSolver::subsets_by_terms(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    const auto n = int64_t{1} << m;
    std::fill_n(gaps, n, 0.0);
    try {
        for (auto& state : states_) subset_gaps_.add(state, units, chosen, m, gaps);
    } catch (const SubsetGaps::TooManyParts& found) {
        throw TooCostly{kMostNanoseconds, std::max(found.bytes, kMostBytes)};
    }
    for (int64_t i = 0; i < n; ++i) gaps[i] = std::max(gaps[i], 0.0);
}

void RowSolver::subsets_by_pairs(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    for (int64_t subset = 0; subset < int64_t{1} << m && !stopped(); ++subset) {
        std::fill(subset_.begin(), subset_.end(), 0);
        for (int32_t i = 0; i < m; ++i)
            if (subset >> i & 1) set_subset(units.members(chosen[i]), 1);
        gaps[subset] = gap_by_pairs(subset_.data()).gap;
    }
}

Answer RowSolver::subset_gaps(const Units& units, const int32_t* chosen, int32_t m, const double* share,
                              const Accuracy& accuracy, double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < m; ++i)
        for (const auto q : units.members(chosen[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    std::vector<double> weight(static_cast<std::size_t>(m) + 1);  // of each subset of a size
    double n_of_size = 1.0;
    for (int32_t size = 0; size <= m; n_of_size *= static_cast<double>(m - size) / (size + 1.0), ++size)
        weight[static_cast<std::size_t>(size)] = share[size] / n_of_size;
    return answer({Question::subsets, features.data(), m, &units}, accuracy,
                  [&](const Cost& cost, double& bound) {
                      if (cost.route == Route::pairs) {
                          subsets_by_pairs(units, chosen, m, gaps);
                          return 0.0;
                      }
                      bound = prepare(cost, nullptr);
                      if (!std::isfinite(bound)) return 0.0;
                      subsets_by_terms(units, chosen, m, gaps);
                      double sum = 0.0;
                      for (std::uint32_t s = 0; s < std::uint32_t{1} << m; ++s)
                          sum += weight[static_cast<std::size_t>(std::popcount(s))] * gaps[s];
                      return sum;
                  });
}

void RowSolver::moving_units(const Units& units, uint8_t* moving) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    std::fill_n(moving, units.size(), uint8_t{0});
    const auto& model = routes_.model;
    const auto is_reached = [&](int32_t first, int32_t last) {
        return std::any_of(tables_.shift.data() + first, tables_.shift.data() + last,
                           [](double shift) { return shift != 0.0; });
    };
    for (const auto q : model.features)
        if (tables_.is_open[q] && (is_reached(model.atoms.begin[q], model.atoms.begin[q + 1]) ||
                                   is_reached(model.set_atoms.begin[q], model.set_atoms.begin[q + 1])))
            moving[units.of(q)] = 1;
}

void RowSolver::mean_change(const uint8_t* subset, double* change) {
    tables_.open(subset);
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k)
        change[k] = routes_.pairs[k].mean_change(pairs_, tables_);
}

}  // namespace predgap
