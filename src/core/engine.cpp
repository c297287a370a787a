#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "parallel.hpp"
#include "racing.hpp"
#include "ranking.hpp"
#include "worker.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

Engine::Engine(int32_t n_features, std::vector<int32_t> root, std::vector<int32_t> feature,
               std::vector<double> threshold, std::vector<int32_t> left, std::vector<int32_t> right,
               std::vector<uint8_t> default_left, std::vector<double> value,
               std::vector<int32_t> category_set, const LevelSets& sets, const Stop& stop)
    : root_(std::move(root)),
      feature_(std::move(feature)),
      left_(std::move(left)),
      right_(std::move(right)),
      category_set_(std::move(category_set)),
      threshold_(std::move(threshold)),
      value_(std::move(value)),
      default_left_(std::move(default_left)),
      cells_(sets),
      view_{n_features, root_,         feature_, threshold_,    left_,
            right_,     default_left_, value_,   category_set_, &cells_},
      atoms_(view_),
      set_atoms_(cells_, atoms_.size()),
      pairs_(view_, atoms_) {
    const Leaves leaves(view_, atoms_, set_atoms_, stop);
    constexpr double kMostJoint = 8e6;  // pairs of sets of categories with joint masses: 256 MB
    if (leaves.affordable) {
        plan_ = std::make_unique<Plan>(view_, atoms_, set_atoms_, leaves, stop);
        plan_view_ = plan_->view();
        if (set_atoms_.n_meeting(plan_->set_pairs(), kMostJoint) <= kMostJoint) {
            full_cost_ = cost(std::vector<uint8_t>(static_cast<std::size_t>(n_features), 1).data()).terms;
            return;
        }
        plan_.reset();
        plan_view_ = {};
    }
    set_atoms_ = SetAtoms(cells_, atoms_.size());  // their atoms are of no use without a plan
    set_atoms_.finish();
    plan_view_.n_features = n_features;
    plan_view_.n_atoms = plan_view_.n_thresholds = atoms_.size();
    plan_view_.atom_begin = atoms_.begin.data();
    plan_view_.atom_threshold = atoms_.threshold.data();
    plan_view_.set_atom_begin = set_atoms_.begin.data();
}

const std::vector<bool>& Engine::set_pairs() const {
    static const std::vector<bool> none;
    return plan_ ? plan_->set_pairs() : none;
}

namespace {

int64_t n_blocks(const Request& r) { return (r.n_rows + kLanes - 1) / kLanes; }

// As many threads as are asked for and fit into memory.
int n_threads(const Request& r, double worker_bytes) {
    constexpr double kWorkerBytes = 1 << 30;  // for all threads together
    const double most = std::max(1.0, static_cast<double>(r.n_threads));
    return static_cast<int>(std::clamp(kWorkerBytes / worker_bytes, 1.0, most));
}

}  // namespace

template <class Task>
bool Engine::run(const Request& r, Purpose purpose, double pairs_bytes, Task task) const {
    const auto make = [&] { return std::make_unique<Worker>(plan_view_, r, purpose); };
    const auto piece = [&](std::unique_ptr<Worker>& worker, int64_t block, const std::atomic<bool>& stop) {
        worker->load(block * kLanes, stop);
        task(*worker);
    };
    const auto poll = [&](int64_t n_done) { return r.poll(std::min(n_done * kLanes, r.n_rows)); };
    if (r.n_threads == 1 && purpose != Purpose::tables && pieces_are_short())
        return run_here(n_blocks(r), make, piece, poll);
    const double bytes = Worker::bytes(plan_view_, purpose) + pairs_bytes;
    return run_pieces(n_blocks(r), n_threads(r, bytes), make, piece, poll);
}

// What a row takes by pairs, at most, if any of these features may move in it.
double Engine::pairs_bytes(const Request& r, PerRow<uint8_t> subset) const {
    std::vector<uint8_t> any(static_cast<std::size_t>(view_.n_features), 0);
    for (int64_t row = 0; row < (subset.shared ? 1 : r.n_rows); ++row)
        for (int32_t q = 0; q < view_.n_features; ++q) any[q] |= subset.row(row, view_.n_features)[q];
    return std::min(pairs_.work(any.data()).bytes, Counts::kMostBytes);
}

double Engine::pairs_bytes(const Request& r) const {
    const std::vector<uint8_t> all(static_cast<std::size_t>(view_.n_features), 1);
    return pairs_bytes(r, {all.data(), true});
}

// Is a block of rows done long before someone who pressed Ctrl-C gets impatient, whatever is asked by terms?
bool Engine::pieces_are_short() const {
    constexpr double kShort = 2e7;  // nanoseconds
    return plan_ && full_cost_ * kLanes * std::max(4, view_.n_features) < kShort;
}

