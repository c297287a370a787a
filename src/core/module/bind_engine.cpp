// Models, noises and rows.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <string>

#include "module/arrays.hpp"
#include "paper/algorithm1.hpp"
#include "simd/kernels.hpp"

using namespace nanobind::literals;

namespace predgap {

std::function<bool(std::int64_t)> make_poll(const nb::object& progress, std::shared_ptr<Forecast> forecast,
                                            double n_at_once) {
    return [&progress, forecast = std::move(forecast), n_at_once](std::int64_t n_done) {
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) return false;
        if (progress.is_none()) return true;
        const double milliseconds = forecast ? 1e-6 * forecast->nanoseconds_of_row() / n_at_once : 0.0;
        PyObject* answer =
            PyObject_CallFunction(progress.ptr(), "Ld", static_cast<long long>(n_done), milliseconds);
        Py_XDECREF(answer);
        return answer != nullptr;
    };
}

Rows::Rows(const Engine& e, const NoiseOfModel& n, Array<double, 2> rows, std::optional<Array<double, 2>> b,
           std::optional<Array<double, 2>> a, std::optional<Array<std::uint8_t, 2>> s)
    : engine(e), noise(n), x(std::move(rows)), below(std::move(b)), above(std::move(a)), still(std::move(s)) {
    const auto& model = engine.model();
    const auto d = static_cast<std::size_t>(model.n_features());
    require(&noise.engine() == &engine, "the noise is that of another engine");
    require(x.shape(1) == d, "one column per feature");
    for (const auto& table : {below, above})
        require(!table || (table->shape(0) == size() &&
                           table->shape(1) == static_cast<std::size_t>(model.n_thresholds())),
                "tables must be (n_rows, n_thresholds)");
    require(!still || (still->shape(0) == size() && still->shape(1) == d),
            "still must be (n_rows, n_features)");
    for (const auto q : model.features) {
        const auto column = static_cast<std::size_t>(q);
        require(noise.law(column) != Law::table || (below && above), "a table law needs its tables");
        if (!model.cells.categorical(q)) continue;
        for (std::size_t r = 0; r < size(); ++r)
            require(std::isnan(x(r, column)) || (x(r, column) >= 0 && x(r, column) < model.cells.count(q)),
                    "a cell is out of range");
    }
}

