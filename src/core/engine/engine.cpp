#include "engine/engine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/parallel.hpp"
#include "sampling/racing.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

NoiseOfModel::NoiseOfModel(const Engine& engine, LawArrays laws, std::vector<double> mass,
                           std::vector<double> stay, const std::function<void()>& check)
    : engine_(engine), laws_(std::move(laws)) {
    const auto& model = engine.model();
    if (!mass.empty())
        categories_ = std::make_unique<CategoryNoise>(model.cells, model.set_atoms, std::move(mass),
                                                      std::move(stay), check);
}

std::unique_ptr<RowSolver> NoiseOfModel::take_solver() const {
    {
        const std::lock_guard lock(mutex_);
        if (!waiting_.empty()) {
            auto solver = std::move(waiting_.back());
            waiting_.pop_back();
            return solver;
        }
    }
    return std::make_unique<RowSolver>(engine_.routes(), laws());
}

void NoiseOfModel::give_back(std::unique_ptr<RowSolver> solver) const {
    const auto took = solver->take_most_work();
    const std::lock_guard lock(mutex_);
    most_work_.nanoseconds = std::max(most_work_.nanoseconds, took.nanoseconds);
    most_work_.bytes = std::max(most_work_.bytes, took.bytes);
    if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(solver));
}

RowWork::Limits NoiseOfModel::most_work() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(most_work_, {0.0, 0.0});
}

Engine::Engine(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check)
    : model_(std::move(arrays), sets, check), features_(model_.n_features()), routes_{model_, {}, {}, false} {
    for (const auto& output : model_.output) routes_.pairs.emplace_back(output, model_.atoms);
    for (const auto& group : model_.group) {
        auto plan = Plan::make(model_, group, check);
        if (!plan) {
            routes_.plan.clear();
            break;
        }
        routes_.plan.push_back(std::move(plan));
    }
    constexpr double kShort = 20e6;  // nanoseconds: Ctrl-C is looked for between rows
    const std::vector<uint8_t> all(static_cast<std::size_t>(model_.n_features()), 1);
    double longest = 0.0;
    for (const auto& plan : routes_.plan)
        longest += plan_cost(*plan, plan->count(nullptr), model_,
                             {Question::greedy, all.data(), model_.n_features(), nullptr})
                       .nanoseconds;
    rows_are_short_ = has_plan() && longest < kShort;
    constexpr double kCheap = 1e6;  // nanoseconds: other ways are not even priced
    routes_.plan_is_cheap = has_plan() && longest < kCheap;
}

namespace {

// A thread's solver, given back in the end.
class Borrowed {
public:
    explicit Borrowed(const NoiseOfModel& noise) : noise_(&noise), solver_(noise.take_solver()) {}
    Borrowed(Borrowed&&) = default;
    ~Borrowed() {
        if (solver_) noise_->give_back(std::move(solver_));
    }
    RowSolver& operator*() const { return *solver_; }

private:
    const NoiseOfModel* noise_;
    std::unique_ptr<RowSolver> solver_;
};

RawRow raw_row(const Request& r, const Model& model, int64_t row) {
    const int64_t n = model.n_thresholds();
    return {r.x + row * model.n_features(), r.below ? r.below + row * n : nullptr,
            r.above ? r.above + row * n : nullptr, r.still ? r.still + row * model.n_features() : nullptr};
}

}  // namespace

template <class Task>
bool Engine::each_row(const Request& r, bool rows_are_short, Task task) const {
    const auto make = [&] { return Borrowed(r.noise); };
    const auto piece = [&](Borrowed& solver, int64_t row, const std::atomic<bool>& stop) {
        (*solver).load(raw_row(r, model_, row), stop, r.forecast);
        try {
            task(*solver, row);
            (*solver).finish();
        } catch (TooCostly& refused) {
            refused.row = row;
            throw;
        }
    };
    if (r.n_threads == 1 && rows_are_short) return run_here(r.n_rows, make, piece, r.poll);
    return run_pieces(r.n_rows, r.n_threads, make, piece, r.poll);
}

bool Engine::gap(const Request& r, PerRow<uint8_t> subset, const Accuracy& accuracy, double* value,
                 const Answers& answers) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        answers.set(row, solver.gap(subset.row(row, model_.n_features()), accuracy, value[row]));
    });
}

bool Engine::curve(const Request& r, const Units& units, PerRow<int32_t> order, int32_t n_places,
                   const Accuracy& accuracy, double* value, const Answers& answers) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        answers.set(
            row, solver.curve(units, order.row(row, n_places), n_places, accuracy, value + row * n_places));
    });
}

