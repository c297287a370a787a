// The kernel of noise that moves each feature by itself, and the questions that only it answers: prices, main
// effects, shares of the variance, outcomes, samples.
#include "rows/independent.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>

#include "module/answers.hpp"
#include "outcomes/outcomes.hpp"
#include "rows/samples.hpp"
#include "sampling/racing.hpp"

namespace predgap {
namespace {

void make_independent(Independent* self, const Routes& e, const Array<std::uint8_t, 1>& kinds,
                      const Array<double, 2>& parameters, const Array<double, 1>& at,
                      const Array<double, 2>& fixed, const Array<double, 1>& mass,
                      const Array<double, 1>& stay) {
    const auto& cells = e.model.cells;
    require(kinds.size() == static_cast<std::size_t>(cells.n_features()), "one law per feature");
    require(parameters.shape(0) == 5 && parameters.shape(1) == kinds.size(), "five parameters per feature");
    const auto n_thresholds = static_cast<std::size_t>(e.model.n_thresholds());
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
        new (self) Independent(e, std::move(laws), copy<double>(mass), copy<double>(stay), check);
    });
}

// ---- prices and parts of the variance --------------------------------------------------------------------

// The questions that have a price: about features (1 or n, d), with n places; order: of a curve, if it is
// known.
struct PricedQuestions {
    Question::Kind kind;
    PerRow<std::uint8_t> features;
    std::optional<PerRow<std::int32_t>> order;
    std::int32_t n_features, n_places;
    const Units& units;

    PricedQuestions(const Rows& rows, const std::string& question, const Masks& masks, std::int32_t n,
                    const std::optional<Orders>& orders, const Units* given)
        : kind(named<Question::Kind>(question, kQuestionNames, "an unknown question")),
          features(subsets_of(rows, masks)),
          n_features(rows.routes.model.n_features()),
          n_places(n),
          units(units_of(rows, given)) {
        if (!orders) return;
        require(orders->shape(1) == static_cast<std::size_t>(n), "an order has as many places as are asked");
        order = orders_of(rows, *orders, units);
    }
    Question row(std::int64_t r) const {
        return {.kind = kind,
                .features = features.row(r, n_features),
                .n_places = n_places,
                .units = &units,
                .order = order ? order->row(r, n_places) : nullptr};
    }
};

void write_way(const Way& way, std::uint8_t* method, std::uint8_t* route, double* limit) {
    *method = static_cast<std::uint8_t>(way.method);
    *route = static_cast<std::uint8_t>(way.route);
    *limit = way.limit;
}

nb::tuple cost(const Independent& k, const Rows& rows, const std::string& question, const Masks& features,
               std::int32_t n, const Accuracy& accuracy, nb::handle context, const Units* given,
               const std::optional<Orders>& order, bool closely) {
    const PricedQuestions asked(rows, question, features, n, order, given);
    const auto price = [&](IndependentRow& row, std::int64_t r, std::uint8_t* method, std::uint8_t* route,
                           double* limit, double* milliseconds, double* megabytes, double* work) {
        Way found{.route = Route::compiled, .method = accuracy.kind};
        try {
            found = row.way_to(asked.row(r), accuracy, closely);
        } catch (const TooCostly& refused) {
            found.nanoseconds = refused.nanoseconds;
            found.bytes = refused.bytes;
        }
        write_way(found, method, route, limit);
        *milliseconds = found.nanoseconds * 1e-6;
        *megabytes = found.bytes * 1e-6;
        std::copy(found.work.counts().begin(), found.work.counts().end(), work);
    };
    return answer_rows(k, rows, {Question::gap, &asked.units}, accuracy, context, price,
                       blocks<std::uint8_t>(rows), blocks<std::uint8_t>(rows), blocks<double>(rows),
                       blocks<double>(rows), blocks<double>(rows), blocks<double>(rows, kNSpeeds));
}

