// Gaps, curves, rankings and costs.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "module/arrays.hpp"

using namespace nanobind::literals;

namespace predgap {

const Units& units_of(const Rows& rows, const Units* given) {
    require(!given || given->n_features() == rows.engine.model().n_features(), "units of another model");
    return given ? *given : rows.engine.features();
}

PerRow<std::int32_t> orders_of(const Rows& rows, const Array<std::int32_t, 2>& order, std::int32_t d) {
    const auto n_places = order.shape(1);
    const auto orders = per_row(order, rows.size(), n_places);
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

constexpr std::array<const char*, 3> kRouteNames{"plan", "compiled", "pairs"};

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

void require_route(const Rows& rows, const Accuracy& accuracy) {
    require(!accuracy.is_forced || accuracy.route != Route::plan || rows.engine.has_plan(),
            "the terms of this model are too many for a plan");
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

// Bounds and methods of an answer, as Python gets them.
struct NewAnswers {
    NewArray<double, 1> bound;
    NewArray<std::uint8_t, 1> method;
    explicit NewAnswers(std::size_t n)
        : bound(make_array<double, 1>({n})), method(make_array<std::uint8_t, 1>({n})) {}
    Answers view() const { return {bound.data(), method.data()}; }
};

std::tuple<NewArray<double, 1>, NewArray<double, 1>, NewArray<std::uint8_t, 1>> gap(
    const Rows& rows, const Array<std::uint8_t, 2>& subset, const Accuracy& accuracy, int n_threads,
    const nb::object& progress) {
    require_route(rows, accuracy);
    const auto subsets =
        per_row(subset, rows.size(), static_cast<std::size_t>(rows.engine.model().n_features()));
    auto value = make_array<double, 1>({rows.size()});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return rows.engine.gap(request, subsets, accuracy, value.data(), answers.view()); });
    return {value, answers.bound, answers.method};
}

std::tuple<NewArray<double, 2>, NewArray<double, 1>, NewArray<std::uint8_t, 1>> curve(
    const Rows& rows, const Array<std::int32_t, 2>& order, const Accuracy& accuracy, int n_threads,
    const nb::object& progress, const Units* given) {
    require_route(rows, accuracy);
    const auto& units = units_of(rows, given);
    const auto orders = orders_of(rows, order, units.size());
    auto value = make_array<double, 2>({rows.size(), order.shape(1)});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.curve(request, units, orders, static_cast<std::int32_t>(order.shape(1)), accuracy,
                                 value.data(), answers.view());
    });
    return {value, answers.bound, answers.method};
}

std::tuple<NewArray<double, 2>, NewArray<double, 1>, NewArray<std::uint8_t, 1>> subset_gaps(
    const Rows& rows, const Array<std::int32_t, 2>& chosen, const Array<double, 1>& share,
    const Accuracy& accuracy, int n_threads, const nb::object& progress, const Units* given) {
    constexpr std::size_t kMostUnits = 20;
    require_route(rows, accuracy);
    const auto& units = units_of(rows, given);
    const auto m = chosen.shape(1);
    require(m <= kMostUnits && share.size() == m + 1, "at most 20 units, and a share for each size");
    require(chosen.shape(0) == rows.size(), "units for each row");
    orders_of(rows, chosen, units.size());
    auto value = make_array<double, 2>({rows.size(), std::size_t{1} << m});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.subset_gaps(request, units, chosen.data(), static_cast<std::int32_t>(m),
                                       share.data(), accuracy, value.data(), answers.view());
    });
    return {value, answers.bound, answers.method};
}

std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>, NewArray<double, 1>, NewArray<std::uint8_t, 1>>
search(const Rows& rows, const Array<std::int32_t, 2>& chosen, std::int32_t n_places, std::int32_t width,
       const Accuracy& accuracy, int n_threads, const nb::object& progress, const Units* given) {
    require_route(rows, accuracy);
    const auto& units = units_of(rows, given);
    require(chosen.shape(0) == rows.size() && width > 0, "units for each row, and a positive width");
    const auto m = static_cast<std::int32_t>(chosen.shape(1));
    require(n_places >= 0 && n_places <= m, "not more places than units");
    const auto k = static_cast<std::size_t>(n_places);
    orders_of(rows, chosen, units.size());
    auto order = make_array<std::int32_t, 2>({rows.size(), k});
    auto value = make_array<double, 2>({rows.size(), k});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.search(request, units, chosen.data(), m, n_places, width, accuracy, order.data(),
                                  value.data(), answers.view());
    });
    return {order, value, answers.bound, answers.method};
}

