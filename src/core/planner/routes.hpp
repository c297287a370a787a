// The parts that a model fixes for all of its rows: the trees, the terms of its plan, and its leaves for sums
// over pairs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/model.hpp"
#include "model/row_work.hpp"
#include "model/units.hpp"
#include "pairs/pairs.hpp"
#include "terms/plan.hpp"

namespace predgap {

struct Routes {
    Routes(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check);
    Routes(const Routes&) = delete;
    Routes& operator=(const Routes&) = delete;

    // A few rows made of thresholds and cells, (n, n_features), to price calls without data.
    std::vector<double> typical_rows(std::int32_t n) const;

    Model model;
    Units features;                           // each feature alone: what is ranked if nothing else is said
    std::vector<std::unique_ptr<Plan>> plan;  // one per group of trees, or none at all
    std::vector<Pairs> pairs;                 // one per output
    bool plan_is_cheap = false;               // whatever is asked: other routes are not even priced
    RowWork::Limits limits{};                 // of what a row takes; what it would take has limits of its own
    bool rows_are_short = false;              // whatever is asked: Ctrl-C is looked for between rows only
};

}  // namespace predgap