// One number per row: by a kernel for eight rows at a time, or by pairs(scratch, tables, perturbed) for each.
template <class ByPairs>
bool Engine::each_row(const Request& r, Strategy s, PerRow<uint8_t> subset, RowKernel by_terms,
                      ByPairs by_pairs, double* out) const {
    const bool terms = s == Strategy::terms;
    const auto purpose = terms ? Purpose::gap : Purpose::tables;
    return run(r, purpose, terms ? 0.0 : pairs_bytes(r, subset), [&](Worker& w) {
        w.restrict_to(subset);
        w.fill_tables();
        double found[kLanes] = {};
        if (s == Strategy::terms) {
            w.begin_row(false);
            by_terms(w.plan(), w.block(), found);
        } else {
            LaneSubset lane_subset(w);
            for (int lane = 0; lane < w.n_rows() && !*w.block().stop; ++lane)
                found[lane] = by_pairs(w.pairs(), w.tables(lane), lane_subset.moving(lane));
        }
        for (int lane = 0; lane < w.n_rows(); ++lane) out[w.row(lane)] = found[lane];
    });
}

bool Engine::gap(const Request& r, Strategy s, PerRow<uint8_t> subset, double* out) const {
    const auto by_pairs = [&](auto&&... asked) { return pairs_.gap(asked...).gap; };
    const bool finished = each_row(r, s, subset, kernels().gap, by_pairs, out);
    std::transform(out, out + r.n_rows, out, [](double gap) { return std::max(gap, 0.0); });
    return finished;
}

bool Engine::mean_change(const Request& r, Strategy s, PerRow<uint8_t> subset, double* out) const {
    const auto by_pairs = [&](auto&&... asked) { return pairs_.mean_change(asked...); };
    return each_row(r, s, subset, kernels().mean, by_pairs, out);
}

bool Engine::bounded(const Request& r, PerRow<uint8_t> subset, double rtol, Pairs::Bounded* out) const {
    return run(r, Purpose::tables, pairs_bytes(r, subset), [&](Worker& w) {
        w.restrict_to(subset);
        w.fill_tables();
        LaneSubset lane_subset(w);
        for (int lane = 0; lane < w.n_rows() && !*w.block().stop; ++lane)
            out[w.row(lane)] = pairs_.bounded(w.pairs(), w.tables(lane), lane_subset.moving(lane), rtol);
    });
}

bool Engine::sample(const Request& r, const uint8_t* subset, const Points& points, Moments* out) const {
    std::vector<int32_t> column(static_cast<std::size_t>(view_.n_features), -1);
    for (int32_t q = 0, next = 0; q < view_.n_features; ++q)
        if (subset[q]) column[q] = next++;
    const auto n_stretches = static_cast<int64_t>(points.stretch_end.size());
    return run(r, Purpose::tables, 0.0, [&](Worker& w) {
        w.restrict_to({subset, true});
        w.fill_tables();
        LaneSubset lane_subset(w);
        Sampler sampler(view_, atoms_);
        for (int lane = 0; lane < w.n_rows(); ++lane) {
            sampler.reduce(w.tables(lane), lane_subset.moving(lane), column.data(), points.n_columns);
            const auto set = points.shared ? 0 : w.row(lane);
            const auto* first = points.data + set * points.n_points * points.n_columns;
            int64_t begin = 0;
            for (int64_t i = 0; i < n_stretches && !*w.block().stop; begin = points.stretch_end[i++])
                out[w.row(lane) * n_stretches + i] =
                    sampler.evaluate(first + begin * points.n_columns, points.stretch_end[i] - begin);
        }
    });
}

bool Engine::curve(const Request& r, Strategy s, PerRow<int32_t> order, double* out) const {
    const auto d = view_.n_features;
    const bool terms = s == Strategy::terms;
    const auto purpose = terms ? Purpose::nested : Purpose::tables;
    return run(r, purpose, terms ? 0.0 : pairs_bytes(r), [&](Worker& w) {
        w.fill_tables();
        auto& b = w.block();
        double gaps[kLanes] = {};
        if (s == Strategy::terms) {
            w.begin_row(false);
            kernels().begin_nested(w.plan(), b);
        }
        LaneSubset lane_subset(w);
        for (int32_t step = 0; step < d && !*b.stop; ++step) {
            std::fill(b.fresh, b.fresh + d, LaneBits{0});
            for (int lane = 0; lane < kLanes; ++lane) {
                const auto q = order.row(w.row(lane), d)[step];
                b.fresh[q] |= static_cast<LaneBits>(1u << lane);
                lane_subset.add(lane, q);
            }
            if (s == Strategy::terms) {
                kernels().take(w.plan(), b);
                kernels().nested_gap(w.plan(), b, gaps);
            } else {
                for (int lane = 0; lane < w.n_rows() && !*b.stop; ++lane)
                    gaps[lane] = pairs_.gap(w.pairs(), w.tables(lane), lane_subset.added(lane)).gap;
            }
            for (int lane = 0; lane < w.n_rows(); ++lane)
                out[w.row(lane) * d + step] = std::max(gaps[lane], 0.0);
        }
    });
}