Request Rows::request(int n_threads, const nb::object& progress) const {
    const double n_at_once =
        std::clamp<double>(n_threads, 1.0, static_cast<double>(std::max<std::size_t>(size(), 1)));
    const auto forecast = progress.is_none() ? nullptr : std::make_shared<Forecast>();
    return {.noise = noise,
            .n_rows = static_cast<std::int64_t>(size()),
            .x = x.data(),
            .below = below ? below->data() : nullptr,
            .above = above ? above->data() : nullptr,
            .still = still ? still->data() : nullptr,
            .n_threads = std::max(n_threads, 1),
            .poll = make_poll(progress, forecast, n_at_once),
            .forecast = forecast.get()};
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

void make_engine(Engine* self, std::int32_t n_features, std::int32_t n_outputs,
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
    run_stoppable([&](const auto& check) { new (self) Engine(std::move(arrays), sets, check); });
}

void make_noise(NoiseOfModel* self, const Engine& e, const Array<std::uint8_t, 1>& kinds,
                const Array<double, 2>& parameters, const Array<double, 1>& at, const Array<double, 2>& fixed,
                const Array<double, 1>& mass, const Array<double, 1>& stay) {
    const auto& cells = e.model().cells;
    require(kinds.size() == static_cast<std::size_t>(cells.n_features()), "one law per feature");
    require(parameters.shape(0) == 5 && parameters.shape(1) == kinds.size(), "five parameters per feature");
    const auto n_thresholds = static_cast<std::size_t>(e.model().n_thresholds());
    require(at.size() == n_thresholds && fixed.shape(0) == n_thresholds && fixed.shape(1) == 2,
            "one place and two tails per threshold");
    const auto n_cells = static_cast<std::size_t>(cells.begin.back());
    require(mass.size() == n_cells && stay.size() == n_cells, "one mass per cell");
    LawArrays laws;
    laws.at = copy<double>(at);
    laws.fixed.assign(fixed.data(), fixed.data() + fixed.size());
    for (std::size_t q = 0; q < kinds.size(); ++q) {
        require(kinds(q) < kLawNames.size(), "unknown law");
        const auto law = static_cast<Law>(kinds(q));
        const bool fits =
            law == Law::still || (law == Law::category) == cells.categorical(static_cast<std::int32_t>(q));
        require(fits, "a law of categories for a numeric feature, or of numbers for categories");
        laws.law.push_back(law);
        laws.parameter.push_back(parameters(0, q));
        laws.stays.push_back(parameters(1, q));
        laws.moves.push_back(parameters(2, q));
        laws.low.push_back(parameters(3, q));
        laws.high.push_back(parameters(4, q));
    }
    run_stoppable([&](const auto& check) {
        new (self) NoiseOfModel(e, std::move(laws), copy<double>(mass), copy<double>(stay), check);
    });
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

NewArray<double, 2> typical_rows(const Engine& e) {
    constexpr std::int32_t kRows = 12;
    const auto rows = e.typical_rows(kRows);
    auto out = make_array<double, 2>({kRows, static_cast<std::size_t>(e.model().n_features())});
    std::copy(rows.begin(), rows.end(), out.data());
    return out;
}

NewArray<double, 1> algorithm1(const Engine& e, const Array<double, 2>& x, const Array<double, 1>& scale,
                               const Array<std::uint8_t, 2>& subset, bool float32) {
    const auto& model = e.model();
    const auto d = static_cast<std::size_t>(model.n_features());
    require(model.n_outputs() == 1, "one output");
    require(x.shape(1) == d && scale.size() == d, "one column and one scale per feature");
    const auto subsets = per_row(subset, x.shape(0), d);
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

}  // namespace

void bind_engine(nb::module_& m) {
    nb::dict laws;
    for (std::size_t i = 0; i < kLawNames.size(); ++i) laws[kLawNames[i]] = i;
    m.attr("LAWS") = laws;
    m.def("instruction_set", [] { return kernels().name; });
    m.def("normal_tails", &normal_tails, "z"_a);
    nb::class_<Engine>(m, "Engine")
        .def("__init__", &make_engine, "n_features"_a, "n_outputs"_a, "root"_a, "target"_a, "feature"_a,
             "threshold"_a, "left"_a, "right"_a, "default_left"_a, "value"_a, "category_set"_a, "n_levels"_a,
             "set_feature"_a, "set_begin"_a, "set_level"_a)
        .def_prop_ro(
            "thresholds", [](const Engine& e) { return array_of(e.model().atoms.threshold); },
            nb::rv_policy::move)
        .def_prop_ro(
            "threshold_begin", [](const Engine& e) { return array_of(e.model().atoms.begin); },
            nb::rv_policy::move)
        .def_prop_ro(
            "cell_begin", [](const Engine& e) { return array_of(e.model().cells.begin); },
            nb::rv_policy::move)
        .def_prop_ro(
            "cell_of_level", [](const Engine& e) { return array_of(e.model().cells.of_level); },
            nb::rv_policy::move)
        .def_prop_ro("has_plan", &Engine::has_plan)
        .def(
            "limit_work",
            [](Engine& e, double milliseconds, double megabytes) {
                e.limit_work({1e6 * milliseconds, 1e6 * megabytes});
            },
            "milliseconds"_a, "megabytes"_a)
        .def("typical_rows", &typical_rows);
    nb::class_<NoiseOfModel>(m, "Noise")
        .def("__init__", &make_noise, "engine"_a, "kinds"_a, "parameters"_a, "at"_a, "fixed"_a, "mass"_a,
             "stay"_a, nb::keep_alive<1, 2>())
        .def("most_work", [](const NoiseOfModel& noise) {
            const auto most = noise.most_work();
            return std::pair(1e-6 * most.nanoseconds, 1e-6 * most.bytes);
        });
    nb::class_<Rows>(m, "Rows").def(
        nb::init<const Engine&, const NoiseOfModel&, Array<double, 2>, std::optional<Array<double, 2>>,
                 std::optional<Array<double, 2>>, std::optional<Array<std::uint8_t, 2>>>(),
        "engine"_a, "noise"_a, "x"_a, "below"_a.none(), "above"_a.none(), "still"_a.none(),
        nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>());
    m.def("algorithm1", &algorithm1, "engine"_a, "x"_a, "scale"_a, "subset"_a, "float32"_a = false);
}

}  // namespace predgap