NewArray<std::uint8_t, 2> moving_units(const Rows& rows, int n_threads, const Units* given) {
    const auto& units = units_of(rows, given);
    auto moving = make_array<std::uint8_t, 2>({rows.size(), static_cast<std::size_t>(units.size())});
    const nb::object no_progress = nb::none();
    const auto request = rows.request(n_threads, no_progress);
    run_released([&] { return rows.engine.moving_units(request, units, moving.data()); });
    return moving;
}

NewArray<double, 2> mean_change(const Rows& rows, const Array<std::uint8_t, 2>& subset, int n_threads,
                                const nb::object& progress) {
    const auto& model = rows.engine.model();
    const auto subsets = per_row(subset, rows.size(), static_cast<std::size_t>(model.n_features()));
    auto change = make_array<double, 2>({rows.size(), static_cast<std::size_t>(model.n_outputs())});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return rows.engine.mean_change(request, subsets, change.data()); });
    return change;
}

NewArray<double, 2> value(const Rows& rows, int n_threads) {
    auto found =
        make_array<double, 2>({rows.size(), static_cast<std::size_t>(rows.engine.model().n_outputs())});
    const nb::object no_progress = nb::none();
    const auto request = rows.request(n_threads, no_progress);
    run_released([&] { return rows.engine.value(request, found.data()); });
    return found;
}

std::tuple<NewArray<double, 2>, NewArray<double, 3>, NewArray<double, 1>, NewArray<std::uint8_t, 1>> moments(
    const Rows& rows, const Array<std::uint8_t, 2>& subset, const Accuracy& accuracy, int n_threads,
    const nb::object& progress) {
    const auto& model = rows.engine.model();
    require_route(rows, accuracy);
    const auto subsets = per_row(subset, rows.size(), static_cast<std::size_t>(model.n_features()));
    const auto k = static_cast<std::size_t>(model.n_outputs());
    auto change = make_array<double, 2>({rows.size(), k});
    auto covariance = make_array<double, 3>({rows.size(), k, k});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.moments(request, subsets, accuracy, change.data(), covariance.data(),
                                   answers.view());
    });
    return {change, covariance, answers.bound, answers.method};
}

std::tuple<NewArray<double, 2>, NewArray<double, 1>, NewArray<std::uint8_t, 1>> main_weights(
    const Rows& rows, const Array<std::uint8_t, 2>& subset, const Accuracy& accuracy, int n_threads,
    const nb::object& progress) {
    const auto& model = rows.engine.model();
    require_route(rows, accuracy);
    require(model.n_outputs() == 1, "a model with one output");
    const auto subsets = per_row(subset, rows.size(), static_cast<std::size_t>(model.n_features()));
    auto weights = make_array<double, 2>({rows.size(), static_cast<std::size_t>(model.n_thresholds())});
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released(
        [&] { return rows.engine.main_weights(request, subsets, accuracy, weights.data(), answers.view()); });
    return {weights, answers.bound, answers.method};
}

std::tuple<NewArray<double, 1>, NewArray<double, 3>, NewArray<double, 3>, NewArray<double, 1>,
           NewArray<std::uint8_t, 1>>
sensitivity(const Rows& rows, const Accuracy& accuracy, int n_threads, const nb::object& progress,
            const Units* given) {
    require_route(rows, accuracy);
    const auto& units = units_of(rows, given);
    const auto n = rows.size(), m = static_cast<std::size_t>(units.size());
    auto variance = make_array<double, 1>({n});
    auto alone = make_array<double, 3>({3, n, m}), interaction = make_array<double, 3>({n, m, m});
    const NewAnswers answers(n);
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.sensitivity(request, units, accuracy,
                                       {variance.data(), alone.data(), alone.data() + n * m,
                                        alone.data() + 2 * n * m, interaction.data()},
                                       answers.view());
    });
    return {variance, alone, interaction, answers.bound, answers.method};
}

std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>, NewArray<std::uint8_t, 2>, NewArray<double, 1>,
           NewArray<std::uint8_t, 1>>
