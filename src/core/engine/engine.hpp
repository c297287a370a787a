// Answers about many rows, on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/row_solver.hpp"
#include "outcomes/outcomes.hpp"
#include "sampling/many_subsets.hpp"
#include "sampling/sampling.hpp"

namespace predgap {

class Engine;

// A noise, with solvers that wait for the next call: their memory is not asked for again.
class NoiseOfModel {
public:
    // mass, stay: see CategoryNoise.
    NoiseOfModel(const Engine& engine, LawArrays laws, std::vector<double> mass, std::vector<double> stay,
                 const std::function<void()>& check);

    const Engine& engine() const { return engine_; }
    NoiseLaws laws() const { return {&laws_, categories_.get()}; }
    Law law(std::size_t q) const { return laws_.law[q]; }

    std::unique_ptr<RowSolver> take_solver() const;
    void give_back(std::unique_ptr<RowSolver> solver) const;
    // What any row took since this was asked last, at most.
    RowWork::Limits most_work() const;

private:
    static constexpr std::size_t kMostWaiting = 2;

    const Engine& engine_;
    LawArrays laws_;
    std::unique_ptr<CategoryNoise> categories_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<RowSolver>> waiting_;
    mutable RowWork::Limits most_work_{0.0, 0.0};
};

// Rows to ask about. All arrays are row-major and outlive the call.
struct Request {
    const NoiseOfModel& noise;
    std::int64_t n_rows;
    const double* x;  // (n_rows, n_features) cast as the model casts them, or cells; NaN is missing
    const double *below, *above;  // (n_rows, n_thresholds) tails of features with Law::table, else null
    const std::uint8_t* still;    // (n_rows, n_features) values that do not move, or null
    int n_threads;
    std::function<bool(std::int64_t)> poll;  // told the rows done; false stops
    Forecast* forecast = nullptr;            // if anyone asks for it
};

// One array per row, or one for all.
template <class T>
struct PerRow {
    const T* data;
    bool shared;
    const T* row(std::int64_t r, std::int64_t width) const { return shared ? data : data + r * width; }
};

// Error bounds and methods of answers, (n_rows) each.
struct Answers {
    double* bound;
    std::uint8_t* method;
    void set(std::int64_t row, const Answer& answer) const {
        bound[row] = answer.bound;
        method[row] = static_cast<std::uint8_t>(answer.method);
    }
};

// Points of the unit cube, one coordinate per feature of the subset, ascending.
struct Points {
    const double* data;  // (n_sets, n_points, n_columns): one set for all rows, or one per row
    bool shared;
    std::int64_t n_points;
    std::int32_t n_columns;
    std::span<const std::int64_t> stretch_end;  // ascending; the last is n_points
    const double* of_row(std::int64_t row) const { return data + (shared ? 0 : row) * n_points * n_columns; }
};

class Engine {
public:
    Engine(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const Model& model() const { return model_; }
    const Routes& routes() const { return routes_; }
    bool has_plan() const { return !routes_.plan.empty(); }
    // Of what rows take from now on, for tests.
    void limit_work(const RowWork::Limits& limits) { routes_.limits = limits; }

    // All return false if stopped, and throw TooCostly. value: (n_rows).
    bool gap(const Request& r, PerRow<std::uint8_t> subset, const Accuracy& accuracy, double* value,
             const Answers& answers) const;
    // What is ranked if nothing else is said: each feature alone.
    const Units& features() const { return features_; }
    // order, value: (n_rows, n_places).
    bool curve(const Request& r, const Units& units, PerRow<std::int32_t> order, std::int32_t n_places,
               const Accuracy& accuracy, double* value, const Answers& answers) const;
    // chosen: (n_rows, m) units; share: (m + 1); value: (n_rows, 2^m). See RowSolver::subset_gaps.
    bool subset_gaps(const Request& r, const Units& units, const std::int32_t* chosen, std::int32_t m,
                     const double* share, const Accuracy& accuracy, double* value,
                     const Answers& answers) const;
    // chosen: (n_rows, m); order, value: (n_rows, n_places). See RowSolver::search.
    bool search(const Request& r, const Units& units, const std::int32_t* chosen, std::int32_t m,
                std::int32_t n_places, std::int32_t width, const Accuracy& accuracy, std::int32_t* order,
                double* value, const Answers& answers) const;
    // moving: (n_rows, n_units).
    bool moving_units(const Request& r, const Units& units, std::uint8_t* moving) const;
    // weights: (n_rows, n_thresholds). See RowSolver::main_weights.
    bool main_weights(const Request& r, PerRow<std::uint8_t> subset, const Accuracy& accuracy,
                      double* weights, const Answers& answers) const;
    // change: (n_rows, n_outputs); covariance: (n_rows, n_outputs, n_outputs). See RowSolver::moments.
    bool moments(const Request& r, PerRow<std::uint8_t> subset, const Accuracy& accuracy, double* change,
                 double* covariance, const Answers& answers) const;
    // variance: (n_rows); first, total, shapley: (n_rows, n_units); interaction: (n_rows, n_units, n_units).
    struct Shares {
        double *variance, *first, *total, *shapley, *interaction;
    };
    bool sensitivity(const Request& r, const Units& units, const Accuracy& accuracy, const Shares& shares,
                     const Answers& answers) const;
    // change: (n_rows, n_outputs).
    bool mean_change(const Request& r, PerRow<std::uint8_t> subset, double* change) const;
    // f(x) without the bias: (n_rows, n_outputs).
    bool value(const Request& r, double* value) const;
    // order, proven: (n_rows, n_places); score: (n_rows, n_units).
    bool rank(const Request& r, const Units& units, bool greedy, std::int32_t n_places,
              const Accuracy& accuracy, std::int32_t* order, double* score, std::uint8_t* proven,
              const Answers& answers) const;
    // costs: (n_rows); a row that is refused has what it would take.
    bool cost(const Request& r, const Units& units, Question question, PerRow<std::uint8_t> features,
              std::int32_t n_places, const Accuracy& accuracy, Cost* costs) const;

    // Sums over stretches of sampled points; see Points. out: (n_rows, n_stretches).
    bool sample(const Request& r, std::int32_t output, const std::uint8_t* subset, const Points& points,
                Moments* out) const;
    // Sums of the squared changes of the prefixes of each row's order, over all outputs. out: (n_rows,
    // n_replicates, n_places).
    bool sample_curve(const Request& r, const Units& units, PerRow<std::int32_t> order, std::int32_t n_places,
                      const SharedPoints& points, double* out) const;
    // Rankings from samples; lead: (n_rows, n_places), see Race.
    bool race(const Request& r, const Units& units, bool greedy, std::int32_t n_places,
              const SharedPoints& points, double clear, std::int32_t* order, double* score,
              double* lead) const;

    // D at sampled points, (n_rows, n_outputs, n_points).
    bool sample_changes(const Request& r, const std::uint8_t* subset, const Points& points,
                        double* changes) const;
    // task(row, outcomes) for each row; the outcomes are null if there are too many.
    bool outcomes(const Request& r, PerRow<std::uint8_t> subset,
                  const std::function<void(std::int64_t, const Outcomes*)>& task) const;
    // The least and the largest change of each output, (n_rows, n_outputs, 2); see Outcomes.
    bool change_range(const Request& r, PerRow<std::uint8_t> subset, double* least_and_most) const;

    // A few rows made of thresholds and cells, (n, n_features).
    std::vector<double> typical_rows(std::int32_t n) const;

private:
    template <class Task>
    bool each_row(const Request& r, Task task) const {
        return each_row(r, rows_are_short_, task);
    }
    template <class Task>
    bool each_row(const Request& r, bool rows_are_short, Task task) const;
    template <class Task>
    bool each_sampled_row(const Request& r, const Units& units, const SharedPoints& points, double n_walks,
                          Task task) const;

    Model model_;
    Units features_;
    Routes routes_;
    bool rows_are_short_ = false;
};

}  // namespace predgap
