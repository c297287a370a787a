// The only file that knows Python: arrays in, arrays out, the GIL released in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "algorithm1.hpp"
#include "engine.hpp"
#include "parallel.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace predgap {
namespace {

template <class T, std::size_t N>
using Array = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, std::size_t N>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<N>, nb::c_contig>;

template <class T>
std::vector<T> copy(const Array<T, 1>& a) {
    return std::vector<T>(a.data(), a.data() + a.size());
}

template <class T, std::size_t N>
NewArray<T, N> make_array(const std::size_t (&shape)[N]) {
    std::size_t size = 1;
    for (const auto n : shape) size *= n;
    auto* data = new T[size]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return NewArray<T, N>(data, N, shape, owner);
}

void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

// The noise of every feature; of categorical ones, the mass that arrives in each cell; and, for laws that
// only Python can evaluate, its tails at every atom.
struct NoiseTables {
    std::vector<Law> law;
    std::vector<double> parameter;
    std::optional<Array<double, 2>> below, above;
    const CategoryNoise* categories;  // outlives this

    NoiseTables(const Array<std::uint8_t, 1>& kinds, const Array<double, 1>& parameters,
                std::optional<Array<double, 2>> b, std::optional<Array<double, 2>> a, const CategoryNoise* c)
        : parameter(copy<double>(parameters)), below(std::move(b)), above(std::move(a)), categories(c) {
        require(kinds.size() == parameters.size(), "one law and one parameter per feature");
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            require(kinds(i) <= 4, "unknown law");
            law.push_back(static_cast<Law>(kinds(i)));
            require(law.back() != Law::table || (below && above), "a table law needs its tables");
        }
    }
};

// Runs signal handlers and tells the progress; false, with the exception set, if one of them raised.
std::function<bool(std::int64_t)> make_poll(const nb::object& progress) {
    return [&progress](std::int64_t n_done) {
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) return false;
        if (progress.is_none()) return true;
        PyObject* answer = PyObject_CallFunction(progress.ptr(), "L", static_cast<long long>(n_done));
        Py_XDECREF(answer);
        return answer != nullptr;
    };
}

// Categorical features hold cells, and move by category laws.
void require_cells(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise) {
    const auto& cells = e.cells();
    for (std::int32_t q = 0; q < cells.n_features(); ++q) {
        if (!cells.categorical(q)) {
            require(noise.law[q] != Law::category, "a law of categories for a numeric feature");
            continue;
        }
        require(noise.law[q] == Law::category || noise.law[q] == Law::still,
                "a law of numbers for categories");
        require(noise.categories != nullptr, "categories need their masses");
        for (std::size_t r = 0; r < x.shape(0); ++r)
            require(std::isnan(x(r, q)) || (x(r, q) >= 0 && x(r, q) < cells.count(q)), "a cell out of range");
    }
    if (noise.categories)
        require(noise.categories->mass.size() == static_cast<std::size_t>(cells.begin.back()) &&
                    noise.categories->inside.size() == static_cast<std::size_t>(e.set_atoms().size()),
                "masses of another model");
}

Request make_request(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise, int n_threads,
                     const nb::object& progress) {
    const auto n = x.shape(0), d = static_cast<std::size_t>(e.ensemble().n_features);
    require(x.shape(1) == d && noise.law.size() == d, "one column and one law per feature");
    for (const auto& table : {noise.below, noise.above})
        require(
            !table || (table->shape(0) == n && table->shape(1) == static_cast<std::size_t>(e.atoms().size())),
            "tables must be (n_rows, n_thresholds)");
    require_cells(e, x, noise);
    return {.n_rows = static_cast<std::int64_t>(n),
            .x = x.data(),
            .law = noise.law.data(),
            .parameter = noise.parameter.data(),
            .table_below = noise.below ? noise.below->data() : nullptr,
            .table_above = noise.above ? noise.above->data() : nullptr,
            .categories = noise.categories,
            .n_threads = n_threads,
            .poll = make_poll(progress)};
}

