// Joint redraws.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/background.hpp"
#include "module/arrays.hpp"
#include "sampling/box_list.hpp"

using namespace nanobind::literals;

namespace predgap {
namespace {

void make_background(Background* self, const Rows& rows) {
    require(rows.size() > 0, "at least one row");
    new (self) Background(rows.engine, rows.x.data(), static_cast<std::int64_t>(rows.size()));
}

void require_fit(const Background& background, const Rows& rows, const Units& units) {
    require(&rows.engine == &background.engine(), "the rows are those of another engine");
    require(units.n_features() == rows.engine.model().n_features(), "units of another model");
}

PerRow<std::uint8_t> subsets_of(const Background& background, const Rows& rows,
                                const Array<std::uint8_t, 2>& subset) {
    require(&rows.engine == &background.engine(), "the rows are those of another engine");
    return per_row(subset, rows.size(), static_cast<std::size_t>(rows.engine.model().n_features()));
}

NewArray<double, 1> gap(const Background& background, const Rows& rows, const Array<std::uint8_t, 2>& subset,
                        int n_threads, const nb::object& progress) {
    const auto subsets = subsets_of(background, rows, subset);
    auto value = make_array<double, 1>({rows.size()});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.gap(request, subsets, value.data()); });
    return value;
}

NewArray<double, 2> mean_change(const Background& background, const Rows& rows,
                                const Array<std::uint8_t, 2>& subset, int n_threads,
                                const nb::object& progress) {
    const auto subsets = subsets_of(background, rows, subset);
    auto change =
        make_array<double, 2>({rows.size(), static_cast<std::size_t>(rows.engine.model().n_outputs())});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.mean_change(request, subsets, change.data()); });
    return change;
}

NewArray<double, 3> changes(const Background& background, const Rows& rows,
                            const Array<std::uint8_t, 2>& subset, int n_threads, const nb::object& progress) {
    const auto subsets = subsets_of(background, rows, subset);
    auto found =
        make_array<double, 3>({rows.size(), static_cast<std::size_t>(rows.engine.model().n_outputs()),
                               static_cast<std::size_t>(background.n_redrawn())});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.changes(request, subsets, found.data()); });
    return found;
}

std::tuple<NewArray<double, 2>, NewArray<double, 3>> moments(const Background& background, const Rows& rows,
                                                             const Array<std::uint8_t, 2>& subset,
                                                             int n_threads, const nb::object& progress) {
    const auto subsets = subsets_of(background, rows, subset);
    const auto k = static_cast<std::size_t>(rows.engine.model().n_outputs());
    auto change = make_array<double, 2>({rows.size(), k});
    auto covariance = make_array<double, 3>({rows.size(), k, k});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.moments(request, subsets, change.data(), covariance.data()); });
    return {change, covariance};
}

NewArray<double, 2> curve(const Background& background, const Rows& rows, const Array<std::int32_t, 2>& order,
                          const Units& units, int n_threads, const nb::object& progress) {
    require_fit(background, rows, units);
    const auto orders = orders_of(rows, order, units.size());
    auto value = make_array<double, 2>({rows.size(), order.shape(1)});
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return background.curve(request, units, orders, static_cast<std::int32_t>(order.shape(1)),
                                value.data());
    });
    return value;
}

std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>> rank(const Background& background,
                                                                const Rows& rows, const std::string& method,
                                                                std::int32_t top, const Units& units,
                                                                int n_threads, const nb::object& progress) {
    require_fit(background, rows, units);
    require(method == "greedy" || method == "single", "method must be 'greedy' or 'single'");
    require(top >= 0 && top <= units.size(), "top must be at most the number of units");
    const auto k = static_cast<std::size_t>(top);
    auto order = make_array<std::int32_t, 2>({rows.size(), k});
    auto score = make_array<double, 2>({rows.size(), static_cast<std::size_t>(units.size())});
    std::fill_n(score.data(), score.size(), std::numeric_limits<double>::quiet_NaN());
    const auto request = rows.request(n_threads, progress);
    run_released(
        [&] { return background.rank(request, units, method == "greedy", top, order.data(), score.data()); });
    return {order, score};
}

std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>> search(const Background& background,
                                                                  const Rows& rows,
                                                                  const Array<std::int32_t, 2>& chosen,
                                                                  std::int32_t n_places, std::int32_t width,
                                                                  const Units& units, int n_threads,
                                                                  const nb::object& progress) {
    require_fit(background, rows, units);
    require(chosen.shape(0) == rows.size() && width > 0, "units for each row, and a positive width");
    const auto m = static_cast<std::int32_t>(chosen.shape(1));
    require(n_places >= 0 && n_places <= m, "not more places than units");
    const auto k = static_cast<std::size_t>(n_places);
    orders_of(rows, chosen, units.size());
    auto order = make_array<std::int32_t, 2>({rows.size(), k});
    auto value = make_array<double, 2>({rows.size(), k});
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return background.search(request, units, chosen.data(), m, n_places, width, order.data(),
                                 value.data());
    });
    return {order, value};
}