bool Engine::subset_gaps(const Request& r, const Units& units, const int32_t* chosen, int32_t m,
                         const double* share, const Accuracy& accuracy, double* value,
                         const Answers& answers) const {
    constexpr int32_t kFewUnits = 11;  // above, a row may take so long that it must be interruptible
    return each_row(r, rows_are_short_ && m <= kFewUnits, [&](RowSolver& solver, int64_t row) {
        answers.set(row, solver.subset_gaps(units, chosen + row * m, m, share, accuracy, value + (row << m)));
    });
}

bool Engine::search(const Request& r, const Units& units, const int32_t* chosen, int32_t m, int32_t n_places,
                    int32_t width, const Accuracy& accuracy, int32_t* order, double* value,
                    const Answers& answers) const {
    return each_row(r, false, [&](RowSolver& solver, int64_t row) {
        const auto at = row * n_places;
        answers.set(row, solver.search(units, chosen + row * m, m, n_places, width, accuracy, order + at,
                                       value + at));
    });
}

bool Engine::moving_units(const Request& r, const Units& units, uint8_t* moving) const {
    return each_row(
        r, [&](RowSolver& solver, int64_t row) { solver.moving_units(units, moving + row * units.size()); });
}

bool Engine::moments(const Request& r, PerRow<uint8_t> subset, const Accuracy& accuracy, double* change,
                     double* covariance, const Answers& answers) const {
    const int64_t k = model_.n_outputs();
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        answers.set(row, solver.moments(subset.row(row, model_.n_features()), accuracy, change + row * k,
                                        covariance + row * k * k));
    });
}

bool Engine::main_weights(const Request& r, PerRow<uint8_t> subset, const Accuracy& accuracy, double* weights,
                          const Answers& answers) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        answers.set(row, solver.main_weights(subset.row(row, model_.n_features()), accuracy,
                                             weights + row * model_.n_thresholds()));
    });
}

bool Engine::sensitivity(const Request& r, const Units& units, const Accuracy& accuracy, const Shares& shares,
                         const Answers& answers) const {
    const int64_t n = units.size();
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        answers.set(row,
                    solver.sensitivity(units, accuracy,
                                       {shares.variance[row], shares.first + row * n, shares.total + row * n,
                                        shares.shapley + row * n, shares.interaction + row * n * n}));
    });
}

bool Engine::mean_change(const Request& r, PerRow<uint8_t> subset, double* change) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        solver.mean_change(subset.row(row, model_.n_features()), change + row * model_.n_outputs());
    });
}

bool Engine::value(const Request& r, double* value) const {
    const auto piece = [&](int, int64_t row, const std::atomic<bool>&) {
        const double* x = r.x + row * model_.n_features();
        double* sum = value + row * model_.n_outputs();
        for (const auto& e : model_.output) {
            *sum = 0.0;
            for (auto node : e.root) {
                while (e.feature[node] != kLeaf)
                    node = e.goes_left(node, x[e.feature[node]]) ? e.left[node] : e.right[node];
                *sum += e.value[node];
            }
            ++sum;
        }
    };
    const auto nothing = [] { return 0; };
    if (r.n_threads == 1) return run_here(r.n_rows, nothing, piece, r.poll);
    return run_pieces(r.n_rows, r.n_threads, nothing, piece, r.poll);
}

bool Engine::rank(const Request& r, const Units& units, bool greedy, int32_t n_places,
                  const Accuracy& accuracy, int32_t* order, double* score, uint8_t* proven,
                  const Answers& answers) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        const RowSolver::Places places{n_places, order + row * n_places, score + row * units.size(),
                                       proven + row * n_places};
        answers.set(row,
                    greedy ? solver.greedy(units, places, accuracy) : solver.single(units, places, accuracy));
    });
}

bool Engine::cost(const Request& r, const Units& units, Question question, PerRow<uint8_t> features,
                  int32_t n_places, const Accuracy& accuracy, Cost* costs) const {
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        try {
            costs[row] =
                solver.cost({question, features.row(row, model_.n_features()), n_places, &units}, accuracy);
        } catch (const TooCostly& refused) {
            costs[row] = {Route::compiled, accuracy.kind, refused.nanoseconds, refused.bytes, 0.0};
        }
    });
}

// ---- samples ---------------------------------------------------------------------------------------------

