// The planner: the way in which a question about a row is answered, and what it costs. It follows from counts
// of the model, the noise, the row and the question alone: never from a clock, other rows or threads. An
// answer and its cost ask the same function, `choose`.
//
// There are three routes. The *plan* has the terms of all possible rows, laid out when the model was loaded;
// small models have one. *Compiled* terms are made for the row; small ones may be left out, with a bound of
// the error. *Pairs* of leaves are summed gap by gap, which pays for deep trees if few features move.
//
// The choice, in this order (all numbers are in constants.hpp):
//   1. the plan, without a price, if whatever is asked of it is short;
//   2. exactly: the cheapest of plan, compiled terms and pairs, if it takes at most `kCheap`. The plan is
//      compared with compiled terms by a look at some trees. Where the answer may be inexact, a curve or a
//      ranking above `kShort` is exact only if that takes at most `kWorthIt` times what 3 takes;
//   3. inexactly, if the tolerance allows it: compiled terms without what the tolerance allows, or the plan
//      or pairs where these are cheaper;
//   4. if it must be exact: the cheapest of the three, whatever it takes.
// The first places of a ranking are answered from terms with at most one unit that is not likely to be among
// them. If the bound that comes with an answer is too large, `choose_again` leaves out less. What takes more
// than a row may is refused by its caller.
#pragma once

#include "planner/counts.hpp"

namespace predgap {

// A way to an answer.
struct Way {
    Route route = Route::plan;
    Method method = Method::exact;
    double limit = 0.0;      // of what may be left out of a compilation; see Pruning
    double n_entries = 0.0;  // of a compilation
    Workload work{};
    double nanoseconds = 0.0, bytes = 0.0;  // infinite where a count did not end
    bool is_priced = false;
    bool is_counted = false;  // true if it is known, not guessed, whether it is within the limits

    bool fits() const { return nanoseconds <= kMostNanoseconds && bytes <= kMostBytes; }
};

// Chooses the way. Where no other is looked at, it has no price yet.
Way choose(RowCounts& counts, const Question& question, const Accuracy& accuracy);
// The next way, after one whose bound is `share` times what it may be: leaves out less, or nothing.
Way choose_again(RowCounts& counts, const Question& question, const Accuracy& accuracy, const Way& last,
                 double share, int n_tries);
// Finds the price of the way that was chosen.
void set_price(RowCounts& counts, const Question& question, Way& way);

// Whether the first places of a ranking are answered from terms of likely units, which a coarse ranking
// names.
bool needs_likely_units(RowCounts& counts, Question question, const Accuracy& accuracy);
// The way of that coarse ranking, with its price if its terms are known.
Way coarse_ranking();
Way compiled_way(RowCounts& counts, const Question& question, const RowCompilation::Totals& totals,
                 double limit, Method method);

// Throws TooCostly if the way has a price beyond the limits. What was not counted to its end takes at least
// these.
void refuse_too_costly(const Way& way);

}  // namespace predgap