bool Engine::rank(std::span<const Asked> outputs, Order how, Strategy s, int32_t* order, double* score) {
    const auto purpose = s == Strategy::terms ? Purpose::ranking : Purpose::tables;
    const auto& r = outputs[0].request;
    double bytes = 0.0;
    for (const auto& [engine, request] : outputs) {
        bytes += Worker::bytes(engine->plan_view_, purpose);
        if (s == Strategy::pairs) bytes += engine->pairs_bytes(request);
    }
    const auto make = [&] {
        std::vector<std::unique_ptr<Worker>> workers;
        for (const auto& asked : outputs)
            workers.push_back(std::make_unique<Worker>(asked.engine->plan_view_, asked.request, purpose));
        return workers;
    };
    const auto rank_block = [&](auto& workers, int64_t block, const std::atomic<bool>& stop) {
        std::vector<Output> all;
        for (std::size_t k = 0; k < workers.size(); ++k) {
            workers[k]->load(block * kLanes, stop);
            workers[k]->fill_tables();
            all.push_back({*workers[k], outputs[k].engine->pairs_});
        }
        if (s == Strategy::terms) {
            (how == Order::greedy ? greedy_by_terms : single_by_terms)(all, order, score);
        } else {
            for (int lane = 0; lane < workers[0]->n_rows(); ++lane)
                (how == Order::greedy ? greedy_by_pairs : single_by_pairs)(all, lane, order, score);
        }
    };
    const auto poll = [&](int64_t n_done) { return r.poll(std::min(n_done * kLanes, r.n_rows)); };
    if (r.n_threads == 1 && s == Strategy::terms && outputs.size() == 1 &&
        outputs[0].engine->pieces_are_short())
        return run_here(n_blocks(r), make, rank_block, poll);
    return run_pieces(n_blocks(r), n_threads(r, bytes), make, rank_block, poll);
}

namespace {

// The walkers of a model's outputs, for one row at a time.
class RowWalks {
public:
    void add(const PlanView& plan, const Request& request, const Forest& forest, const Cube& cube) {
        workers_.push_back(std::make_unique<Worker>(plan, request, Purpose::tables));
        walkers.emplace_back(forest, cube);
    }

    void load(int64_t row, const std::atomic<bool>& stop) {
        for (std::size_t k = 0; k < walkers.size(); ++k) {
            workers_[k]->load(row, stop);
            workers_[k]->fill_tables();
            walkers[k].load(workers_[k]->tables(0), LaneSubset(*workers_[k]).moving(0));
        }
    }

    std::vector<Walker> walkers;

private:
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

bool Engine::race(std::span<const Asked> outputs, Order how, const Cube& cube, double clear, int32_t* order,
                  double* score, double* lead) {
    const auto& r = outputs[0].request;
    const int64_t d = outputs[0].engine->view_.n_features;
    std::vector<Forest> forests;
    double bytes = 0.0;
    for (const auto& asked : outputs) {
        forests.emplace_back(asked.engine->view_, asked.engine->atoms_);
        bytes += Worker::bytes(asked.engine->plan_view_, Purpose::tables);
    }
    const auto make = [&] {
        RowWalks walks;
        for (std::size_t k = 0; k < outputs.size(); ++k)
            walks.add(outputs[k].engine->plan_view_, outputs[k].request, forests[k], cube);
        return walks;
    };
    const auto rank_row = [&](RowWalks& walks, int64_t row, const std::atomic<bool>& stop) {
        walks.load(row, stop);
        Race race(walks.walkers, cube, static_cast<int32_t>(d), clear, stop);
        const auto run = how == Order::greedy ? &Race::greedy : &Race::single;
        (race.*run)(order + row * d, score + row * d, lead + row * d);
    };
    return run_pieces(r.n_rows, n_threads(r, bytes), make, rank_row, r.poll);
}

bool Engine::sample_curve(const Request& r, PerRow<int32_t> order, const Cube& cube, double* out) const {
    const Forest forest(view_, atoms_);
    const int64_t d = view_.n_features, n_points = cube.look_end.back();
    const auto make = [&] {
        RowWalks walks;
        walks.add(plan_view_, r, forest, cube);
        return walks;
    };
    const auto sum_row = [&](RowWalks& walks, int64_t row, const std::atomic<bool>& stop) {
        const auto batch = Walker::batch(d);
        std::vector<double> more(static_cast<std::size_t>(batch * d));
        walks.load(row, stop);
        for (int64_t first = 0; first < n_points && !stop; first += batch) {
            const auto n = std::min(batch, n_points - first);
            walks.walkers[0].prefixes(first, n, order.row(row, d), more.data());
            for (int64_t p = 0; p < n; ++p) {
                double* sum =
                    out + (row * cube.n_replicates + (first + p) * cube.n_replicates / n_points) * d;
                double change = 0.0;
                for (int64_t k = 0; k < d; ++k) {
                    change += more[p * d + k];
                    sum[k] += change * change;
                }
            }
        }
    };
    const double bytes = Worker::bytes(plan_view_, Purpose::tables);
    return run_pieces(r.n_rows, n_threads(r, bytes), make, sum_row, r.poll);
}

Counts Engine::counts(const uint8_t* perturbed) const {
    return count(plan_view_, has_plan(), pairs_, perturbed);
}

Cost Engine::cost(const uint8_t* perturbed) const { return cost_of(counts(perturbed), has_plan()); }

}  // namespace predgap
