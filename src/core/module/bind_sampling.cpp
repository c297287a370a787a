// Samples: sums that Python turns into estimates.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <string>
#include <tuple>

#include "module/arrays.hpp"

using namespace nanobind::literals;

namespace predgap {
namespace {

// Points for all rows or for each, one coordinate per feature of the subset; stretches that end with them.
Points checked_points(const Rows& rows, const Array<std::uint8_t, 1>& subset, const Array<double, 3>& points,
                      const Array<std::int64_t, 1>& stretch_end) {
    require(subset.size() == static_cast<std::size_t>(rows.engine.model().n_features()),
            "one entry per feature");
    const auto n_columns = static_cast<std::size_t>(
        std::count_if(subset.data(), subset.data() + subset.size(), [](auto in) { return in != 0; }));
    require(points.shape(2) == n_columns, "one coordinate per feature of the subset");
    require(points.shape(0) == rows.size() || points.shape(0) == 1, "points for all rows, or for each");
    std::int64_t last = 0;
    for (std::size_t i = 0; i < stretch_end.size(); ++i) {
        require(stretch_end(i) >= last, "stretches must ascend");
        last = stretch_end(i);
    }
    require(last == static_cast<std::int64_t>(points.shape(1)), "stretches must end with the points");
    for (std::size_t i = 0; i < points.size(); ++i)
        require(points.data()[i] >= 0.0 && points.data()[i] < 1.0, "points must lie in [0, 1)");
    return {points.data(),
            points.shape(0) == 1,
            static_cast<std::int64_t>(points.shape(1)),
            static_cast<std::int32_t>(n_columns),
            {stretch_end.data(), stretch_end.size()}};
}

NewArray<double, 3> sample(const Rows& rows, std::int32_t output, const Array<std::uint8_t, 1>& subset,
                           const Array<double, 3>& points, const Array<std::int64_t, 1>& stretch_end,
                           int n_threads, const nb::object& progress) {
    require(output >= 0 && output < rows.engine.model().n_outputs(), "an output out of range");
    const auto view = checked_points(rows, subset, points, stretch_end);
    auto out = make_array<double, 3>({rows.size(), stretch_end.size(), 3});
    static_assert(sizeof(Moments) == 3 * sizeof(double));
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.sample(request, output, subset.data(), view,
                                  reinterpret_cast<Moments*>(out.data()));
    });
    return out;
}

NewArray<double, 3> sample_changes(const Rows& rows, const Array<std::uint8_t, 1>& subset,
                                   const Array<double, 3>& points, int n_threads,
                                   const nb::object& progress) {
    const std::int64_t end[] = {static_cast<std::int64_t>(points.shape(1))};
    const auto view = checked_points(rows, subset, points, Array<std::int64_t, 1>(end, {1}));
    auto out = make_array<double, 3>(
        {rows.size(), static_cast<std::size_t>(rows.engine.model().n_outputs()), points.shape(1)});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return rows.engine.sample_changes(request, subset.data(), view, out.data()); });
    return out;
}

// The points of samples that all rows share.
SharedPoints shared_points(const Rows& rows, const Array<double, 2>& points,
                           const Array<std::int32_t, 1>& column, const Array<std::int64_t, 1>& look_end,
                           int n_replicates) {
    const auto n_points = static_cast<std::int64_t>(points.shape(0));
    require(column.size() == static_cast<std::size_t>(rows.engine.model().n_features()),
            "one column per feature");
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

NewArray<double, 3> sample_curve(const Rows& rows, const Array<std::int32_t, 2>& order,
                                 const Array<double, 2>& points, const Array<std::int32_t, 1>& column,
                                 int n_replicates, int n_threads, const nb::object& progress,
                                 const Units* given) {
    const auto& units = units_of(rows, given);
    const auto orders = orders_of(rows, order, units.size());
    const std::int64_t end[] = {static_cast<std::int64_t>(points.shape(0))};
    const auto shared = shared_points(rows, points, column, Array<std::int64_t, 1>(end, {1}), n_replicates);
    auto out = make_array<double, 3>({rows.size(), static_cast<std::size_t>(n_replicates), order.shape(1)});
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.sample_curve(request, units, orders, static_cast<std::int32_t>(order.shape(1)),
                                        shared, out.data());
    });
    return out;
}

std::tuple<NewArray<std::int32_t, 2>, NewArray<double, 2>, NewArray<double, 2>> race(
    const Rows& rows, const std::string& method, std::int32_t top, const Array<double, 2>& points,
    const Array<std::int32_t, 1>& column, const Array<std::int64_t, 1>& look_end, int n_replicates,
    double clear, int n_threads, const nb::object& progress, const Units* given) {
    const auto& units = units_of(rows, given);
    require(method == "greedy" || method == "single", "method must be 'greedy' or 'single'");
    require(top >= 0 && top <= units.size(), "top must be at most the number of units");
    const auto shared = shared_points(rows, points, column, look_end, n_replicates);
    const auto k = static_cast<std::size_t>(top);
    auto order = make_array<std::int32_t, 2>({rows.size(), k});
    auto score = make_array<double, 2>({rows.size(), static_cast<std::size_t>(units.size())});
    auto lead = make_array<double, 2>({rows.size(), k});
    std::fill_n(score.data(), score.size(), std::numeric_limits<double>::quiet_NaN());
    const auto request = rows.request(n_threads, progress);
    run_released([&] {
        return rows.engine.race(request, units, method == "greedy", top, shared, clear, order.data(),
                                score.data(), lead.data());
    });
    return {order, score, lead};
}

}  // namespace

void bind_sampling(nb::module_& m) {
    m.def("sample", &sample, "rows"_a, "output"_a, "subset"_a, "points"_a, "stretch_end"_a, "n_threads"_a,
          "progress"_a.none());
    m.def("sample_changes", &sample_changes, "rows"_a, "subset"_a, "points"_a, "n_threads"_a,
          "progress"_a.none());
    m.def("sample_curve", &sample_curve, "rows"_a, "order"_a, "points"_a, "column"_a, "n_replicates"_a,
          "n_threads"_a, "progress"_a.none(), "units"_a.none() = nb::none());
    m.def("race", &race, "rows"_a, "method"_a, "top"_a, "points"_a, "column"_a, "look_end"_a,
          "n_replicates"_a, "clear"_a, "n_threads"_a, "progress"_a.none(), "units"_a.none() = nb::none());
}

}  // namespace predgap