// Runs without the GIL; an interruption has left its exception (KeyboardInterrupt) set.
template <class Work>
void run_released(Work work) {
    bool finished;
    {
        const nb::gil_scoped_release released;
        finished = work();
    }
    if (!finished) throw nb::python_error();
}

template <class T>
PerRow<T> per_row(const Engine& e, const Array<T, 2>& a, std::size_t n_rows) {
    require(a.shape(1) == static_cast<std::size_t>(e.ensemble().n_features), "one entry per feature");
    require(a.shape(0) == n_rows || a.shape(0) == 1, "one array for all rows, or one per row");
    return {a.data(), a.shape(0) == 1};
}

Strategy strategy_of(const Engine& e, const std::string& name) {
    require(name == "pairs" || name == "terms", "strategy must be 'terms' or 'pairs'");
    require(name == "pairs" || e.has_plan(), "the terms of this model do not fit the budget");
    return name == "pairs" ? Strategy::pairs : Strategy::terms;
}

NewArray<double, 1> gap(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                        const Array<std::uint8_t, 2>& subset, const std::string& strategy, int n_threads,
                        const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto subsets = per_row(e, subset, x.shape(0));
    const auto s = strategy_of(e, strategy);
    auto out = make_array<double, 1>({x.shape(0)});
    run_released([&] { return e.gap(request, s, subsets, out.data()); });
    return out;
}

NewArray<double, 1> mean_change(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                                const Array<std::uint8_t, 2>& subset, const std::string& strategy,
                                int n_threads, const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto subsets = per_row(e, subset, x.shape(0));
    const auto s = strategy_of(e, strategy);
    auto out = make_array<double, 1>({x.shape(0)});
    run_released([&] { return e.mean_change(request, s, subsets, out.data()); });
    return out;
}

// Values and error bounds, (n, 2).
NewArray<double, 2> bounded(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                            const Array<std::uint8_t, 2>& subset, double rtol, int n_threads,
                            const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto subsets = per_row(e, subset, x.shape(0));
    require(rtol >= 0, "rtol must not be negative");
    auto out = make_array<double, 2>({x.shape(0), 2});
    static_assert(sizeof(Pairs::Bounded) == 2 * sizeof(double));
    run_released(
        [&] { return e.bounded(request, subsets, rtol, reinterpret_cast<Pairs::Bounded*>(out.data())); });
    return out;
}

NewArray<double, 3> sample(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                           const Array<std::uint8_t, 1>& subset, const Array<double, 3>& points,
                           const Array<std::int64_t, 1>& stretch_end, int n_threads,
                           const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto n_points = static_cast<std::int64_t>(points.shape(1));
    require(subset.size() == x.shape(1), "one entry per feature");
    require(points.shape(0) == 1 || points.shape(0) == x.shape(0), "one set of points, or one per row");
    const auto n_columns =
        std::count_if(subset.data(), subset.data() + subset.size(), [](auto s) { return s; });
    require(static_cast<std::int64_t>(points.shape(2)) == n_columns,
            "one coordinate per feature of the subset");
    for (std::size_t i = 0; i < points.size(); ++i)
        require(points.data()[i] >= 0.0 && points.data()[i] < 1.0, "points must lie in [0, 1)");
    for (std::size_t i = 0; i < stretch_end.size(); ++i)
        require(stretch_end(i) >= (i ? stretch_end(i - 1) : 0) && stretch_end(i) <= n_points,
                "bad stretches");
    const Points cube{points.data(),
                      points.shape(0) == 1,
                      n_points,
                      static_cast<std::int32_t>(n_columns),
                      {stretch_end.data(), stretch_end.size()}};
    static_assert(sizeof(Moments) == 3 * sizeof(double));
    auto out = make_array<double, 3>({x.shape(0), stretch_end.size(), 3});
    run_released(
        [&] { return e.sample(request, subset.data(), cube, reinterpret_cast<Moments*>(out.data())); });
    return out;
}