namespace {

// All trees at each of the points.
double sampled_nanoseconds(const Model& model, int64_t n_points) {
    return nominal::kSampledLevel * static_cast<double>(n_points) * least_nodes(model);
}

// The coordinate of each feature of a subset, -1 for the others.
std::vector<int32_t> columns_of(const uint8_t* subset, int32_t n_features) {
    std::vector<int32_t> column(static_cast<std::size_t>(n_features), -1);
    for (int32_t q = 0, next = 0; q < n_features; ++q)
        if (subset[q]) column[static_cast<std::size_t>(q)] = next++;
    return column;
}

}  // namespace

bool Engine::sample(const Request& r, int32_t output, const uint8_t* subset, const Points& points,
                    Moments* out) const {
    const auto column = columns_of(subset, model_.n_features());
    const auto n_stretches = static_cast<int64_t>(points.stretch_end.size());
    const auto sample_row = [&](RowSolver& solver, int64_t row) {
        auto& tables = solver.tables();
        tables.open(subset);
        solver.plan(sampled_nanoseconds(model_, points.n_points));
        Sampler sampler(model_.output[static_cast<std::size_t>(output)], model_.atoms);
        sampler.reduce(tables, column.data(), points.n_columns);
        const auto* first = points.of_row(row);
        int64_t begin = 0;
        for (int64_t i = 0; i < n_stretches; begin = points.stretch_end[static_cast<std::size_t>(i++)])
            out[row * n_stretches + i] =
                sampler.evaluate(first + begin * points.n_columns,
                                 points.stretch_end[static_cast<std::size_t>(i)] - begin, solver.stop());
    };
    return each_row(r, sample_row);
}

bool Engine::sample_changes(const Request& r, const uint8_t* subset, const Points& points,
                            double* changes) const {
    const auto column = columns_of(subset, model_.n_features());
    return each_row(r, [&](RowSolver& solver, int64_t row) {
        auto& tables = solver.tables();
        tables.open(subset);
        double* own = changes + row * model_.n_outputs() * points.n_points;
        for (const auto& output : model_.output) {
            Sampler sampler(output, model_.atoms);
            sampler.reduce(tables, column.data(), points.n_columns);
            sampler.list(points.of_row(row), points.n_points, solver.stop(), own);
            own += points.n_points;
        }
    });
}

// task(walks, row, stop), with the row in place; walks: its copies, and a walker for each output.
template <class Task>
bool Engine::each_sampled_row(const Request& r, const Units& units, const SharedPoints& points,
                              double n_walks, Task task) const {
    const double nanoseconds = n_walks * sampled_nanoseconds(model_, points.look_end.back());
    std::vector<Forest> forests;
    for (const auto& output : model_.output) forests.emplace_back(output, model_.atoms);
    struct Walks {
        Borrowed solver;
        SampledCopies copies;
        std::vector<Walker> walkers;
    };
    const auto make = [&] {
        Walks walks{Borrowed(r.noise), SampledCopies(model_, points), {}};
        for (const auto& forest : forests) walks.walkers.emplace_back(forest, units);
        return walks;
    };
    const std::vector<uint8_t> all(static_cast<std::size_t>(model_.n_features()), 1);
    const auto piece = [&](Walks& walks, int64_t row, const std::atomic<bool>& stop) {
        auto& solver = *walks.solver;
        solver.load(raw_row(r, model_, row), stop, r.forecast);
        solver.plan(nanoseconds);
        solver.tables().open(all.data());
        walks.copies.load(solver.tables());
        for (auto& walker : walks.walkers) walker.load(walks.copies);
        task(walks, row, stop);
    };
    return run_pieces(r.n_rows, r.n_threads, make, piece, r.poll);
}

bool Engine::sample_curve(const Request& r, const Units& units, PerRow<int32_t> order, int32_t n_places,
                          const SharedPoints& points, double* out) const {
    const auto n_points = points.look_end.back();
    const auto batch = Walker::batch(n_places);
    constexpr double kWalks = 3.5;  // a sample's walks, and those that go on from each turn
    const auto prefixes = [&](auto& walks, int64_t row, const std::atomic<bool>& stop) {
        std::vector<double> more(static_cast<std::size_t>(batch * n_places));
        for (auto& walker : walks.walkers)
            for (int64_t first = 0; first < n_points && !stop; first += batch) {
                const auto n = std::min(batch, n_points - first);
                walker.prefixes(first, n, order.row(row, n_places), n_places, more.data());
                for (int64_t p = 0; p < n; ++p) {
                    const auto replicate = (first + p) * points.n_replicates / n_points;
                    double *sum = out + (row * points.n_replicates + replicate) * n_places, change = 0.0;
                    for (int64_t k = 0; k < n_places; ++k) {
                        change += more[static_cast<std::size_t>(p * n_places + k)];
                        sum[k] += change * change;
                    }
                }
            }
    };
    return each_sampled_row(r, units, points, kWalks, prefixes);
}

