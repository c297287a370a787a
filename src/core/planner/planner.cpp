#include "planner/planner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace predgap {

using std::int32_t;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Way priced(Route route, const Price& price) {
    Way way{
        .route = route, .work = price.work, .nanoseconds = price.work.nanoseconds(), .bytes = price.bytes};
    way.is_priced = true;
    return way;
}

// A way that is not asked. It is not the plan, for there may be none, and counts that were stopped are
// infinite, too.
Way impossible(Route route = Route::compiled) {
    return {.route = route, .nanoseconds = kInfinity, .bytes = kInfinity, .is_priced = true};
}

const Way& cheaper(const Way& a, const Way& b) {
    const auto has_room = [](const Way& way) { return way.bytes <= kMostBytes; };
    if (has_room(a) != has_room(b)) return has_room(a) ? a : b;
    return a.nanoseconds <= b.nanoseconds ? a : b;
}

Way by_plan(RowCounts& counts, const Question& question) {
    return priced(Route::plan, counts.plan(question));
}

Way by_pairs(RowCounts& counts, const Question& question) {
    if (!question.by_pairs) return impossible(Route::pairs);
    return priced(Route::pairs, counts.pairs(question));
}

// A cheap exact answer may be taken whatever another one would take. Curves and rankings that are not short
// are compared with it; exact gaps hardly take longer.
bool is_exact_taken(const Way& exact, const Question& question, const Accuracy& accuracy) {
    return accuracy.kind == Method::exact || question.kind == Question::gap ||
           exact.nanoseconds <= rule::kShort;
}
bool is_exact_worth_it(const Way& exact, const Way& other) {
    return exact.nanoseconds <= rule::kWorthIt * other.nanoseconds;
}

// Says whether the plan takes less than compiling the row. Where the fewest entries that a row may have do
// not tell, a look at some of the trees does, which takes a small part of the plan's time.
bool plan_is_best(RowCounts& counts, const Question& question, const Way& plan) {
    const auto& model = counts.model();
    if (counts.routes().plan_is_cheap) return true;
    if (plan.nanoseconds > rule::kCheap) return false;
    const double n_entries = typical::kEntriesOfTerm * counts.lively_terms(question).terms;
    const auto least = price_of_compiling(n_entries, least_nodes(model), false,
                                          counts.compiled_terms(n_entries, false, question), model, question);
    if (plan.nanoseconds <= least.work.nanoseconds()) return true;
    const double n_trees = trees_within(plan.nanoseconds, counts.n_moving(question), model);
    if (rule::kMostLook * n_trees < rule::kFewTrees) return true;
    const auto totals = counts.look(std::max(rule::kLookOfPlan * n_trees, rule::kFewTrees));
    return plan.nanoseconds <= compiled_way(counts, question, totals, 0.0, Method::exact).nanoseconds;
}

// The gaps that an answer by pairs consists of, if so many features move.
double gaps_by_pairs(const Question& question, double n_moving) {
    const double n_places = std::min<double>(question.n_places, n_moving);
    switch (question.kind) {
        case Question::gap: return 1.0;
        case Question::greedy: return 0.5 * n_places * n_places;
        case Question::examine: return (0.5 * n_moving + question.n_places) * n_moving;
        default: return n_places;
    }
}

// Sums over pairs of leaves may be short if few features move. What they take is found by walks, which are
// worth it if it could be less than what compiled terms take, or cheap, with as many leaves as the nodes that
// a walk comes to make likely.
bool are_pairs_worth_asking(const RowCounts& counts, const Question& question, double n_nodes,
                            const Way& compiled) {
    const double n_moving = counts.n_moving(question);
    if (!question.by_pairs || n_moving > rule::kFewFeatures) return false;
    const bool is_gap = question.kind == Question::gap;
    const double n_gaps = gaps_by_pairs(question, n_moving);
    const auto n_groups = static_cast<double>(counts.model().group.size());
    const auto of_gap = work_of_gap_by_pairs(Pairs::work(typical::kLeavesOfNode * n_nodes / n_groups,
                                                         trees_of(counts.model()) / n_groups, n_moving));
    const double likely = n_gaps * static_cast<double>(counts.routes().pairs.size()) * of_gap.nanoseconds();
    if (compiled.nanoseconds > rule::kLongBesideWalks) return likely <= rule::kRoughPairs * rule::kCheap;
    return is_gap && likely < compiled.nanoseconds;
}