PerRow<std::int32_t> orders_of(const Engine& e, const Array<std::int32_t, 2>& order, std::size_t n_rows) {
    for (std::size_t i = 0; i < order.size(); ++i)
        require(order.data()[i] >= 0 && order.data()[i] < e.ensemble().n_features, "a feature out of range");
    return per_row(e, order, n_rows);
}

NewArray<double, 2> curve(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                          const Array<std::int32_t, 2>& order, const std::string& strategy, int n_threads,
                          const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto orders = orders_of(e, order, x.shape(0));
    const auto s = strategy_of(e, strategy);
    auto out = make_array<double, 2>({x.shape(0), x.shape(1)});
    run_released([&] { return e.curve(request, s, orders, out.data()); });
    return out;
}

// The points of samples that all rows share.
Cube make_cube(const Array<double, 2>& points, const Array<std::int32_t, 1>& column,
               const Array<std::int64_t, 1>& look_end, int n_replicates) {
    const auto n_points = static_cast<std::int64_t>(points.shape(0));
    require(n_replicates > 1 && look_end.size() > 0 && look_end(look_end.size() - 1) == n_points,
            "replicates, and looks that end with the points");
    for (std::size_t i = 0; i < look_end.size(); ++i) {
        const auto n = look_end(i) - (i ? look_end(i - 1) : 0);
        require(n > 0 && n % n_replicates == 0, "as many points of every replicate");
    }
    for (std::size_t q = 0; q < column.size(); ++q)
        require(column(q) >= -1 && column(q) < static_cast<std::int64_t>(points.shape(1)),
                "a column out of range");
    for (std::size_t i = 0; i < points.size(); ++i)
        require(points.data()[i] >= 0.0 && points.data()[i] < 1.0, "points must lie in [0, 1)");
    return {points.data(),
            static_cast<std::int32_t>(points.shape(1)),
            column.data(),
            {look_end.data(), look_end.size()},
            n_replicates};
}

NewArray<double, 3> sample_curve(const Engine& e, const Array<double, 2>& x, const NoiseTables& noise,
                                 const Array<std::int32_t, 2>& order, const Array<double, 2>& points,
                                 const Array<std::int32_t, 1>& column, int n_replicates, int n_threads,
                                 const nb::object& progress) {
    const auto request = make_request(e, x, noise, n_threads, progress);
    const auto orders = orders_of(e, order, x.shape(0));
    require(column.size() == x.shape(1), "one column per feature");
    const std::int64_t end[] = {static_cast<std::int64_t>(points.shape(0))};
    const auto cube = make_cube(points, column, Array<std::int64_t, 1>(end, {1}), n_replicates);
    auto out = make_array<double, 3>({x.shape(0), static_cast<std::size_t>(n_replicates), x.shape(1)});
    run_released([&] { return e.sample_curve(request, orders, cube, out.data()); });
    return out;
}

using Ranked = std::pair<NewArray<std::int32_t, 2>, NewArray<double, 2>>;

// Several outputs: an engine, its rows and its noise for each.
std::vector<Engine::Asked> ask_outputs(const std::vector<const Engine*>& engines,
                                       const std::vector<Array<double, 2>>& xs,
                                       const std::vector<const NoiseTables*>& noises, int n_threads,
                                       const nb::object& progress) {
    require(!engines.empty() && engines.size() == noises.size() && engines.size() == xs.size(),
            "rows and a noise per engine");
    const auto& x = xs[0];
    std::vector<Engine::Asked> outputs;
    for (std::size_t k = 0; k < engines.size(); ++k) {
        require(engines[k] && noises[k], "an engine and a noise are needed");
        require(xs[k].shape(0) == x.shape(0) && xs[k].shape(1) == x.shape(1), "the same rows for all");
        outputs.push_back({engines[k], make_request(*engines[k], xs[k], *noises[k], n_threads, progress)});
    }
    return outputs;
}

Engine::Order order_of(const std::string& method) {
    require(method == "greedy" || method == "single", "method must be 'greedy' or 'single'");
    return method == "greedy" ? Engine::Order::greedy : Engine::Order::single;
}

