// Models, rows, units and accuracies: what questions are about.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <string>

#include "module/call.hpp"
#include "paper/algorithm1.hpp"
#include "planner/prices.hpp"
#include "simd/kernels.hpp"

using namespace nanobind::literals;

namespace predgap {

std::function<bool(std::int64_t)> make_poll(const nb::object& look, const Forecast& forecast,
                                            double n_at_once) {
    return [&look, &forecast, n_at_once](std::int64_t n_done) {
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) return false;
        if (look.is_none()) return true;
        const double milliseconds = 1e-6 * forecast.nanoseconds_of_row() / n_at_once;
        PyObject* answer =
            PyObject_CallFunction(look.ptr(), "Ld", static_cast<long long>(n_done), milliseconds);
        Py_XDECREF(answer);
        return answer != nullptr;
    };
}

Rows::Rows(const Routes& model, Array<double, 2> rows, std::optional<Array<double, 2>> b,
           std::optional<Array<double, 2>> a, std::optional<Array<std::uint8_t, 2>> s)
    : routes(model), x(std::move(rows)), below(std::move(b)), above(std::move(a)), still(std::move(s)) {
    const auto& trees = routes.model;
    const auto d = static_cast<std::size_t>(trees.n_features());
    require(x.shape(1) == d, "one column per feature");
    for (const auto& table : {below, above})
        require(!table || (table->shape(0) == size() &&
                           table->shape(1) == static_cast<std::size_t>(trees.n_thresholds())),
                "tables must be (n_rows, n_thresholds)");
    require(!still || (still->shape(0) == size() && still->shape(1) == d),
            "still must be (n_rows, n_features)");
    for (const auto q : trees.features) {
        const auto column = static_cast<std::size_t>(q);
        if (!trees.cells.categorical(q)) continue;
        for (std::size_t r = 0; r < size(); ++r)
            require(std::isnan(x(r, column)) || (x(r, column) >= 0 && x(r, column) < trees.cells.count(q)),
                    "a cell is out of range");
    }
}

RowArrays Rows::arrays() const {
    return {static_cast<std::int64_t>(size()), x.data(), below ? below->data() : nullptr,
            above ? above->data() : nullptr, still ? still->data() : nullptr};
}

const Units& units_of(const Rows& rows, const Units* given) {
    require(!given || given->n_features() == rows.routes.model.n_features(), "units of another model");
    return given ? *given : rows.routes.features;
}

PerRow<std::int32_t> orders_of(const Rows& rows, const Orders& order, const Units& units) {
    const auto d = units.size();
    const auto n_places = order.shape(1);
    const auto orders = per_row(order, rows, n_places);
    std::vector<std::size_t> seen(static_cast<std::size_t>(d), order.shape(0));
    for (std::size_t r = 0; r < order.shape(0); ++r)
        for (std::size_t k = 0; k < n_places; ++k) {
            const auto q = order(r, k);
            require(q >= 0 && q < d && seen[static_cast<std::size_t>(q)] != r,
                    "an order ranks units of the model's features, each at most once");
            seen[static_cast<std::size_t>(q)] = r;
        }
    return orders;
}

