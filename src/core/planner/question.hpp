// A question about a row, and the accuracy that its answer must have.
#pragma once

#include <array>
#include <cstdint>

#include "model/row_work.hpp"
#include "model/units.hpp"
#include "terms/compiler.hpp"
#include "terms/grid_choice.hpp"

namespace predgap {

// The ways in which an answer may be obtained, and the words for them; Python reads them from here.
enum class Route : std::uint8_t { plan, compiled, pairs };
constexpr std::array<const char*, 3> kRouteNames{"plan", "compiled", "pairs"};
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

// The question about a row, with the features (n_features) that move at all.
struct Question {
    enum Kind : std::uint8_t { gap, curve, greedy, single, subsets, examine, search, outcomes };

    Kind kind;
    const std::uint8_t* features;
    // The places of a curve or a ranking; of all subsets, the number of units; of an examination, that of the
    // curves beside a ranking.
    std::int32_t n_places = 0;
    const Units* units = nullptr;  // of curves and rankings
    bool by_pairs = true;          // true if sums over pairs of leaves can answer it
    // True if an answer is exact when its error is small beside the gap of these features; false for parts of
    // a gap, such as its variance, which may be far smaller.
    bool is_whole_gap = true;
    const std::int32_t* order = nullptr;  // of a curve: its units, n_places of them, if that is known
    Likely likely{};                      // of first places: the units that probably take them
};
constexpr std::array<const char*, 6> kQuestionNames{// of those that are priced by name
                                                    "gap", "curve", "greedy", "single", "subsets", "examine"};

// The limits of one row; a row that would take more is refused.
constexpr double kMostNanoseconds = RowWork::Limits{}.nanoseconds;
constexpr double kMostBytes = RowWork::Limits{}.bytes;

// Thrown where a row would cost more than it may.
struct TooCostly {
    double nanoseconds, bytes;
    std::int64_t row = -1;
};

}  // namespace predgap
