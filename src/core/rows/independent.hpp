// A noise that moves each feature by itself: the answers for one row (`IndependentRow`), by the route that
// the planner takes, and the rows of a call (`Independent`).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "noise/row_tables.hpp"
#include "planner/planner.hpp"
#include "rows/each_row.hpp"
#include "rows/from_pairs.hpp"
#include "rows/from_terms.hpp"
#include "sampling/many_subsets.hpp"

namespace predgap {

// A ranking's scores are differences of two gaps: what is promised of these.
Accuracy of_scores(Accuracy accuracy);

// Each answer goes one way: open the features that move, choose the way, put the terms in place, ask them;
// and again with less left out, where the bound is too large.
class IndependentRow {
public:
    IndependentRow(const Routes& routes, const NoiseLaws& laws);
    IndependentRow(const IndependentRow&) = delete;  // its parts refer to each other
    IndependentRow& operator=(const IndependentRow&) = delete;

    // Takes a row. Every answer opens the features that move before it asks anything of the row.
    void load(const RawRow& row, const std::atomic<bool>& stop, Forecast* forecast);
    // Tells the forecast what a part of the row's answer is expected to take, and that the row is done.
    void plan(double nanoseconds);
    void finish();

    Answer gap(const std::uint8_t* subset, const Accuracy& accuracy, double& value);
    // order, gaps: (n_places), of units.
    Answer curve(const Units& units, const std::int32_t* order, std::int32_t n_places,
                 const Accuracy& accuracy, double* gaps);
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
    // The bound is that of all shares, relative to the variance, to which the tolerance is relative too.
    Answer sensitivity(const Units& units, const Accuracy& accuracy, const Shares& shares);
    // The weights of the main effects of a model with one output when a subset moves, (n_thresholds). What a
    // feature changes on average, as a function of itself, is the sum of weights times centred atoms.
    Answer main_weights(const std::uint8_t* subset, const Accuracy& accuracy, double* weights);
    // E[f(x')] - f(x) of each output.
    void mean_change(const std::uint8_t* subset, double* change);

    // The way that an answer would take, with its price; throws TooCostly where the answer would. closely: of
    // a model without a plan the price is counted on some of the trees, which takes a part of that time.
    Way way_to(const Question& question, const Accuracy& accuracy, bool closely);
    // The way that the last gap, curve or greedy ranking took first.
    const Way& way_taken() const { return way_; }

    RowTables& tables() { return tables_; }
    const std::atomic<bool>& stop() const { return *stop_; }
    RowWork::Limits take_most_work() { return work_.take_most(); }

private:
    void open(const std::uint8_t* features);

    // What was evaluated: the value that the tolerance is relative to, and a bound of the errors.
    struct Evaluated {
        double value, bound;
    };
    // Obtains an answer about the open features: from_terms(terms, way) gives what was Evaluated,
    // from_pairs() the value.
    template <class FromTerms, class FromPairs>
    Answer answer(const Question& question, const Accuracy& accuracy, const FromTerms& from_terms,
                  const FromPairs& from_pairs);
    template <class FromTerms, class FromPairs>
    Evaluated evaluate(const Question& question, const Accuracy& accuracy, const Way& way,
                       const FromTerms& from_terms, const FromPairs& from_pairs);
    void refuse_too_much() const;

    // The features (n_features) of the units that a coarse ranking of all names for the first places; empty
    // if all units are likely, or the row is too large for a guess. price: gets what it takes, if it is not
    // null.
    std::vector<std::uint8_t> likely_features(const Units& units, std::int32_t n_places, Way* price);
    Answer alone(const FeatureList& features, const Accuracy& accuracy, double& value, double& error_scale);
    Way way_to_single(const Question& question, const Accuracy& accuracy, bool closely);

    // Prices that are counted on some of the trees; see independent_price.cpp.
    struct Sampled;
    struct PriceOfTry;
    Sampled sample(const Question& question, const Way& way, const std::vector<std::int32_t>& order,
                   SomeTrees some);
    PriceOfTry price_of_whole(const Sampled& whole, const Way& way) const;
    PriceOfTry price_of_try(const Question& question, const Way& way, const std::vector<std::int32_t>& order);
    void price_terms_closely(const Question& question, const Accuracy& accuracy, Way& way);
    void price_pairs_closely(const Question& question, Way& way);
    void set_close_price(const Question& question, const Accuracy& accuracy, double counted, Way& way);

    std::vector<std::uint8_t> all_features() const { return std::vector<std::uint8_t>(n_features(), 1); }
    std::vector<std::uint8_t> features_of(const Units& units, const std::int32_t* some, std::int32_t n) const;
    std::size_t n_features() const { return static_cast<std::size_t>(routes_.model.n_features()); }
    bool stopped() const { return work_.stopped(); }

    const Routes& routes_;
    RowTables tables_;
    const std::atomic<bool>* stop_ = nullptr;
    RowWork work_;
    Forecast* forecast_ = nullptr;
    double planned_ = 0.0;  // nanoseconds of this row
    RowCompilation compilation_;
    RowCounts counts_;
    Placed::Memory memory_;
    SubsetGaps subset_gaps_;
    RowPairs pairs_;
    Way way_;
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
        const bool may_be_long = asked.kind == Question::search || asked.kind == Question::outcomes ||
                                 (asked.kind == Question::subsets && asked.n > kFewUnits);
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