namespace {

void require_sets(const LevelSets& sets, const std::vector<std::int32_t>& category_set) {
    const auto n_sets = sets.set_feature.size();
    require(sets.set_begin.size() == n_sets + 1 && sets.set_begin.front() == 0 &&
                sets.set_begin.back() == static_cast<std::int32_t>(sets.set_level.size()),
            "sets must begin at 0 and end at the levels");
    for (std::size_t s = 0; s < n_sets; ++s) {
        const auto q = sets.set_feature[s];
        require(q >= 0 && q < static_cast<std::int32_t>(sets.n_levels.size()), "a set of no feature");
        require(sets.set_begin[s] <= sets.set_begin[s + 1], "sets must ascend");
        for (auto i = sets.set_begin[s]; i < sets.set_begin[s + 1]; ++i)
            require(
                sets.set_level[static_cast<std::size_t>(i)] >= 0 &&
                    sets.set_level[static_cast<std::size_t>(i)] < sets.n_levels[static_cast<std::size_t>(q)],
                "a level out of range");
    }
    for (const auto s : category_set)
        require(s >= kNumeric && s < static_cast<std::int32_t>(n_sets), "a set out of range");
}

void make_model(Routes* self, std::int32_t n_features, std::int32_t n_outputs,
                const Array<std::int32_t, 1>& root, const Array<std::int32_t, 1>& target,
                const Array<std::int32_t, 1>& feature, const Array<double, 1>& threshold,
                const Array<std::int32_t, 1>& left, const Array<std::int32_t, 1>& right,
                const Array<std::uint8_t, 1>& default_left, const Array<double, 2>& value,
                const Array<std::int32_t, 1>& category_set, const Array<std::int32_t, 1>& n_levels,
                const Array<std::int32_t, 1>& set_feature, const Array<std::int32_t, 1>& set_begin,
                const Array<std::int32_t, 1>& set_level) {
    const LevelSets sets{copy<std::int32_t>(n_levels), copy<std::int32_t>(set_feature),
                         copy<std::int32_t>(set_begin), copy<std::int32_t>(set_level)};
    NodeArrays arrays{n_features,
                      n_outputs,
                      copy<std::int32_t>(root),
                      copy<std::int32_t>(target),
                      copy<std::int32_t>(feature),
                      copy<double>(threshold),
                      copy<std::int32_t>(left),
                      copy<std::int32_t>(right),
                      copy<std::uint8_t>(default_left),
                      std::vector<double>(value.data(), value.data() + value.size()),
                      copy<std::int32_t>(category_set)};
    require_sets(sets, arrays.category_set);
    require(arrays.target.size() == arrays.root.size(), "one target per tree");
    require(value.shape(1) == 1 || value.shape(1) == static_cast<std::size_t>(n_outputs),
            "one value per node, or one per output");
    run_stoppable([&](const auto& check) { new (self) Routes(std::move(arrays), sets, check); });
}

std::pair<NewArray<double, 1>, NewArray<double, 1>> normal_tails(const Array<double, 1>& z) {
    constexpr std::size_t kFour = 4;
    auto below = make_array<double, 1>({z.size()}), above = make_array<double, 1>({z.size()});
    alignas(32) double in[kFour], low[kFour], high[kFour];
    for (std::size_t first = 0; first < z.size(); first += kFour) {
        const auto n = std::min(kFour, z.size() - first);
        std::fill(std::copy_n(z.data() + first, n, in), in + kFour, 0.0);
        kernels().normal_tails(in, low, high);
        std::copy_n(low, n, below.data() + first);
        std::copy_n(high, n, above.data() + first);
    }
    return {below, above};
}

NewArray<double, 2> typical_rows(const Routes& e) {
    constexpr std::int32_t kRows = 12;
    const auto rows = e.typical_rows(kRows);
    auto out = make_array<double, 2>({kRows, static_cast<std::size_t>(e.model.n_features())});
    std::copy(rows.begin(), rows.end(), out.data());
    return out;
}

NewArray<double, 1> algorithm1(const Routes& e, const Array<double, 2>& x, const Array<double, 1>& scale,
                               const Array<std::uint8_t, 2>& subset, bool float32) {
    const auto& model = e.model;
    const auto d = static_cast<std::size_t>(model.n_features());
    require(model.n_outputs() == 1, "one output");
    require(x.shape(1) == d && scale.size() == d, "one column and one scale per feature");
    require(subset.shape(1) == d && (subset.shape(0) == x.shape(0) || subset.shape(0) == 1),
            "subsets of features");
    const auto subsets = PerRow<std::uint8_t>{subset.data(), subset.shape(0) == 1};
    for (std::size_t i = 0; i < x.size(); ++i) require(std::isfinite(x.data()[i]), "rows must be finite");
    require(depth(model.all_trees) < 1000, "the trees are too deep");  // it recurses
    require(model.cells.begin.back() == 0, "all features must be numeric");
    auto out = make_array<double, 1>({x.shape(0)});
    const nb::gil_scoped_release released;
    for (std::size_t r = 0; r < x.shape(0); ++r)
        out.data()[r] =
            algorithm1_gap(model.output[0], x.data() + r * d, scale.data(),
                           subsets.row(static_cast<std::int64_t>(r), static_cast<std::int64_t>(d)), float32);
    return out;
}

void make_accuracy(Accuracy* self, const std::string& kind, double tolerance, const std::string& strategy) {
    Accuracy a;
    a.kind = named<Method>(kind, kMethodNames, "kind must be 'exact', 'bounded' or 'pruned'");
    a.tolerance = a.kind == Method::exact ? 0.0 : tolerance;
    require(a.kind == Method::exact || (tolerance > 0.0 && std::isfinite(tolerance)),
            "a tolerance must be a positive number");
    a.is_forced = strategy != "auto";
    if (strategy == "cells") {
        a.route = Route::compiled;
        a.cell_rule = CellRule::all;
    } else if (a.is_forced) {
        a.route = named<Route>(strategy, kRouteNames,
                               "strategy must be 'auto', 'plan', 'compiled', 'cells' or 'pairs'");
    }
    new (self) Accuracy(a);
}

// Each feature is in one unit, and no unit is empty: all else could not be ranked.
void make_units(Units* self, const Array<std::int32_t, 1>& begin, const Array<std::int32_t, 1>& member) {
    const auto d = static_cast<std::int32_t>(member.size());
    require(begin.size() > 0 && begin(0) == 0 && begin(begin.size() - 1) == d, "units must hold all members");
    for (std::size_t u = 0; u + 1 < begin.size(); ++u) require(begin(u) < begin(u + 1), "a unit is empty");
    std::vector<std::uint8_t> seen(member.size(), 0);
    for (std::size_t i = 0; i < member.size(); ++i) {
        require(member(i) >= 0 && member(i) < d, "a member is no feature");
        require(!std::exchange(seen[static_cast<std::size_t>(member(i))], std::uint8_t{1}),
                "a feature is in two units");
    }
    Buffer<std::int32_t> begins(static_cast<std::int64_t>(begin.size())), members(d);
    std::copy_n(begin.data(), begin.size(), begins.data());
    std::copy_n(member.data(), member.size(), members.data());
    new (self) Units(std::move(begins), std::move(members));
}

}  // namespace