bool Engine::race(const Request& r, const Units& units, bool greedy, int32_t n_places,
                  const SharedPoints& points, double clear, int32_t* order, double* score,
                  double* lead) const {
    constexpr double kWalks = 8.0;  // of the candidates for all places, which become fewer
    const auto run_race = [&](auto& walks, int64_t row, const std::atomic<bool>& stop) {
        Race race(walks.walkers, units, walks.copies, points, clear, stop);
        const auto run = greedy ? &Race::greedy : &Race::single;
        (race.*run)(n_places, order + row * n_places, score + row * units.size(), lead + row * n_places);
    };
    return each_sampled_row(r, units, points, kWalks, run_race);
}

// ---- distributions ---------------------------------------------------------------------------------------

bool Engine::outcomes(const Request& r, PerRow<uint8_t> subset,
                      const std::function<void(int64_t, const Outcomes*)>& task) const {
    return each_row(r, false, [&](RowSolver& solver, int64_t row) {
        Outcomes outcomes(model_);
        solver.tables().open(subset.row(row, model_.n_features()));
        task(row, outcomes.list(solver.tables(), solver.stop()) ? &outcomes : nullptr);
    });
}

bool Engine::change_range(const Request& r, PerRow<uint8_t> subset, double* least_and_most) const {
    return each_row(r, false, [&](RowSolver& solver, int64_t row) {
        Outcomes outcomes(model_);
        solver.tables().open(subset.row(row, model_.n_features()));
        outcomes.range(solver.tables(), solver.stop(), least_and_most + 2 * row * model_.n_outputs());
    });
}

// ---- costs without rows ----------------------------------------------------------------------------------

namespace {

// A sequence that is always the same.
class Draws {
public:
    std::size_t below(std::size_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::size_t>((state_ >> 33) % n);
    }

private:
    std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

// The thresholds of each feature, ascending. Trees are grown until few rows are left, so their last splits
// are where the rows are, and as many: only splits of which both children are leaves count, if there are any.
std::vector<std::vector<double>> last_thresholds(const Model& model) {
    const auto& trees = model.all_trees;
    const auto is_leaf = [&](int32_t node) { return trees.feature[static_cast<std::size_t>(node)] == kLeaf; };
    std::vector<std::vector<double>> found(static_cast<std::size_t>(model.n_features()));
    for (std::size_t node = 0; node < trees.feature.size(); ++node)
        if (trees.feature[node] != kLeaf && model.atoms.of_node[node] >= 0 && is_leaf(trees.left[node]) &&
            is_leaf(trees.right[node]))
            found[static_cast<std::size_t>(trees.feature[node])].push_back(trees.threshold[node]);
    for (const auto q : model.features) {
        auto& own = found[static_cast<std::size_t>(q)];
        if (own.empty())
            own.assign(model.atoms.threshold.begin() + model.atoms.begin[q],
                       model.atoms.threshold.begin() + model.atoms.begin[q + 1]);
        std::sort(own.begin(), own.end());
    }
    return found;
}

}  // namespace

// Each number is at n quantiles of its thresholds, in an order of its own.
std::vector<double> Engine::typical_rows(int32_t n_rows) const {
    const auto n = static_cast<std::size_t>(n_rows), d = static_cast<std::size_t>(model_.n_features());
    std::vector<double> rows(n * d, 0.0);
    const auto thresholds = last_thresholds(model_);
    Draws draws;
    std::vector<std::size_t> row(n);
    for (const auto q : model_.features) {
        const auto& own = thresholds[static_cast<std::size_t>(q)];
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = n; i > 1; --i) std::swap(row[i - 1], row[draws.below(i)]);
        for (std::size_t i = 0; i < n; ++i) {
            auto& value = rows[row[i] * d + static_cast<std::size_t>(q)];
            if (model_.cells.categorical(q))
                value = static_cast<double>(draws.below(static_cast<std::size_t>(model_.cells.count(q))));
            else if (!own.empty())
                value = own[(2 * i + 1) * own.size() / (2 * n)];
        }
    }
    return rows;
}

}  // namespace predgap
