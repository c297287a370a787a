// Between Python and the core: arrays, checks, interruption.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/parallel.hpp"

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

// Runs signal handlers and tells the progress: the rows done, and the milliseconds that a row is expected to
// take (0 if nothing is known), where a call asks for `n_at_once` rows at the same time. False, with the
// exception set, if one of them raised.
std::function<bool(std::int64_t)> make_poll(const nb::object& progress,
                                            std::shared_ptr<Forecast> forecast = nullptr,
                                            double n_at_once = 1.0);

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
    const nb::object no_progress = nb::none();
    run_released([&] { return run_pieces(1, 1, [] { return 0; }, piece, make_poll(no_progress)); });
}

// Rows as Python hands them over, checked once.
struct Rows {
    const Engine& engine;
    const NoiseOfModel& noise;
    Array<double, 2> x;
    std::optional<Array<double, 2>> below, above;
    std::optional<Array<std::uint8_t, 2>> still;

    Rows(const Engine& e, const NoiseOfModel& n, Array<double, 2> rows, std::optional<Array<double, 2>> b,
         std::optional<Array<double, 2>> a, std::optional<Array<std::uint8_t, 2>> s);
    Request request(int n_threads, const nb::object& progress) const;
    std::size_t size() const { return x.shape(0); }
};

// One array of this width per row, or one for all.
template <class T>
PerRow<T> per_row(const Array<T, 2>& a, std::size_t n_rows, std::size_t width) {
    require(a.shape(1) == width, "an array has the wrong width");
    require(a.shape(0) == n_rows || a.shape(0) == 1, "one array for all rows, or one per row");
    return {a.data(), a.shape(0) == 1};
}

void bind_engine(nb::module_& m);
void bind_answers(nb::module_& m);
void bind_sampling(nb::module_& m);
void bind_outcomes(nb::module_& m);
void bind_background(nb::module_& m);
// The units that are given, or the features of the model.
const Units& units_of(const Rows& rows, const Units* given);
// Orders of d units.
PerRow<std::int32_t> orders_of(const Rows& rows, const Array<std::int32_t, 2>& order, std::int32_t d);

}  // namespace predgap
