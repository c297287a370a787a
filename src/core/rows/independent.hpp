// A noise that moves each feature by itself: the answers for one row (`IndependentRow`), by the route that
// the planner takes, and the rows of a call (`Independent`).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "noise/row_tables.hpp"
#include "planner/cost.hpp"
#include "rows/each_row.hpp"
#include "rows/routes.hpp"
#include "sampling/many_subsets.hpp"
#include "terms/row_compilation.hpp"
#include "terms/subset_gaps.hpp"
#include "terms/term_state.hpp"

namespace predgap {

struct Candidates;

// A ranking's scores are differences of two gaps: what is promised of these.
Accuracy of_scores(Accuracy accuracy);

class IndependentRow {
public:
    IndependentRow(const Routes& routes, const NoiseLaws& laws);

    void load(const RawRow& row, const std::atomic<bool>& stop, Forecast* forecast);
    // Tells the forecast what a part of the row's answer is expected to take, and that the row is done.
    void plan(double nanoseconds);
    void finish();

    Answer gap(const std::uint8_t* subset, const Accuracy& accuracy, double& value);
    // order, gaps: (n_places), of units.
    Answer curve(const Units& units, const std::int32_t* order, std::int32_t n_places,
                 const Accuracy& accuracy, double* gaps);
    struct Places {
        std::int32_t n;
        std::int32_t* order;   // (n) units
        double* score;         // (n_units) written for those that are ranked
        std::uint8_t* proven;  // (n)
    };
    Answer greedy(const Units& units, const Places& places, const Accuracy& accuracy);
    // Units of one feature are exact, whatever the model.
    Answer single(const Units& units, const Places& places, const Accuracy& accuracy);
    // gaps: (2^m), of all subsets of m units. A tolerance is relative to the sum over sizes of share (m + 1)
    // times the mean gap of that size.
    Answer subset_gaps(const Units& units, const std::int32_t* chosen, std::int32_t m, const double* share,
                       const Accuracy& accuracy, double* gaps);
    // A good order of some of m units, by a beam search; order, gaps of its prefixes: (n_places).
    Answer search(const Units& units, const std::int32_t* chosen, std::int32_t m, std::int32_t n_places,
                  std::int32_t width, const Accuracy& accuracy, std::int32_t* order, double* gaps);
    // Finds the units that can change anything; moving: (n_units).
    void moving_units(const Units& units, std::uint8_t* moving);
    // E[f(x')] - f(x) of each output, and the covariances of the outputs, (n_outputs, n_outputs): off the
    // diagonal NaN if each output has trees of its own. The bound is that of the covariances and of the gap.
    Answer moments(const std::uint8_t* subset, const Accuracy& accuracy, double* change, double* covariance);
    // Shares of the variance, when all features move. The sums over components are not divided yet.
    struct Shares {
        double& variance;
        double *first, *total, *shapley;  // (n_units)
        double* interaction;              // (n_units, n_units) symmetric, 0 on the diagonal
    };
    // The bound is that of all shares, relative to the variance, to which the tolerance is relative too.
    Answer sensitivity(const Units& units, const Accuracy& accuracy, const Shares& shares);
    // The weights of the main effects of a model with one output when a subset moves, (n_thresholds). What a
    // feature changes on average, as a function of itself, is the sum of weights times centred atoms.
    Answer main_weights(const std::uint8_t* subset, const Accuracy& accuracy, double* weights);
    // E[f(x')] - f(x) of each output.
    void mean_change(const std::uint8_t* subset, double* change);
    // The cost that an answer would have; throws TooCostly where the answer would.
    Cost cost(const Job& job, const Accuracy& accuracy);