rank(const Rows& rows, const std::string& method, std::int32_t top, const Accuracy& accuracy, int n_threads,
     const nb::object& progress, const Units* given) {
    const auto& units = units_of(rows, given);
    require(method == "greedy" || method == "single", "method must be 'greedy' or 'single'");
    require(top >= 0 && top <= units.size(), "top must be at most the number of units");
    require_route(rows, accuracy);
    const auto k = static_cast<std::size_t>(top);
    auto order = make_array<std::int32_t, 2>({rows.size(), k});
    auto score = make_array<double, 2>({rows.size(), static_cast<std::size_t>(units.size())});
    auto proven = make_array<std::uint8_t, 2>({rows.size(), k});
    std::fill_n(score.data(), score.size(), std::numeric_limits<double>::quiet_NaN());
    const NewAnswers answers(rows.size());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.rank(request, units, method == "greedy", top, accuracy, order.data(), score.data(),
                                proven.data(), answers.view());
    });
    return {order, score, proven, answers.bound, answers.method};
}

std::tuple<NewArray<std::uint8_t, 1>, NewArray<double, 1>, NewArray<double, 1>> cost(
    const Rows& rows, const std::string& question, const Array<std::uint8_t, 2>& features, std::int32_t top,
    const Accuracy& accuracy, const Units* given) {
    require_route(rows, accuracy);
    const auto& units = units_of(rows, given);
    const auto asked = named<Question>(question, kQuestionNames, "an unknown question");
    const auto subsets =
        per_row(features, rows.size(), static_cast<std::size_t>(rows.engine.model().n_features()));
    std::vector<Cost> costs(rows.size());
    const nb::object no_progress = nb::none();
    const auto request = rows.request(1, no_progress);
    run_released(
        [&] { return rows.engine.cost(request, units, asked, subsets, top, accuracy, costs.data()); });
    auto method = make_array<std::uint8_t, 1>({rows.size()});
    auto milliseconds = make_array<double, 1>({rows.size()}),
         megabytes = make_array<double, 1>({rows.size()});
    for (std::size_t r = 0; r < costs.size(); ++r) {
        method.data()[r] = static_cast<std::uint8_t>(costs[r].method);
        milliseconds.data()[r] = costs[r].nanoseconds * 1e-6;
        megabytes.data()[r] = costs[r].bytes * 1e-6;
    }
    return {method, milliseconds, megabytes};
}

}  // namespace

void bind_answers(nb::module_& m) {
    nb::list methods;
    for (const auto* name : kMethodNames) methods.append(name);
    m.attr("METHODS") = nb::tuple(methods);
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
    nb::class_<Accuracy>(m, "Accuracy")
        .def("__init__", &make_accuracy, "kind"_a, "tolerance"_a = 0.0, "strategy"_a = "auto");
    nb::class_<Units>(m, "Units").def("__init__", &make_units, "begin"_a, "member"_a);
    m.def("gap", &gap, "rows"_a, "subset"_a, "accuracy"_a, "n_threads"_a, "progress"_a.none());
    m.def("curve", &curve, "rows"_a, "order"_a, "accuracy"_a, "n_threads"_a, "progress"_a.none(),
          "units"_a.none() = nb::none());
    m.def("subset_gaps", &subset_gaps, "rows"_a, "chosen"_a, "share"_a, "accuracy"_a, "n_threads"_a,
          "progress"_a.none(), "units"_a.none() = nb::none());
    m.def("search", &search, "rows"_a, "chosen"_a, "n_places"_a, "width"_a, "accuracy"_a, "n_threads"_a,
          "progress"_a.none(), "units"_a.none() = nb::none());
    m.def("moving_units", &moving_units, "rows"_a, "n_threads"_a, "units"_a.none() = nb::none());
    m.def("mean_change", &mean_change, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none());
    m.def("value", &value, "rows"_a, "n_threads"_a);
    m.def("main_weights", &main_weights, "rows"_a, "subset"_a, "accuracy"_a, "n_threads"_a,
          "progress"_a.none());
    m.def("moments", &moments, "rows"_a, "subset"_a, "accuracy"_a, "n_threads"_a, "progress"_a.none());
    m.def("sensitivity", &sensitivity, "rows"_a, "accuracy"_a, "n_threads"_a, "progress"_a.none(),
          "units"_a.none() = nb::none());
    m.def("rank", &rank, "rows"_a, "method"_a, "top"_a, "accuracy"_a, "n_threads"_a, "progress"_a.none(),
          "units"_a.none() = nb::none());
    m.def("cost", &cost, "rows"_a, "question"_a, "features"_a, "top"_a, "accuracy"_a,
          "units"_a.none() = nb::none());
}

}  // namespace predgap
