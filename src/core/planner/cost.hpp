// The cost of an answer about one row, from counts, and the limits that no row may exceed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/row_work.hpp"
#include "model/units.hpp"
#include "pairs/pairs.hpp"
#include "terms/compiler.hpp"
#include "terms/plan.hpp"
#include "terms/set_factors.hpp"

namespace predgap {

enum class Question : std::uint8_t { gap, curve, greedy, single, subsets, search, outcomes };
constexpr std::array<const char*, 5> kQuestionNames{// of those that are priced by name
                                                    "gap", "curve", "greedy", "single", "subsets"};
enum class Route : std::uint8_t { plan, compiled, pairs };

// The ways in which an answer may be obtained, and the words for them; Python reads them from here.
enum class Method : std::uint8_t { exact, bounded, pruned };
constexpr std::array<const char*, 3> kMethodNames{"exact", "bounded", "pruned"};

// The accuracy that is promised of an answer.
struct Accuracy {
    Method kind = Method::exact;
    double tolerance = 0.0;  // bounded: of the answer; pruned: of the row's scale
    bool is_forced = false;  // to take this route, for tests and benchmarks
    Route route = Route::plan;
    CellRule cell_rule = CellRule::cheapest;
};

struct Cost {
    Route route = Route::plan;
    Method method = Method::exact;
    double nanoseconds = 0.0, bytes = 0.0;
    double limit = 0.0;      // of what may be left out; see Pruning
    double n_entries = 0.0;  // of a compilation
};

// The limits of one row; a row that would take more is refused.
constexpr double kMostNanoseconds = RowWork::Limits{}.nanoseconds;
constexpr double kMostBytes = RowWork::Limits{}.bytes;
constexpr double kCheapNanoseconds = 50e6;  // of a row: up to this an answer is exact

constexpr double kExactShare = 1e-13;  // of a gap: what is left out of one that is said to be exact

// Thrown where a row would cost more than it may.
struct TooCostly {
    double nanoseconds, bytes;
    std::int64_t row = -1;
};

// The question about a row: the features (n_features) that move at all, and how many units of them are
// ranked.
struct Job {
    Question question;
    const std::uint8_t* features;
    std::int32_t n_places;  // or, of all subsets, of how many units
    const Units* units;     // of curves and rankings
    bool by_pairs = true;   // true if sums over pairs of leaves can answer it
    // True if an answer is exact when its error is small beside the gap of these features; false for parts of
    // a gap, such as its variance, which may be far smaller.
    bool is_whole_gap = true;
    const std::int32_t* order = nullptr;  // of a curve: its units, n_places of them, if that is known
};

// The cost of each route, by counts.
Cost plan_cost(const Plan& plan, const EvaluationCounts& moving, const Model& model, const Job& job);
Cost compiled_cost(double n_entries, double n_nodes, bool is_pruned, const EvaluationCounts& terms,
                   const Model& model, const Job& job);
double pairs_nanoseconds(const Pairs::Work& work);  // of one gap
// order: of curves and rankings the units that move, as they will come.
Cost pairs_cost(const Pairs& pairs, const Job& job, const std::vector<std::int32_t>& order,
                const RowTables& row);

// The counts of the terms that so many entries make: as a rule, if n_moving features move; or if the plans of
// all rows have these on them.
EvaluationCounts typical_terms(double n_entries, double n_moving, bool is_pruned, const Model& model,
                               const Job& job);
EvaluationCounts terms_of_plan(double n_entries, const EvaluationCounts& plan);
double trees_of(const Model& model);
// The number of nodes that a walk of a row comes to, if hardly a feature moves.
double least_nodes(const Model& model);
// The number of entries of a compilation that takes so long, at least.
double entries_within(double nanoseconds);
// The number of trees that a walk looks at in that time, if so many features move.
double trees_within(double nanoseconds, double n_moving, const Model& model);

}  // namespace predgap