std::tuple<double, double> cost(const Background& background, const std::string& question,
                                std::int32_t n_units, std::int32_t top) {
    const auto found =
        background.cost(named<Question>(question, kQuestionNames, "an unknown question"), n_units, top);
    return {found.nanoseconds * 1e-6, found.bytes * 1e-6};
}

NewArray<double, 2> subset_gaps(const Background& background, const Rows& rows,
                                const Array<std::int32_t, 2>& chosen, const Units& units, int n_threads,
                                const nb::object& progress) {
    require_fit(background, rows, units);
    require(chosen.shape(0) == rows.size() && chosen.shape(1) <= 20, "at most 20 units for each row");
    orders_of(rows, chosen, units.size());
    const auto m = static_cast<std::int32_t>(chosen.shape(1));
    auto value = make_array<double, 2>({rows.size(), std::size_t{1} << m});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.subset_gaps(request, units, chosen.data(), m, value.data()); });
    return value;
}

// For all numbers of units that two boxes may need.
BoxWeights weights_of(const Background& background, const Units& units, const Array<double, 2>& weights) {
    const auto most = static_cast<std::size_t>(std::min(units.size(), background.most_of_a_pair()));
    require(weights.shape(0) > most && weights.shape(1) > most, "too few weights");
    return {weights.data(), static_cast<std::int32_t>(weights.shape(1))};
}

NewArray<double, 1> mean_gap(const Background& background, const Rows& rows, const Array<double, 2>& weights,
                             const Units& units, int n_threads, const nb::object& progress) {
    require_fit(background, rows, units);
    const auto pairs = weights_of(background, units, weights);
    auto value = make_array<double, 1>({rows.size()});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.mean_gap(request, units, pairs, value.data()); });
    return value;
}

NewArray<double, 2> shapley(const Background& background, const Rows& rows, const Array<double, 2>& gained,
                            const Array<double, 2>& lost, const Units& units, int n_threads,
                            const nb::object& progress) {
    require_fit(background, rows, units);
    require(lost.shape(0) == gained.shape(0) && lost.shape(1) == gained.shape(1), "weights of two shapes");
    const auto pairs = weights_of(background, units, gained);
    auto value = make_array<double, 2>({rows.size(), static_cast<std::size_t>(units.size())});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return background.shapley(request, units, pairs, lost.data(), value.data()); });
    return value;
}

NewArray<double, 2> box_costs(const Background& background, const Rows& rows, std::int32_t m,
                              const Units& units, int n_threads) {
    require_fit(background, rows, units);
    std::vector<BoxCost> found(rows.size());
    const nb::object no_progress = nb::none();
    const auto request = rows.request(n_threads, no_progress);
    run_released([&] { return background.box_costs(request, units, m, found.data()); });
    auto cost = make_array<double, 2>({rows.size(), 3});
    for (std::size_t r = 0; r < rows.size(); ++r) {
        cost(r, 0) = found[r].mean_gap * 1e-6;
        cost(r, 1) = found[r].shapley * 1e-6;
        cost(r, 2) = found[r].subset_gaps * 1e-6;
    }
    return cost;
}

}  // namespace

void bind_background(nb::module_& m) {
    nb::class_<Background>(m, "Background")
        .def("__init__", &make_background, "rows"_a, nb::keep_alive<1, 2>())
        .def("gap", &gap, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none())
        .def("changes", &changes, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none())
        .def("mean_change", &mean_change, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none())
        .def("moments", &moments, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none())
        .def("curve", &curve, "rows"_a, "order"_a, "units"_a, "n_threads"_a, "progress"_a.none())
        .def("rank", &rank, "rows"_a, "method"_a, "top"_a, "units"_a, "n_threads"_a, "progress"_a.none())
        .def("search", &search, "rows"_a, "chosen"_a, "n_places"_a, "width"_a, "units"_a, "n_threads"_a,
             "progress"_a.none())
        .def("subset_gaps", &subset_gaps, "rows"_a, "chosen"_a, "units"_a, "n_threads"_a, "progress"_a.none())
        .def("mean_gap", &mean_gap, "rows"_a, "weights"_a, "units"_a, "n_threads"_a, "progress"_a.none())
        .def("shapley", &shapley, "rows"_a, "gained"_a, "lost"_a, "units"_a, "n_threads"_a,
             "progress"_a.none())
        .def("box_costs", &box_costs, "rows"_a, "m"_a, "units"_a, "n_threads"_a)
        .def_prop_ro("most_of_a_pair", &Background::most_of_a_pair)
        .def("cost", &cost, "question"_a, "n_units"_a, "top"_a);
}

}  // namespace predgap