// The ranking of all units of which the first places are asked; other questions stay as they are.
Question whole_ranking(Question question) {
    if (question.kind == Question::greedy) question.n_places = question.units->size();
    question.likely = {};
    return question;
}

// The exact ways, and the one to take if it is cheap; infinite where one is not asked. All terms count, also
// where only the first places are asked for: they are as exact as a whole ranking.
struct ExactWays {
    Way plan = impossible(), compiled = impossible();
    std::optional<Way> cheap;
};
ExactWays exact_ways(RowCounts& counts, const Question& asked, const Accuracy& accuracy) {
    const auto question = whole_ranking(asked);
    ExactWays ways;
    if (!counts.routes().plan.empty() && !accuracy.is_forced) ways.plan = by_plan(counts, question);
    const bool is_plan_cheap = ways.plan.nanoseconds <= rule::kCheap;
    if (is_plan_cheap) ways.cheap = ways.plan;
    // A few trees are enough to tell that the plan is taken, not to compare with a bounded answer.
    if (is_plan_cheap && is_exact_taken(ways.plan, question, accuracy) &&
        plan_is_best(counts, question, ways.plan))
        return ways;
    const auto totals = counts.look(kInfinity);
    ways.compiled = compiled_way(counts, question, totals, 0.0, Method::exact);
    if (accuracy.is_forced) return ways;
    auto pairs = impossible(Route::pairs);
    if (are_pairs_worth_asking(counts, question, totals.n_nodes, ways.compiled))
        pairs = by_pairs(counts, question);
    const auto best = cheaper(ways.compiled, pairs);
    if (is_plan_cheap)
        ways.cheap = cheaper(ways.plan, best);
    else if (rule::kUnsure * best.nanoseconds <= rule::kCheap)
        ways.cheap = best;
    return ways;
}

// Takes compiled terms, or pairs where these are cheaper.
Way exactly_without_plan(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    const auto totals = counts.count(0.0, question, true);
    const auto compiled = compiled_way(counts, question, totals, 0.0, Method::exact);
    if (accuracy.is_forced || compiled.nanoseconds <= rule::kCheap) return compiled;
    return cheaper(compiled, by_pairs(counts, question));
}

// The limit of what is left out of an exact gap: the bound must be so small beside the gap itself that the
// criterion of exact answers holds. Curves and rankings have gaps that are far smaller than what bounds are
// compared with.
double limit_of_exact(RowCounts& counts, const Question& question, const Accuracy& accuracy, const Way& way) {
    if (way.route != Route::compiled || way.method != Method::exact || question.kind != Question::gap ||
        !question.is_whole_gap || accuracy.kind == Method::exact || way.n_entries < rule::kFewEntries ||
        counts.counted_share() > rule::kMostCounted)
        return 0.0;
    double limit = 0.0;
    counts.guess_limit(counts.target(question, rule::kExactShare), question, limit);
    return limit;
}

Way with_exact_limit(RowCounts& counts, const Question& question, const Accuracy& accuracy, Way way) {
    if (const double limit = limit_of_exact(counts, question, accuracy, way); limit > 0.0) {
        way.limit = limit;
        way.is_priced = false;
    }
    return way;
}

bool is_near_limits(const Way& way) {
    return rule::kFarFromLimit * way.nanoseconds > kMostNanoseconds ||
           rule::kFarFromLimit * way.bytes > kMostBytes;
}

