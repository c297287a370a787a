// The questions that every kernel answers: gaps, curves, rankings, moments. A new one is a method of the
// kernels' rows, and one registration here.
#pragma once

#include <limits>
#include <string>

#include "module/call.hpp"
#include "rows/independent.hpp"

namespace predgap {

using namespace nanobind::literals;

inline bool is_greedy(const std::string& method) {
    require(method == "greedy" || method == "single", "method must be 'greedy' or 'single'");
    return method == "greedy";
}

template <class Kernel>
void register_answers(nb::class_<Kernel>& kernel) {
    using Row = typename Kernel::Row;
    kernel.def(
        "gap",
        [](const Kernel& k, const Rows& rows, const Masks& masks, const Accuracy& accuracy,
           nb::handle context) {
            const auto subsets = subsets_of(rows, masks);
            const auto d = rows.routes.model.n_features();
            return answer_rows(
                k, rows, {Question::gap, &rows.routes.features}, accuracy, context,
                [&](Row& row, std::int64_t r, double* gap) {
                    return row.gap(subsets.row(r, d), accuracy, *gap);
                },
                blocks<double>(rows));
        },
        "rows"_a, "masks"_a, "accuracy"_a, "context"_a);
    kernel.def(
        "curve",
        [](const Kernel& k, const Rows& rows, const Orders& order, const Accuracy& accuracy,
           nb::handle context, const Units* given) {
            const auto& units = units_of(rows, given);
            const auto orders = orders_of(rows, order, units);
            const auto n = static_cast<std::int32_t>(order.shape(1));
            return answer_rows(
                k, rows, {Question::curve, &units, n}, accuracy, context,
                [&](Row& row, std::int64_t r, double* gaps) {
                    return row.curve(units, orders.row(r, n), n, accuracy, gaps);
                },
                blocks<double>(rows, n));
        },
        "rows"_a, "order"_a, "accuracy"_a, "context"_a, "units"_a.none() = nb::none());
    kernel.def(
        "rank",
        [](const Kernel& k, const Rows& rows, const std::string& method, std::int32_t top,
           const Accuracy& accuracy, nb::handle context, const Units* given) {
            const auto& units = units_of(rows, given);
            const bool greedy = is_greedy(method);
            require(top >= 0 && top <= units.size(), "top must be at most the number of units");
            constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
            return answer_rows(
                k, rows, {greedy ? Question::greedy : Question::single, &units, top}, accuracy, context,
                [&](Row& row, std::int64_t, std::int32_t* order, double* score, std::uint8_t* proven) {
                    const Places places{top, order, score, proven};
                    return greedy ? row.greedy(units, places, accuracy) : row.single(units, places, accuracy);
                },
                blocks<std::int32_t>(rows, top), blocks_of(kNone, rows, units.size()),
                blocks<std::uint8_t>(rows, top));
        },
        "rows"_a, "method"_a, "top"_a, "accuracy"_a, "context"_a, "units"_a.none() = nb::none());
    kernel.def(
        "search",
        [](const Kernel& k, const Rows& rows, const Orders& chosen, std::int32_t n_places, std::int32_t width,
           const Accuracy& accuracy, nb::handle context, const Units* given) {
            const auto& units = units_of(rows, given);
            require(chosen.shape(0) == rows.size() && width > 0, "units for each row, and a positive width");
            const auto m = static_cast<std::int32_t>(chosen.shape(1));
            require(n_places >= 0 && n_places <= m, "not more places than units");
            const auto some = orders_of(rows, chosen, units);
            return answer_rows(
                k, rows, {Question::search, &units, n_places * width}, accuracy, context,
                [&](Row& row, std::int64_t r, std::int32_t* order, double* gaps) {
                    return row.search(units, some.row(r, m), m, n_places, width, accuracy, order, gaps);
                },
                blocks<std::int32_t>(rows, n_places), blocks<double>(rows, n_places));
        },
        "rows"_a, "chosen"_a, "n_places"_a, "width"_a, "accuracy"_a, "context"_a,
        "units"_a.none() = nb::none());
    kernel.def(
        "subset_gaps",
        [](const Kernel& k, const Rows& rows, const Orders& chosen, const Array<double, 1>& share,
           const Accuracy& accuracy, nb::handle context, const Units* given) {
            constexpr std::size_t kMostUnits = 20;
            const auto& units = units_of(rows, given);
            require(chosen.shape(1) <= kMostUnits && share.size() == chosen.shape(1) + 1,
                    "at most 20 units, and a share for each size");
            require(chosen.shape(0) == rows.size(), "units for each row");
            const auto some = orders_of(rows, chosen, units);
            const auto m = static_cast<std::int32_t>(chosen.shape(1));
            return answer_rows(
                k, rows, {Question::subsets, &units, m}, accuracy, context,
                [&](Row& row, std::int64_t r, double* gaps) {
                    return row.subset_gaps(units, some.row(r, m), m, share.data(), accuracy, gaps);
                },
                blocks<double>(rows, std::int64_t{1} << m));
        },
        "rows"_a, "chosen"_a, "share"_a, "accuracy"_a, "context"_a, "units"_a.none() = nb::none());
    kernel.def(
        "moments",
        [](const Kernel& k, const Rows& rows, const Masks& masks, const Accuracy& accuracy,
           nb::handle context) {
            const auto subsets = subsets_of(rows, masks);
            const auto d = rows.routes.model.n_features();
            const auto n = rows.n_outputs();
            return answer_rows(
                k, rows, {Question::gap, &rows.routes.features}, accuracy, context,
                [&](Row& row, std::int64_t r, double* change, double* covariance) {
                    return row.moments(subsets.row(r, d), accuracy, change, covariance);
                },
                blocks<double>(rows, n), blocks<double>(rows, n, n));
        },
        "rows"_a, "masks"_a, "accuracy"_a, "context"_a);
    kernel.def(
        "mean_change",
        [](const Kernel& k, const Rows& rows, const Masks& masks, nb::handle context) {
            const auto subsets = subsets_of(rows, masks);
            const auto d = rows.routes.model.n_features();
            return answer_rows(
                k, rows, {Question::gap, &rows.routes.features}, {}, context,
                [&](Row& row, std::int64_t r, double* change) { row.mean_change(subsets.row(r, d), change); },
                blocks<double>(rows, rows.n_outputs()));
        },
        "rows"_a, "masks"_a, "context"_a);
}

}  // namespace predgap