// By the sum of the gaps of several outputs.
Ranked rank(const std::vector<const Engine*>& engines, const std::vector<Array<double, 2>>& xs,
            const std::vector<const NoiseTables*>& noises, const std::string& method,
            const std::string& strategy, int n_threads, const nb::object& progress) {
    const auto& x = xs[0];
    const auto outputs = ask_outputs(engines, xs, noises, n_threads, progress);
    for (const auto* engine : engines) strategy_of(*engine, strategy);
    const auto s = strategy_of(*engines[0], strategy);
    const auto how = order_of(method);
    auto order = make_array<std::int32_t, 2>({x.shape(0), x.shape(1)});
    auto score = make_array<double, 2>({x.shape(0), x.shape(1)});
    run_released([&] { return Engine::rank(outputs, how, s, order.data(), score.data()); });
    return {order, score};
}

using Raced = std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>, NewArray<double, 2>>;

// By sampled gaps; also the lead of every place.
Raced race(const std::vector<const Engine*>& engines, const std::vector<Array<double, 2>>& xs,
           const std::vector<const NoiseTables*>& noises, const std::string& method,
           const Array<double, 2>& points, const Array<std::int32_t, 1>& column,
           const Array<std::int64_t, 1>& look_end, int n_replicates, double clear, int n_threads,
           const nb::object& progress) {
    const auto outputs = ask_outputs(engines, xs, noises, n_threads, progress);
    const auto& x = xs[0];
    require(column.size() == x.shape(1), "one column per feature");
    const auto cube = make_cube(points, column, look_end, n_replicates);
    const auto how = order_of(method);
    auto order = make_array<std::int32_t, 2>({x.shape(0), x.shape(1)});
    auto score = make_array<double, 2>({x.shape(0), x.shape(1)});
    auto lead = make_array<double, 2>({x.shape(0), x.shape(1)});
    run_released(
        [&] { return Engine::race(outputs, how, cube, clear, order.data(), score.data(), lead.data()); });
    return {order, score, lead};
}

NewArray<double, 1> algorithm1(const Engine& e, const Array<double, 2>& x, const Array<double, 1>& scale,
                               const Array<std::uint8_t, 2>& subset, bool float32) {
    const auto d = static_cast<std::size_t>(e.ensemble().n_features);
    require(x.shape(1) == d && scale.size() == d, "one column and one scale per feature");
    const auto subsets = per_row(e, subset, x.shape(0));
    for (std::size_t i = 0; i < x.size(); ++i) require(std::isfinite(x.data()[i]), "rows must be finite");
    require(depth(e.ensemble()) < 1000, "the trees are too deep");  // it recurses
    require(e.cells().begin.back() == 0, "all features must be numeric");
    auto out = make_array<double, 1>({x.shape(0)});
    const nb::gil_scoped_release released;
    for (std::size_t r = 0; r < x.shape(0); ++r)
        out.data()[r] =
            algorithm1_gap(e.ensemble(), x.data() + r * d, scale.data(),
                           subsets.row(static_cast<std::int64_t>(r), static_cast<std::int64_t>(d)), float32);
    return out;
}

std::pair<NewArray<double, 1>, NewArray<double, 1>> normal_tails(const Array<double, 1>& z) {
    auto below = make_array<double, 1>({z.size()}), above = make_array<double, 1>({z.size()});
    alignas(64) double in[kLanes], low[kLanes], high[kLanes];
    for (std::size_t first = 0; first < z.size(); first += kLanes) {
        const auto n = std::min<std::size_t>(kLanes, z.size() - first);
        std::fill(std::copy_n(z.data() + first, n, in), in + kLanes, 0.0);
        kernels().normal_tails(in, low, high);
        std::copy_n(low, n, below.data() + first);
        std::copy_n(high, n, above.data() + first);
    }
    return {below, above};
}