void register_model(nb::module_& m) {
    nb::dict laws;
    for (std::size_t i = 0; i < kLawNames.size(); ++i) laws[kLawNames[i]] = i;
    m.attr("LAWS") = laws;
    nb::list methods;
    for (const auto* name : kMethodNames) methods.append(name);
    m.attr("METHODS") = nb::tuple(methods);
    nb::list routes;
    for (const auto* name : kRouteNames) routes.append(name);
    m.attr("ROUTES") = nb::tuple(routes);
    nb::dict speeds;
    for (const auto& speed : kSpeeds) speeds[speed.name] = nb::make_tuple(speed.nanoseconds, speed.of);
    m.attr("SPEEDS") = speeds;
    m.attr("MOST_SECONDS") = kMostNanoseconds * 1e-9;
    m.attr("MOST_BYTES") = static_cast<std::int64_t>(kMostBytes);
    static nb::object too_costly = nb::steal(PyErr_NewException("predgap._core.TooCostly", nullptr, nullptr));
    m.attr("TooCostly") = too_costly;
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const TooCostly& e) {
            const auto args = nb::make_tuple(e.row, e.nanoseconds * 1e-6, e.bytes * 1e-6);
            PyErr_SetObject(too_costly.ptr(), args.ptr());
        }
    });
    m.def("instruction_set", [] { return kernels().name; });
    m.def("normal_tails", &normal_tails, "z"_a);
    nb::class_<Routes>(m, "Model")
        .def("__init__", &make_model, "n_features"_a, "n_outputs"_a, "root"_a, "target"_a, "feature"_a,
             "threshold"_a, "left"_a, "right"_a, "default_left"_a, "value"_a, "category_set"_a, "n_levels"_a,
             "set_feature"_a, "set_begin"_a, "set_level"_a)
        .def_prop_ro(
            "thresholds", [](const Routes& e) { return array_of(e.model.atoms.threshold); },
            nb::rv_policy::move)
        .def_prop_ro(
            "threshold_begin", [](const Routes& e) { return array_of(e.model.atoms.begin); },
            nb::rv_policy::move)
        .def_prop_ro(
            "cell_begin", [](const Routes& e) { return array_of(e.model.cells.begin); }, nb::rv_policy::move)
        .def_prop_ro(
            "cell_of_level", [](const Routes& e) { return array_of(e.model.cells.of_level); },
            nb::rv_policy::move)
        .def_prop_ro("has_plan", [](const Routes& e) { return !e.plan.empty(); })
        .def(
            "limit_work",
            [](Routes& e, double milliseconds, double megabytes) {
                e.limits = {1e6 * milliseconds, 1e6 * megabytes};
            },
            "milliseconds"_a, "megabytes"_a)
        .def("typical_rows", &typical_rows);
    nb::class_<Rows>(m, "Rows").def(
        nb::init<const Routes&, Array<double, 2>, std::optional<Array<double, 2>>,
                 std::optional<Array<double, 2>>, std::optional<Array<std::uint8_t, 2>>>(),
        "model"_a, "x"_a, "below"_a.none(), "above"_a.none(), "still"_a.none(), nb::keep_alive<1, 2>());
    nb::class_<Accuracy>(m, "Accuracy")
        .def("__init__", &make_accuracy, "kind"_a, "tolerance"_a = 0.0, "strategy"_a = "auto");
    nb::class_<Units>(m, "Units").def("__init__", &make_units, "begin"_a, "member"_a);
    m.def("algorithm1", &algorithm1, "model"_a, "x"_a, "scale"_a, "subset"_a, "float32"_a = false);
}

}  // namespace predgap
