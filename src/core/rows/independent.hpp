// A noise that moves each feature by itself, ready for a model: it runs a task on each row of a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rows/each_row.hpp"
#include "rows/row_solver.hpp"
#include "sampling/many_subsets.hpp"

namespace predgap {

class Independent {
public:
    using Row = RowSolver;

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
    // What any row took since this was asked last, at most.
    RowWork::Limits most_work() const;

    // A thread's state while rows are sampled at points that all of them share.
    struct Walks {
        RowSolver& solver;
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
        RowSolver& operator*() const { return *solver_; }

    private:
        const Independent* noise_;
        std::unique_ptr<RowSolver> solver_;
    };
    static constexpr std::size_t kMostWaiting = 2;

    std::unique_ptr<RowSolver> take_solver() const;
    void give_back(std::unique_ptr<RowSolver> solver) const;

    const Routes& routes_;
    LawArrays laws_;
    std::unique_ptr<CategoryNoise> categories_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<RowSolver>> waiting_;
    mutable RowWork::Limits most_work_{0.0, 0.0};
};

}  // namespace predgap