std::tuple<double, double, double, double> cost(const Engine& e, const Array<std::uint8_t, 1>& subset) {
    require(subset.size() == static_cast<std::size_t>(e.ensemble().n_features), "one entry per feature");
    const auto c = e.cost(subset.data());
    return {c.terms, c.pairs, c.pairs_work, c.pairs_memory};
}

// What each strategy does, for those who fit the constants of the cost; see Counts.
std::pair<std::array<double, 7>, std::array<double, 3>> counts(const Engine& e,
                                                               const Array<std::uint8_t, 1>& subset) {
    require(subset.size() == static_cast<std::size_t>(e.ensemble().n_features), "one entry per feature");
    const auto counts = e.counts(subset.data());
    return {counts.terms, counts.pairs};
}

// Runs work(stop) without the GIL, watching for interruption.
template <class Work>
void run_stoppable(Work work) {
    const auto piece = [&](int, std::int64_t, const std::atomic<bool>& stop) {
        try {
            work(Stop(stop));
        } catch (const Stopped&) {  // the interruption's own exception is set
        }
    };
    const nb::object no_progress = nb::none();
    run_released([&] { return run_pieces(1, 1, [] { return 0; }, piece, make_poll(no_progress)); });
}

void require_sets(const LevelSets& sets, const Array<std::int32_t, 1>& category_set) {
    const auto n_sets = sets.set_feature.size();
    require(sets.set_begin.size() == n_sets + 1 && sets.set_begin.front() == 0 &&
                sets.set_begin.back() == static_cast<std::int32_t>(sets.set_level.size()),
            "sets must begin at 0 and end at the levels");
    for (std::size_t s = 0; s < n_sets; ++s) {
        const auto q = sets.set_feature[s];
        require(q >= 0 && q < static_cast<std::int32_t>(sets.n_levels.size()), "a set of no feature");
        require(sets.set_begin[s] <= sets.set_begin[s + 1], "sets must ascend");
        for (auto i = sets.set_begin[s]; i < sets.set_begin[s + 1]; ++i)
            require(sets.set_level[i] >= 0 && sets.set_level[i] < sets.n_levels[q], "a level out of range");
    }
    for (std::size_t i = 0; i < category_set.size(); ++i)
        require(category_set(i) >= kNumeric && category_set(i) < static_cast<std::int32_t>(n_sets),
                "a set out of range");
}

void make_engine(Engine* self, std::int32_t n_features, const Array<std::int32_t, 1>& root,
                 const Array<std::int32_t, 1>& feature, const Array<double, 1>& threshold,
                 const Array<std::int32_t, 1>& left, const Array<std::int32_t, 1>& right,
                 const Array<std::uint8_t, 1>& default_left, const Array<double, 1>& value,
                 const Array<std::int32_t, 1>& category_set, const Array<std::int32_t, 1>& n_levels,
                 const Array<std::int32_t, 1>& set_feature, const Array<std::int32_t, 1>& set_begin,
                 const Array<std::int32_t, 1>& set_level) {
    const LevelSets sets{copy<std::int32_t>(n_levels), copy<std::int32_t>(set_feature),
                         copy<std::int32_t>(set_begin), copy<std::int32_t>(set_level)};
    require_sets(sets, category_set);
    run_stoppable([&](const Stop& stop) {
        new (self)
            Engine(n_features, copy<std::int32_t>(root), copy<std::int32_t>(feature), copy<double>(threshold),
                   copy<std::int32_t>(left), copy<std::int32_t>(right), copy<std::uint8_t>(default_left),
                   copy<double>(value), copy<std::int32_t>(category_set), sets, stop);
    });
}

// Copies a vector of the engine's.
template <class T>
NewArray<T, 1> array_of(const std::vector<T>& values) {
    auto out = make_array<T, 1>({values.size()});
    std::copy(values.begin(), values.end(), out.data());
    return out;
}