// Counts what is left at this limit: in some of the trees, unless that is near to what a row may take. Where
// the bound says nothing at all, experience does not either: then the price is infinite, and `approximate`
// samples, unless pruned terms were asked for by name.
Way pruned_at(RowCounts& counts, const Question& question, double limit) {
    auto totals = counts.count(limit, question, true);
    auto way = compiled_way(counts, question, totals, limit, Method::pruned);
    if (is_near_limits(way)) {
        totals = counts.count(limit, question, false);
        way = compiled_way(counts, question, totals, limit, Method::pruned);
    }
    if (totals.bound > rule::kHopeless * counts.scale() * counts.scale())
        way.nanoseconds = way.bytes = kInfinity;
    return way;
}

// Leaves out as much as a guess of the limit allows. Where that is near to what a row may take, all trees are
// counted: too many entries are refused, for less may not be left out.
Way bounded_by_guess(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    double limit = 0.0;
    const auto totals = counts.guess_limit(counts.target(question, accuracy.tolerance), question, limit);
    const auto guessed = compiled_way(counts, question, totals, limit, Method::bounded);
    if (!is_near_limits(guessed)) return guessed;
    const auto counted = counts.count(limit, question, false);
    auto way = compiled_way(counts, question, counted, limit, Method::bounded);
    way.may_refuse = !counted.complete;
    return way;
}

// Leaves out as much as the tolerance allows, by counts of all trees; or takes pairs where these are cheaper.
Way as_promised_by_count(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    Way way;
    if (accuracy.kind == Method::pruned) {
        way = pruned_at(counts, question, accuracy.tolerance);
        if (way.fits()) return way;
    } else {
        double limit = 0.0;
        const auto totals = counts.find_limit(counts.target(question, accuracy.tolerance), question, limit);
        way = compiled_way(counts, question, totals, limit, Method::bounded);
    }
    if (accuracy.is_forced || way.nanoseconds <= rule::kCheap) return way;
    return cheaper(way, by_pairs(counts, question));
}

// Leaves out what the tolerance says, or what a guess allows.
Way as_promised(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    if (accuracy.kind == Method::bounded) return bounded_by_guess(counts, question, accuracy);
    return {.route = Route::compiled, .method = Method::pruned, .limit = accuracy.tolerance};
}

// The choice if an answer may be inexact.
Way choose_inexact(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    const auto exact_way = exact_ways(counts, question, accuracy);
    if (exact_way.cheap && is_exact_taken(*exact_way.cheap, question, accuracy))
        return with_exact_limit(counts, question, accuracy, *exact_way.cheap);
    // The plan at the price of what is asked; that of the exact ways is of a whole ranking.
    const bool has_plan = !counts.routes().plan.empty() && !accuracy.is_forced;
    const auto plan = has_plan ? by_plan(counts, question) : impossible();
    // Whatever is left out, it may not fit.
    if (!exact_way.cheap && exact_way.compiled.bytes > kMostBytes) {
        auto way = cheaper(as_promised_by_count(counts, question, accuracy), plan);
        way.may_refuse = true;
        return way;
    }
    // Whether first places are exact is decided by what the whole ranking takes.
    if (exact_way.cheap) {
        const auto whole = whole_ranking(question);
        auto other = as_promised(counts, whole, accuracy);
        set_price(counts, whole, other);
        if (is_exact_worth_it(*exact_way.cheap, other)) return *exact_way.cheap;
        if (!question.likely) return other;
    }
    if (accuracy.kind == Method::pruned) return as_promised(counts, question, accuracy);
    const auto bounded = cheaper(as_promised(counts, question, accuracy), plan);
    if (accuracy.is_forced || bounded.nanoseconds <= rule::kCheap) return bounded;
    return cheaper(bounded, by_pairs(counts, question));
}

Way choose_exact(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    if (counts.routes().plan.empty()) return exactly_without_plan(counts, question, accuracy);
    const auto ways = exact_ways(counts, question, accuracy);
    if (ways.cheap) return *ways.cheap;
    return cheaper(exactly_without_plan(counts, question, accuracy), by_plan(counts, question));
}