    RowTables& tables() { return tables_; }
    const std::atomic<bool>& stop() const { return *stop_; }
    RowWork::Limits take_most_work() { return work_.take_most(); }

private:
    Cost decide(const Job& job, const Accuracy& accuracy);
    Cost decide_exact(const Job& job, const Accuracy& accuracy);
    Cost decide_bounded(const Job& job, const Accuracy& accuracy);
    struct ExactWays {
        Cost plan, compiled, pairs;
        std::optional<Cost> cheap;
    };
    ExactWays exact_ways(Job job, const Accuracy& accuracy);
    Cost decide_freely(const Job& job, const Accuracy& accuracy);
    Cost decide_as_forced(const Job& job, const Accuracy& accuracy);
    bool are_pairs_worth_asking(const Job& job, double n_nodes, const Cost& compiled) const;
    RowCompilation::Totals count_pruned(const Job& job, double limit);
    Cost first_try(const Job& job, const Accuracy& accuracy);
    Cost guess_bounded(const Job& job, const Accuracy& accuracy);
    double n_moving(const Job& job) const;
    Cost next_try(const Job& job, const Accuracy& accuracy, const Cost& last, double share, int n_tries);
    Cost cost_of(const RowCompilation::Totals& totals, const Job& job, double limit, Method method);
    std::vector<std::int32_t> likely_order(const Job& job);
    Cost cost_by_pairs(const Job& job);
    Cost cost_alone(const Job& job, const Accuracy& accuracy);
    Cost by_plan(const Job& job);
    bool plan_is_best(const Job& job, const Cost& plan);
    std::vector<std::uint8_t> features_likely_to_cross(const Job& job) const;
    const EvaluationCounts& lively_terms(const Job& job);
    EvaluationCounts compiled_terms(double n_entries, bool is_pruned, const Job& job);
    void load_compilation();
    void find_main_effects();
    void forget_compilation();  // other features are open
    double first_target(const Job& job, double tolerance);
    double exact_limit(const Job& job, const Accuracy& accuracy, const Cost& cost);

    // Entries of a compilation that fit into the memory of a row.
    static constexpr double kMostEntries = 1e7;
    // Puts the terms in place, for n_steps gaps one after the other, or for the gains of units.
    double prepare(const Cost& cost, const Units* ranked, double most_entries = kMostEntries,
                   std::int32_t n_steps = 0);
    void prepare_plan(const Units* ranked, std::int32_t n_steps);
    void hold_states();
    // Evaluates by terms until the bound is within the tolerance: evaluate(cost, bound) sets the bound and
    // gives the value that the tolerance is relative to.
    using Evaluate = std::function<double(const Cost& cost, double& bound)>;
    Answer answer(const Job& job, const Accuracy& accuracy, const Evaluate& evaluate);

    void moments_by_terms(double* change, double* covariance);
    void moments_by_pairs(double* change, double* covariance);
    void add_shares(const TermState& state, const Units& units, const Shares& shares);
    double gap_by_terms();
    Pairs::Result gap_by_pairs(const std::uint8_t* subset);
    std::vector<std::int32_t> used_places(const Units& units, const std::int32_t* order,
                                          std::int32_t n_places) const;
    double curve_by_terms(const Units& units, const std::int32_t* order, std::int32_t n_places, double* gaps);
    double curve_by_pairs(const Units& units, const std::int32_t* order, std::int32_t n_places, double* gaps);
    void subsets_by_terms(const Units& units, const std::int32_t* chosen, std::int32_t m, double* gaps);
    void subsets_by_pairs(const Units& units, const std::int32_t* chosen, std::int32_t m, double* gaps);
    // Rankings.
    struct SearchOf {
        const Units& units;
        std::span<const std::int32_t> chosen;
        std::int32_t n_places, width;
        std::int32_t* order;
        double* gaps;
    };
    double search_by_terms(SearchOf& search);
    double search_by_pairs(SearchOf& search);
    double greedy_by_terms(const Units& units, const Places& places, double bound);
    double greedy_by_pairs(const Units& units, const Places& places);
    Answer alone(const FeatureList& features, const Accuracy& accuracy, double& value, double& error_scale);
    std::vector<std::uint8_t> open_units(const Units& units) const;
    void set_subset(const FeatureList& features, std::uint8_t flag);
    void read_component_errors(std::size_t group, Buffer<double>& scale);
    void read_errors(const Units& units, std::vector<Buffer<double>>& scales, Candidates& candidates);
    double largest_error() const;
    bool guess_first_places(const Units& units, const Places& places);
    void set_likely(const FeatureList& features);
    bool stopped() const { return work_.stopped(); }
    void refuse_too_much() const;
    std::size_t n_features() const { return static_cast<std::size_t>(routes_.model.n_features()); }

    const Routes& routes_;
    RowTables tables_;
    const std::atomic<bool>* stop_ = nullptr;
    RowWork work_;
    Forecast* forecast_ = nullptr;
    double planned_ = 0.0;  // nanoseconds of this row
    CellRule cell_rule_ = CellRule::cheapest;
    RowCompilation compilation_;
    bool is_compilation_loaded_ = false, has_main_effects_ = false;
    bool exact_overflows_ = false;                  // an exact compilation did not fit into memory
    std::optional<EvaluationCounts> lively_terms_;  // if they are known
    std::vector<Plan::Scratch> plan_scratch_;       // one per group of trees, if there are plans
    std::vector<TermState> states_;                 // one per group of trees
    bool uses_plan_ = false;
    RowCompilation::Totals left_out_;  // of the terms in place
    SubsetGaps subset_gaps_;
    Pairs::Scratch pairs_;
    Likely likely_;
    std::vector<std::uint8_t> likely_features_;
    std::vector<std::uint8_t> subset_;  // (n_features) of scratch
};

class Independent {
public:
    using Row = IndependentRow;