NewArray<double, 1> thresholds(const Engine& e) { return array_of(e.atoms().threshold); }
NewArray<std::int32_t, 1> threshold_begin(const Engine& e) { return array_of(e.atoms().begin); }
NewArray<std::int32_t, 1> cell_begin(const Engine& e) { return array_of(e.cells().begin); }
NewArray<std::int32_t, 1> cell_of_level(const Engine& e) { return array_of(e.cells().of_level); }

void make_category_noise(CategoryNoise* self, const Engine& e, const Array<double, 1>& mass) {
    require(mass.size() == static_cast<std::size_t>(e.cells().begin.back()), "one mass per cell");
    run_stoppable([&](const Stop& stop) {
        new (self)
            CategoryNoise(e.cells(), e.set_atoms(), e.set_pairs(), copy<double>(mass), [&] { stop.check(); });
    });
}

}  // namespace
}  // namespace predgap

NB_MODULE(_core, m) {
    using namespace predgap;
    nb::set_leak_warnings(false);  // a daemon thread may outlive the interpreter
    m.doc() = "Kernels of predgap. Private: arguments are checked by predgap.Explainer.";
    m.def("instruction_set", [] { return kernels().name; });
    m.def("normal_tails", &normal_tails, "z"_a);
    nb::class_<CategoryNoise>(m, "CategoryNoise").def("__init__", &make_category_noise, "engine"_a, "mass"_a);
    nb::class_<NoiseTables>(m, "NoiseTables")
        .def(nb::init<const Array<std::uint8_t, 1>&, const Array<double, 1>&, std::optional<Array<double, 2>>,
                      std::optional<Array<double, 2>>, const CategoryNoise*>(),
             "kinds"_a, "parameters"_a, "below"_a.none(), "above"_a.none(), "categories"_a.none(),
             nb::keep_alive<1, 6>());
    nb::class_<Engine>(m, "Engine")
        .def("__init__", &make_engine, "n_features"_a, "root"_a, "feature"_a, "threshold"_a, "left"_a,
             "right"_a, "default_left"_a, "value"_a, "category_set"_a, "n_levels"_a, "set_feature"_a,
             "set_begin"_a, "set_level"_a)
        .def_prop_ro("thresholds", &thresholds, nb::rv_policy::move)
        .def_prop_ro("threshold_begin", &threshold_begin, nb::rv_policy::move)
        .def_prop_ro("cell_begin", &cell_begin, nb::rv_policy::move)
        .def_prop_ro("cell_of_level", &cell_of_level, nb::rv_policy::move)
        .def_prop_ro("has_terms", &Engine::has_plan)
        .def("cost", &cost, "subset"_a)
        .def("counts", &counts, "subset"_a)
        .def("gap", &gap, "x"_a, "noise"_a, "subset"_a, "strategy"_a, "n_threads"_a, "progress"_a.none())
        .def("mean_change", &mean_change, "x"_a, "noise"_a, "subset"_a, "strategy"_a, "n_threads"_a,
             "progress"_a.none())
        .def("bounded", &bounded, "x"_a, "noise"_a, "subset"_a, "rtol"_a, "n_threads"_a, "progress"_a.none())
        .def("sample", &sample, "x"_a, "noise"_a, "subset"_a, "points"_a, "stretch_end"_a, "n_threads"_a,
             "progress"_a.none())
        .def("curve", &curve, "x"_a, "noise"_a, "order"_a, "strategy"_a, "n_threads"_a, "progress"_a.none())
        .def("sample_curve", &sample_curve, "x"_a, "noise"_a, "order"_a, "points"_a, "column"_a,
             "n_replicates"_a, "n_threads"_a, "progress"_a.none())
        .def("algorithm1", &algorithm1, "x"_a, "scale"_a, "subset"_a, "float32"_a = false);
    m.def("rank", &rank, "engines"_a, "xs"_a, "noises"_a, "method"_a, "strategy"_a, "n_threads"_a,
          "progress"_a.none());
    m.def("race", &race, "engines"_a, "xs"_a, "noises"_a, "method"_a, "points"_a, "column"_a, "look_end"_a,
          "n_replicates"_a, "clear"_a, "n_threads"_a, "progress"_a.none());
}