// Answers, and tells the way that was taken first.
nb::tuple way_taken(const Independent& k, const Rows& rows, const std::string& question,
                    const Masks& features, std::int32_t n, const Accuracy& accuracy, nb::handle context,
                    const Units* given, const std::optional<Orders>& order) {
    const PricedQuestions asked(rows, question, features, n, order, given);
    require(n >= 0 && n <= asked.units.size(), "not more places than units");
    require(asked.kind == Question::gap || asked.kind == Question::greedy ||
                (asked.kind == Question::curve && asked.order),
            "the way of a gap, of a ranking, or of a curve with its order");
    const auto answer = [&](IndependentRow& row, std::int64_t r, std::uint8_t* method, std::uint8_t* route,
                            double* limit) {
        const auto own = asked.row(r);
        std::vector<double> values(static_cast<std::size_t>(std::max(n, asked.units.size())) + 1);
        std::vector<std::int32_t> places(static_cast<std::size_t>(n));
        std::vector<std::uint8_t> proven(static_cast<std::size_t>(n));
        if (own.kind == Question::gap)
            row.gap(own.features, accuracy, values[0]);
        else if (own.kind == Question::greedy)
            row.greedy(asked.units, {n, places.data(), values.data(), proven.data()}, accuracy);
        else
            row.curve(asked.units, own.order, n, accuracy, values.data());
        write_way(row.way_taken(), method, route, limit);
    };
    return answer_rows(k, rows, {asked.kind, &asked.units, n}, accuracy, context, answer,
                       blocks<std::uint8_t>(rows), blocks<std::uint8_t>(rows), blocks<double>(rows));
}

nb::tuple moving_units(const Independent& k, const Rows& rows, nb::handle context, const Units* given) {
    const auto& units = units_of(rows, given);
    return answer_rows(
        k, rows, {Question::gap, &units}, {}, context,
        [&](IndependentRow& row, std::int64_t, std::uint8_t* moving) { row.moving_units(units, moving); },
        blocks<std::uint8_t>(rows, units.size()));
}

nb::tuple main_weights(const Independent& k, const Rows& rows, const Masks& masks, const Accuracy& accuracy,
                       nb::handle context) {
    require(rows.n_outputs() == 1, "a model with one output");
    const auto subsets = subsets_of(rows, masks);
    const auto& model = rows.routes.model;
    return answer_rows(
        k, rows, {Question::gap, &rows.routes.features}, accuracy, context,
        [&](IndependentRow& row, std::int64_t r, double* weights) {
            return row.main_weights(subsets.row(r, model.n_features()), accuracy, weights);
        },
        blocks<double>(rows, model.n_thresholds()));
}

nb::tuple sensitivity(const Independent& k, const Rows& rows, const Accuracy& accuracy, nb::handle context,
                      const Units* given) {
    const auto& units = units_of(rows, given);
    const auto m = units.size();
    return answer_rows(
        k, rows, {Question::gap, &units}, accuracy, context,
        [&](IndependentRow& row, std::int64_t, double* variance, double* first, double* total,
            double* shapley, double* interaction) {
            return row.sensitivity(units, accuracy, {*variance, first, total, shapley, interaction});
        },
        blocks<double>(rows), blocks<double>(rows, m), blocks<double>(rows, m), blocks<double>(rows, m),
        blocks<double>(rows, m, m));
}

// ---- distributions ---------------------------------------------------------------------------------------

using ListedOutcomes = std::tuple<NewArray<double, 1>, NewArray<double, 2>>;

// Probabilities (n_outcomes) and changes (n_outputs, n_outcomes); nothing if there are too many.
std::optional<ListedOutcomes> outcomes(const Independent& k, const Rows& row, const Masks& mask,
                                       nb::handle context) {
    require(row.size() == 1, "one row");
    const auto subsets = subsets_of(row, mask);
    const auto& model = row.routes.model;
    Outcomes listed(model);
    bool is_listed = false;
    answer_rows(k, row, {Question::outcomes, &row.routes.features}, {}, context,
                [&](IndependentRow& solver, std::int64_t r) {
                    solver.tables().open(subsets.row(r, model.n_features()));
                    is_listed = listed.list(solver.tables(), solver.stop());
                });
    if (!is_listed) return std::nullopt;
    auto by_output = make_array<double, 2>({model.output.size(), listed.probability().size()});
    std::copy(listed.change().begin(), listed.change().end(), by_output.data());
    return ListedOutcomes{array_of(listed.probability()), by_output};
}

