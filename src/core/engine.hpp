// Exact gaps, curves and rankings of many rows, by either strategy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "costs.hpp"
#include "ensemble.hpp"
#include "kernels.hpp"
#include "pairs.hpp"
#include "plan.hpp"
#include "sampling.hpp"
#include "walks.hpp"

namespace predgap {

enum class Strategy { terms, pairs };

// What a worker needs memory for; each includes the ones before it.
enum class Purpose { tables, gap, nested, ranking };

// What is asked of every row. All arrays are row-major and outlive the call.
struct Request {
    std::int64_t n_rows;
    const double* x;            // (n_rows, n_features) cast as the model casts them, or cells; NaN is missing
    const Law* law;             // (n_features)
    const double* parameter;    // (n_features) scale or half-width
    const double* table_below;  // (n_rows, thresholds) for features with Law::table, else null
    const double* table_above;
    const CategoryNoise* categories;  // null if all features are numeric
    int n_threads;
    std::function<bool(std::int64_t)> poll;  // told the rows done; false stops
};

// One array of n_features per row, or one for all.
template <class T>
struct PerRow {
    const T* data;
    bool shared;
    const T* row(std::int64_t r, std::int64_t width) const { return shared ? data : data + r * width; }
};

// Points of the unit cube, one coordinate per feature of the subset, ascending.
struct Points {
    const double* data;  // (n_sets, n_points, n_columns): one set for all rows, or one per row
    bool shared;
    std::int64_t n_points;
    std::int32_t n_columns;
    std::span<const std::int64_t> stretch_end;  // ascending; the last is n_points
};

class Engine {
public:
    explicit Engine(std::int32_t n_features, std::vector<std::int32_t> root,
                    std::vector<std::int32_t> feature, std::vector<double> threshold,
                    std::vector<std::int32_t> left, std::vector<std::int32_t> right,
                    std::vector<std::uint8_t> default_left, std::vector<double> value,
                    std::vector<std::int32_t> category_set, const LevelSets& sets, const Stop& stop);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const EnsembleView& ensemble() const { return view_; }
    const Atoms& atoms() const { return atoms_; }
    const Cells& cells() const { return cells_; }
    const SetAtoms& set_atoms() const { return set_atoms_; }
    const std::vector<bool>& set_pairs() const;
    bool has_plan() const { return plan_ != nullptr; }

    // Estimated from counts alone; `perturbed` is one subset, (n_features).
    Counts counts(const std::uint8_t* perturbed) const;
    Cost cost(const std::uint8_t* perturbed) const;

    // False if stopped. out: (n_rows).
    bool gap(const Request& r, Strategy s, PerRow<std::uint8_t> subset, double* out) const;
    // out: (n_rows, n_features), gaps of the prefixes of each row's order.
    bool curve(const Request& r, Strategy s, PerRow<std::int32_t> order, double* out) const;
    // out: (n_rows), E[f(x')] - f(x).
    bool mean_change(const Request& r, Strategy s, PerRow<std::uint8_t> subset, double* out) const;
    // Gaps without the branches that provably matter less than rtol, all together. out: (n_rows).
    bool bounded(const Request& r, PerRow<std::uint8_t> subset, double rtol, Pairs::Bounded* out) const;
    // Sums over stretches of sampled points; see Points. out: (n_rows, n_stretches).
    bool sample(const Request& r, const std::uint8_t* subset, const Points& points, Moments* out) const;
    // Sums of the squared changes when the prefixes of each row's order move. out: (n_rows, n_replicates,
    // n_features).
    bool sample_curve(const Request& r, PerRow<std::int32_t> order, const Cube& cube, double* out) const;
    // One output of a model, and what is asked of it; the rows of all outputs are the same.
    struct Asked {
        const Engine* engine;
        Request request;
    };
    enum class Order { greedy, single };
    // Rankings by the sum of the outputs' gaps; order, score: (n_rows, n_features).
    static bool rank(std::span<const Asked> outputs, Order how, Strategy s, std::int32_t* order,
                     double* score);
    // The same from samples; lead: (n_rows, n_features), see Race.
    static bool race(std::span<const Asked> outputs, Order how, const Cube& cube, double clear,
                     std::int32_t* order, double* score, double* lead);

private:
    template <class Task>
    bool run(const Request& r, Purpose purpose, double pairs_bytes, Task task) const;
    double pairs_bytes(const Request& r, PerRow<std::uint8_t> subset) const;
    double pairs_bytes(const Request& r) const;
    bool pieces_are_short() const;
    using RowKernel = void (*)(const PlanView&, Block&, double* out);
    template <class ByPairs>
    bool each_row(const Request& r, Strategy s, PerRow<std::uint8_t> subset, RowKernel by_terms,
                  ByPairs by_pairs, double* out) const;

    std::vector<std::int32_t> root_, feature_, left_, right_, category_set_;
    std::vector<double> threshold_, value_;
    std::vector<std::uint8_t> default_left_;
    Cells cells_;
    EnsembleView view_;
    Atoms atoms_;
    SetAtoms set_atoms_;
    Pairs pairs_;
    std::unique_ptr<Plan> plan_;  // absent where it would not fit
    PlanView plan_view_{};        // with atoms only where there is no plan
    double full_cost_ = 0.0;      // nanoseconds of a gap by terms when all features move
};

}  // namespace predgap