Way choose_as_forced(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    if (accuracy.route == Route::pairs) return by_pairs(counts, question);
    if (accuracy.route == Route::plan) return by_plan(counts, question);
    if (accuracy.kind == Method::exact) return exactly_without_plan(counts, question, accuracy);
    return choose_inexact(counts, question, accuracy);
}

}  // namespace

Way compiled_way(RowCounts& counts, const Question& question, const RowCompilation::Totals& totals,
                 double limit, Method method) {
    const bool is_pruned = limit > 0.0;
    const double n_entries = is_pruned ? totals.n_entries : counts.not_negligible(totals);
    const auto terms = counts.compiled_terms(n_entries, is_pruned, question);
    auto way = priced(Route::compiled, price_of_compiling(n_entries, totals.n_nodes, is_pruned, terms,
                                                          counts.model(), question));
    if (!totals.complete || (!is_pruned && counts.has_overflowed())) way.nanoseconds = way.bytes = kInfinity;
    way.n_entries = n_entries;
    way.limit = limit;
    way.method = method;
    return way;
}

Way choose(RowCounts& counts, const Question& question, const Accuracy& accuracy) {
    if (counts.routes().plan_is_cheap && !accuracy.is_forced) return {.route = Route::plan};
    const bool is_exact = accuracy.kind == Method::exact;
    auto way = accuracy.is_forced ? choose_as_forced(counts, question, accuracy)
               : is_exact         ? choose_exact(counts, question, accuracy)
                                  : choose_inexact(counts, question, accuracy);
    // Exact ways are compared by what a whole ranking takes; the first places have a price of their own.
    const bool is_part = question.kind == Question::greedy && question.n_places < question.units->size();
    if (is_part && way.method == Method::exact && way.fits()) way.is_priced = false;
    way.may_refuse |= is_exact || (accuracy.is_forced && accuracy.route != Route::compiled);
    return way;
}

Way choose_again(RowCounts& counts, const Question& question, const Accuracy& accuracy, const Way& last,
                 double share, int n_tries) {
    auto next = last;
    next.limit *= rule::smaller_limit(share);
    if (n_tries < rule::kTries && share <= rule::kFarOff) return next;
    auto exact = exactly_without_plan(counts, question, accuracy);
    if (n_tries < rule::kTries && std::isfinite(share) && exact.nanoseconds > rule::kLongExact) return next;
    exact.may_refuse = true;
    return exact;
}

void set_price(RowCounts& counts, const Question& question, Way& way) {
    if (way.is_priced) return;
    const bool may_refuse = way.may_refuse;
    if (way.route == Route::plan) {
        way = by_plan(counts, question);
    } else if (way.route == Route::pairs) {
        way = by_pairs(counts, question);
    } else if (way.method == Method::pruned) {
        way = pruned_at(counts, question, way.limit);
    } else {
        const auto totals = counts.count(way.limit, question, false);
        way = compiled_way(counts, question, totals, way.limit, way.method);
    }
    way.may_refuse = may_refuse;
}

// ---- the first places of a ranking -----------------------------------------------------------------------

bool needs_likely_units(RowCounts& counts, const Question& asked, const Accuracy& accuracy) {
    const auto question = whole_ranking(asked);  // where that is cheap, so are its first places
    if (accuracy.kind == Method::pruned && accuracy.tolerance >= rule::kAlmostCoarse) return false;
    if (accuracy.is_forced && accuracy.route == Route::pairs) return false;
    const bool may_plan =
        !counts.routes().plan.empty() && !(accuracy.is_forced && accuracy.route != Route::plan);
    return !may_plan ||
           !(counts.routes().plan_is_cheap || by_plan(counts, question).nanoseconds <= rule::kCheap);
}

void refuse_too_costly(const Way& way) {
    if (!way.is_priced || way.fits()) return;
    const auto known = [](double found, double limit) {
        return std::isfinite(found) ? found : std::nextafter(limit, kInfinity);
    };
    throw TooCostly{known(way.nanoseconds, kMostNanoseconds), known(way.bytes, kMostBytes)};
}

}  // namespace predgap