nb::tuple change_range(const Independent& k, const Rows& rows, const Masks& masks, nb::handle context) {
    const auto subsets = subsets_of(rows, masks);
    const auto& model = rows.routes.model;
    return answer_rows(
        k, rows, {Question::outcomes, &rows.routes.features}, {}, context,
        [&](IndependentRow& solver, std::int64_t r, double* least_and_most) {
            Outcomes of_row(model);
            solver.tables().open(subsets.row(r, model.n_features()));
            of_row.range(solver.tables(), solver.stop(), least_and_most);
        },
        blocks<double>(rows, model.n_outputs(), 2));
}

// ---- samples: sums that Python turns into estimates ------------------------------------------------------

// Points for all rows or for each, one coordinate per feature of the subset; stretches that end with them.
Points checked_points(const Rows& rows, const Array<std::uint8_t, 1>& subset, const Array<double, 3>& points,
                      const Array<std::int64_t, 1>& stretch_end) {
    require(subset.size() == static_cast<std::size_t>(rows.routes.model.n_features()),
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

nb::tuple sample(const Independent& k, const Rows& rows, std::int32_t output,
                 const Array<std::uint8_t, 1>& subset, const Array<double, 3>& points,
                 const Array<std::int64_t, 1>& stretch_end, nb::handle context) {
    require(output >= 0 && output < rows.routes.model.n_outputs(), "an output out of range");
    const auto view = checked_points(rows, subset, points, stretch_end);
    static_assert(sizeof(PowerSums) == 3 * sizeof(double));
    return answer_rows(
        k, rows, {Question::gap, &rows.routes.features}, {}, context,
        [&](IndependentRow& row, std::int64_t r, double* sums) {
            sums_of_changes(row, output, subset.data(), view, r, reinterpret_cast<PowerSums*>(sums));
        },
        blocks<double>(rows, stretch_end.size(), 3));
}

nb::tuple sample_changes(const Independent& k, const Rows& rows, const Array<std::uint8_t, 1>& subset,
                         const Array<double, 3>& points, nb::handle context) {
    const std::int64_t end[] = {static_cast<std::int64_t>(points.shape(1))};
    const auto view = checked_points(rows, subset, points, Array<std::int64_t, 1>(end, {1}));
    return answer_rows(
        k, rows, {Question::gap, &rows.routes.features}, {}, context,
        [&](IndependentRow& row, std::int64_t r, double* changes) {
            changes_at_points(row, subset.data(), view, r, changes);
        },
        blocks<double>(rows, rows.n_outputs(), points.shape(1)));
}

// The points of samples that all rows share.
SharedPoints shared_points(const Rows& rows, const Array<double, 2>& points,
                           const Array<std::int32_t, 1>& column, const Array<std::int64_t, 1>& look_end,
                           int n_replicates) {
    const auto n_points = static_cast<std::int64_t>(points.shape(0));
    require(column.size() == static_cast<std::size_t>(rows.routes.model.n_features()),
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

// Rows that are sampled at points which all of them share.
struct SampledRows {
    using Row = Independent::Walks;
    const Independent& noise;
    const SharedPoints& points;
    double n_walks;  // of each sample, about
    const Routes& routes() const { return noise.routes(); }
    void check(const RowArrays& rows) const { noise.check(rows); }
    template <class Task>
    bool each_row(const RowArrays& rows, const Running& how, const Asked& asked, Task task) const {
        return noise.each_sampled_row(rows, how, *asked.units, points, n_walks, task);
    }
};

nb::tuple sample_curve(const Independent& k, const Rows& rows, const Orders& order,
                       const Array<double, 2>& points, const Array<std::int32_t, 1>& column, int n_replicates,
                       nb::handle context, const Units* given) {
    const auto& units = units_of(rows, given);
    const auto orders = orders_of(rows, order, units);
    const std::int64_t end[] = {static_cast<std::int64_t>(points.shape(0))};
    const auto shared = shared_points(rows, points, column, Array<std::int64_t, 1>(end, {1}), n_replicates);
    const auto n = static_cast<std::int32_t>(order.shape(1));
    constexpr double kWalks = 3.5;  // one, and those that go on from each turn
    return answer_rows(
        SampledRows{k, shared, kWalks}, rows, {Question::curve, &units, n}, {}, context,
        [&](Independent::Walks& walks, std::int64_t r, double* sums) {
            squares_of_prefixes(walks, shared, orders.row(r, n), n, sums);
        },
        blocks<double>(rows, n_replicates, n));
}

nb::tuple race(const Independent& k, const Rows& rows, const std::string& method, std::int32_t top,
               const Array<double, 2>& points, const Array<std::int32_t, 1>& column,
               const Array<std::int64_t, 1>& look_end, int n_replicates, double clear, nb::handle context,
               const Units* given) {
    const auto& units = units_of(rows, given);
    const auto run = is_greedy(method) ? &Race::greedy : &Race::single;
    require(top >= 0 && top <= units.size(), "top must be at most the number of units");
    const auto shared = shared_points(rows, points, column, look_end, n_replicates);
    constexpr double kWalks = 8.0;  // of the candidates for all places, which become fewer
    return answer_rows(
        SampledRows{k, shared, kWalks}, rows, {Question::greedy, &units, top}, {}, context,
        [&](Independent::Walks& walks, std::int64_t, std::int32_t* order, double* score, double* lead) {
            Race of_row(walks.walkers, units, walks.copies, shared, clear, walks.solver.stop());
            (of_row.*run)(top, order, score, lead);
        },
        blocks<std::int32_t>(rows, top),
        blocks_of(std::numeric_limits<double>::quiet_NaN(), rows, units.size()), blocks<double>(rows, top));
}

}  // namespace

void register_independent(nb::module_& m) {
    nb::class_<Independent> kernel(m, "Independent");
    kernel.def("__init__", &make_independent, "model"_a, "kinds"_a, "parameters"_a, "at"_a, "fixed"_a,
               "mass"_a, "stay"_a, nb::keep_alive<1, 2>());
    register_answers(kernel);
    kernel.def("most_work", [](const Independent& k) {
        const auto most = k.most_work();
        return nb::make_tuple(1e-6 * most.nanoseconds, 1e-6 * most.bytes);
    });
    const auto units = "units"_a.none() = nb::none();
    const auto order = "order"_a.none() = nb::none();
    kernel
        .def("cost", &cost, "rows"_a, "question"_a, "features"_a, "n"_a, "accuracy"_a, "context"_a, units,
             order, "closely"_a = false)
        .def("way_taken", &way_taken, "rows"_a, "question"_a, "features"_a, "n"_a, "accuracy"_a, "context"_a,
             units, order)
        .def("moving_units", &moving_units, "rows"_a, "context"_a, units)
        .def("main_weights", &main_weights, "rows"_a, "masks"_a, "accuracy"_a, "context"_a)
        .def("sensitivity", &sensitivity, "rows"_a, "accuracy"_a, "context"_a, units)
        .def("outcomes", &outcomes, "row"_a, "mask"_a, "context"_a)
        .def("change_range", &change_range, "rows"_a, "masks"_a, "context"_a)
        .def("sample", &sample, "rows"_a, "output"_a, "subset"_a, "points"_a, "stretch_end"_a, "context"_a)
        .def("sample_changes", &sample_changes, "rows"_a, "subset"_a, "points"_a, "context"_a)
        .def("sample_curve", &sample_curve, "rows"_a, "order"_a, "points"_a, "column"_a, "n_replicates"_a,
             "context"_a, units)
        .def("race", &race, "rows"_a, "method"_a, "top"_a, "points"_a, "column"_a, "look_end"_a,
             "n_replicates"_a, "clear"_a, "context"_a, units);
}

}  // namespace predgap
