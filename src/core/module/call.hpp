// The only way from Python to the rows: arrays and their checks, threads, interruption, and one template
// through which every question about rows goes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "planner/routes.hpp"
#include "rows/each_row.hpp"

namespace predgap {

namespace nb = nanobind;

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

template <class T>
NewArray<T, 1> array_of(const std::vector<T>& values) {
    auto out = make_array<T, 1>({values.size()});
    std::copy(values.begin(), values.end(), out.data());
    return out;
}

inline void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

// The value of an enumeration with this name.
template <class Enum, std::size_t N>
Enum named(const std::string& name, const std::array<const char*, N>& names, const char* expected) {
    const auto at = std::find(names.begin(), names.end(), name);
    require(at != names.end(), expected);
    return static_cast<Enum>(at - names.begin());
}

// Runs signal handlers and tells `look` the rows done and the milliseconds that a row is expected to take (0
// if nothing is known), where a call asks for `n_at_once` rows at the same time. False, with the exception
// set, if one of them raised.
std::function<bool(std::int64_t)> make_poll(const nb::object& look, const Forecast& forecast,
                                            double n_at_once);

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

// Thrown out of long work when its caller wants it to end.
struct Stopped {};

// Runs work(check) without the GIL, where check() ends it on Ctrl-C.
template <class Work>
void run_stoppable(Work work) {
    const auto piece = [&](int, std::int64_t, const std::atomic<bool>& stop) {
        try {
            work([&] {
                if (stop.load(std::memory_order_relaxed)) throw Stopped{};
            });
        } catch (const Stopped&) {  // the interruption's own exception is set
        }
    };
    const nb::object nobody = nb::none();
    const Forecast nothing;
    run_released([&] { return run_pieces(1, 1, [] { return 0; }, piece, make_poll(nobody, nothing, 1.0)); });
}

// Rows of a model as Python hands them over, checked once.
struct Rows {
    const Routes& routes;
    Array<double, 2> x;
    std::optional<Array<double, 2>> below, above;
    std::optional<Array<std::uint8_t, 2>> still;

    Rows(const Routes& model, Array<double, 2> rows, std::optional<Array<double, 2>> b,
         std::optional<Array<double, 2>> a, std::optional<Array<std::uint8_t, 2>> s);
    RowArrays arrays() const;
    std::size_t size() const { return x.shape(0); }
    std::size_t n_features() const { return x.shape(1); }
    std::size_t n_outputs() const { return static_cast<std::size_t>(routes.model.n_outputs()); }
};

// Python says how a call is to be run: its context has `n_threads`, and `look`, which is called now and then
// with the rows done and the milliseconds that a row is expected to take, and ends the call by raising.
struct Context {
    int n_threads;
    nb::object look;
    explicit Context(nb::handle given)
        : n_threads(std::max(nb::cast<int>(given.attr("n_threads")), 1)), look(given.attr("look")) {}
};

// An array of an answer: a block for each row.
template <class T, std::size_t N>
struct Blocks {
    NewArray<T, N> array;
    std::int64_t size;  // of a block
    T* row(std::int64_t r) const { return array.data() + r * size; }
};

// An array with a block of this shape for each row: zeros, or copies of a value.
template <class T, class... Sizes>
Blocks<T, sizeof...(Sizes) + 1> blocks(const Rows& rows, Sizes... sizes) {
    return {make_array<T, sizeof...(Sizes) + 1>({rows.size(), static_cast<std::size_t>(sizes)...}),
            (std::int64_t{1} * ... * static_cast<std::int64_t>(sizes))};
}

template <class T, class... Sizes>
Blocks<T, sizeof...(Sizes) + 1> blocks_of(T value, const Rows& rows, Sizes... sizes) {
    auto made = blocks<T>(rows, sizes...);
    std::fill_n(made.array.data(), made.array.size(), value);
    return made;
}

// Asks each row: per_row(row, r, block, ...) writes its blocks of `out`. row is that of the kernel, such as
// IndependentRow. Gives the arrays; and if per_row gives an Answer, the error bounds and method codes,
// (n_rows) each.
template <class Kernel, class PerRowFunction, class... Out>
nb::tuple answer_rows(const Kernel& kernel, const Rows& rows, const Asked& asked, const Accuracy& accuracy,
                      nb::handle given, PerRowFunction per_row, Out... out) {
    require(&rows.routes == &kernel.routes(), "the rows are those of another model");
    require(!accuracy.is_forced || accuracy.route != Route::plan || !rows.routes.plan.empty(),
            "the terms of this model are too many for a plan");
    kernel.check(rows.arrays());
    const Context context(given);
    Forecast forecast;
    const double n_at_once = std::min<double>(context.n_threads, std::max<double>(1.0, rows.size()));
    const Running how{context.n_threads, make_poll(context.look, forecast, n_at_once), forecast};
    using Row = typename Kernel::Row;
    if constexpr (std::is_void_v<
                      std::invoke_result_t<PerRowFunction, Row&, std::int64_t, decltype(out.row(0))...>>) {
        const auto task = [&](Row& row, std::int64_t r) { per_row(row, r, out.row(r)...); };
        run_released([&] { return kernel.each_row(rows.arrays(), how, asked, task); });
        return nb::make_tuple(out.array...);
    } else {
        const auto bound = blocks<double>(rows);
        const auto method = blocks<std::uint8_t>(rows);
        const auto task = [&](Row& row, std::int64_t r) {
            const Answer found = per_row(row, r, out.row(r)...);
            *bound.row(r) = found.bound;
            *method.row(r) = static_cast<std::uint8_t>(found.method);
        };
        run_released([&] { return kernel.each_row(rows.arrays(), how, asked, task); });
        return nb::make_tuple(out.array..., bound.array, method.array);
    }
}

// One array of this width per row, or one for all.
template <class T>
PerRow<T> per_row(const Array<T, 2>& a, const Rows& rows, std::size_t width) {
    require(a.shape(1) == width, "an array has the wrong width");
    require(a.shape(0) == rows.size() || a.shape(0) == 1, "one array for all rows, or one per row");
    return {a.data(), a.shape(0) == 1};
}

using Masks = Array<std::uint8_t, 2>;   // subsets of the features
using Orders = Array<std::int32_t, 2>;  // of units

inline PerRow<std::uint8_t> subsets_of(const Rows& rows, const Masks& masks) {
    return per_row(masks, rows, rows.n_features());
}
// The units that are given, or the features of the model.
const Units& units_of(const Rows& rows, const Units* given);
// Orders of these units.
PerRow<std::int32_t> orders_of(const Rows& rows, const Orders& order, const Units& units);

void register_model(nb::module_& m);
void register_independent(nb::module_& m);
void register_joint(nb::module_& m);

}  // namespace predgap