    // mass, stay: see CategoryNoise.
    Independent(const Routes& routes, LawArrays laws, std::vector<double> mass, std::vector<double> stay,
                const std::function<void()>& check);
    Independent(const Independent&) = delete;
    Independent& operator=(const Independent&) = delete;

    const Routes& routes() const { return routes_; }
    // std::invalid_argument if tails are missing that only the caller can compute.
    void check(const RowArrays& rows) const;

    // task(solver, r), with row r in the solver. False if stopped; throws TooCostly.
    template <class Task>
    bool each_row(const RowArrays& rows, const Running& how, const Asked& asked, Task task) const {
        constexpr std::int32_t kFewUnits = 11;  // all subsets of more may take long
        const bool may_be_long = asked.question == Question::search || asked.question == Question::outcomes ||
                                 (asked.question == Question::subsets && asked.n > kFewUnits);
        const auto make = [&] { return Borrowed(*this); };
        const auto piece = [&](Borrowed& solver, std::int64_t r, const std::atomic<bool>& stop) {
            (*solver).load(rows.row(routes_.model, r), stop, &how.forecast);
            try {
                task(*solver, r);
                (*solver).finish();
            } catch (TooCostly& refused) {
                refused.row = r;
                throw;
            }
        };
        return run_rows(rows.n, how, routes_.rows_are_short && !may_be_long, make, piece);
    }

    // All trees at each of some points.
    double sampled_nanoseconds(std::int64_t n_points) const {
        return nominal::kSampledLevel * static_cast<double>(n_points) * least_nodes(routes_.model);
    }
    // The most that any row took since this was asked last.
    RowWork::Limits most_work() const;

    // A thread's state while rows are sampled at points that all of them share.
    struct Walks {
        IndependentRow& solver;
        SampledCopies& copies;
        std::vector<Walker>& walkers;  // one per output
    };
    // task(walks, r), with copies of row r in which all features have moved; n_walks: of each sample, about.
    template <class Task>
    bool each_sampled_row(const RowArrays& rows, const Running& how, const Units& units,
                          const SharedPoints& points, double n_walks, Task task) const {
        const double nanoseconds = n_walks * sampled_nanoseconds(points.look_end.back());
        std::vector<Forest> forests;
        for (const auto& output : routes_.model.output) forests.emplace_back(output, routes_.model.atoms);
        struct State {
            Borrowed solver;
            SampledCopies copies;
            std::vector<Walker> walkers;
        };
        const auto make = [&] {
            State state{Borrowed(*this), SampledCopies(routes_.model, points), {}};
            for (const auto& forest : forests) state.walkers.emplace_back(forest, units);
            return state;
        };
        const std::vector<std::uint8_t> all(static_cast<std::size_t>(routes_.model.n_features()), 1);
        const auto piece = [&](State& state, std::int64_t r, const std::atomic<bool>& stop) {
            auto& solver = *state.solver;
            solver.load(rows.row(routes_.model, r), stop, &how.forecast);
            solver.plan(nanoseconds);
            solver.tables().open(all.data());
            state.copies.load(solver.tables());
            for (auto& walker : state.walkers) walker.load(state.copies);
            Walks walks{solver, state.copies, state.walkers};
            task(walks, r);
        };
        return run_rows(rows.n, how, false, make, piece);
    }

private:
    // A thread's solver, given back in the end: its memory is not asked for again in the next call.
    class Borrowed {
    public:
        explicit Borrowed(const Independent& noise) : noise_(&noise), solver_(noise.take_solver()) {}
        Borrowed(Borrowed&&) = default;
        ~Borrowed() {
            if (solver_) noise_->give_back(std::move(solver_));
        }
        IndependentRow& operator*() const { return *solver_; }

    private:
        const Independent* noise_;
        std::unique_ptr<IndependentRow> solver_;
    };
    static constexpr std::size_t kMostWaiting = 2;

    std::unique_ptr<IndependentRow> take_solver() const;
    void give_back(std::unique_ptr<IndependentRow> solver) const;

    const Routes& routes_;
    LawArrays laws_;
    std::unique_ptr<CategoryNoise> categories_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<IndependentRow>> waiting_;
    mutable RowWork::Limits most_work_{0.0, 0.0};
};

}  // namespace predgap
