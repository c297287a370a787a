// The planner: the way in which a question about a row is answered, and what it costs. It follows from counts
// of the model, the noise, the row and the question alone: never from a clock, other rows or threads. An
// answer and its cost ask the same function, `choose`.
//
// There are three routes. The *plan* has the terms of all possible rows, laid out when the model was loaded;
// small models have one. *Compiled* terms are made for the row; small ones may be left out, with a bound of
// the error. *Pairs* of leaves are summed gap by gap, which pays for deep trees if few features move.
//
// `choose` goes through the following, with the numbers of constants.hpp:
//   1. A plan that answers any question within `kAlwaysPlan` is taken without a price
//   (Routes::plan_is_cheap).
//   2. An exact way of at most `kCheap` is taken: the cheapest of plan, compiled terms (if `kUnsure` times
//      their price is cheap, where the plan is not) and pairs (if few features move, and a guess says that
//      they may be cheap). Where the accuracy is bounded or pruned, a curve or a ranking of more than
//      `kShort` must also take at most `kWorthIt` times what 3 takes. A gap that is said to be exact may
//      leave out `kExactShare` of itself.
//   3. A bounded answer takes compiled terms at a guessed limit, or the plan or pairs if these are cheaper. A
//      pruned answer takes compiled terms at its own limit; other ways only if these do not fit.
//   4. An exact answer takes the cheapest of the three, whatever it takes.
// Accuracy comes from Python: rtol=0 is exact, rtol > 0 bounded, approximate() pruned at rtol / 150. Models
// of more than Plan::kMostEntries entries have no plan.
//
// First places: if no plan answers the whole ranking within `kCheap`, IndependentRow::likely_features makes a
// coarse ranking, and `choose` is asked with the units that it names (Question::likely). If the bound that
// comes with an answer is too large, `choose_again` leaves out less. What takes more than a row may is
// refused by the caller.
#pragma once

#include "planner/counts.hpp"

namespace predgap {

// A way in which an answer may be obtained.
struct Way {
    Route route = Route::plan;
    Method method = Method::exact;
    double limit = 0.0;      // of what may be left out of a compilation; see Pruning
    double n_entries = 0.0;  // of a compilation
    Workload work{};
    double nanoseconds = 0.0, bytes = 0.0;  // infinite where a count did not end
    bool is_priced = false;
    bool may_refuse = false;  // true if the answer is refused where the price is beyond the limits

    bool fits() const { return nanoseconds <= kMostNanoseconds && bytes <= kMostBytes; }
};

// Chooses the way. It may have no price yet; `set_price` finds it.
Way choose(RowCounts& counts, const Question& question, const Accuracy& accuracy);
// The next way, after one whose bound is `share` times what it may be: leaves out less, or nothing.
Way choose_again(RowCounts& counts, const Question& question, const Accuracy& accuracy, const Way& last,
                 double share, int n_tries);
// Finds the price of the way that was chosen.
void set_price(RowCounts& counts, const Question& question, Way& way);

// Whether the first places of a ranking are answered from terms of likely units, which a coarse ranking
// names.
bool needs_likely_units(RowCounts& counts, const Question& question, const Accuracy& accuracy);
// The way of compiled terms, with the price of what was counted of them.
Way compiled_way(RowCounts& counts, const Question& question, const RowCompilation::Totals& totals,
                 double limit, Method method);

// Throws TooCostly if the way has a price beyond the limits. What was not counted to its end takes at least
// these.
void refuse_too_costly(const Way& way);

}  // namespace predgap
