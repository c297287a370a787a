// The kernel of noise that moves features together, and the questions that only it answers, from boxes.
#include "rows/joint.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "module/answers.hpp"

namespace predgap {
namespace {

void make_joint(Joint* self, const Rows& table) {
    require(table.size() > 0, "at least one row");
    new (self) Joint(table.routes, table.x.data(), static_cast<std::int64_t>(table.size()));
}

nb::tuple changes(const Joint& k, const Rows& rows, const Masks& masks, nb::handle context) {
    const auto subsets = subsets_of(rows, masks);
    return answer_rows(
        k, rows, {Question::gap, &rows.routes.features}, {}, context,
        [&](JointRow& row, std::int64_t r, double* changes) {
            row.changes(subsets.row(r, rows.routes.model.n_features()), changes);
        },
        blocks<double>(rows, rows.n_outputs(), k.rows().n_rows));
}

// The weights for all numbers of units that two boxes may need, checked.
BoxWeights weights_of(const Joint& k, const Units& units, const Array<double, 2>& weights) {
    const auto most = static_cast<std::size_t>(std::min(units.size(), k.most_of_a_pair()));
    require(weights.shape(0) > most && weights.shape(1) > most, "too few weights");
    return {weights.data(), static_cast<std::int32_t>(weights.shape(1))};
}

nb::tuple mean_gap(const Joint& k, const Rows& rows, const Array<double, 2>& weights, nb::handle context,
                   const Units* given) {
    const auto& units = units_of(rows, given);
    const auto pairs = weights_of(k, units, weights);
    return answer_rows(
        k, rows, {Question::subsets, &units}, {}, context,
        [&](JointRow& row, std::int64_t, double* mean) { *mean = row.mean_gap(pairs); },
        blocks<double>(rows));
}

nb::tuple shapley(const Joint& k, const Rows& rows, const Array<double, 2>& gained,
                  const Array<double, 2>& lost, nb::handle context, const Units* given) {
    const auto& units = units_of(rows, given);
    require(lost.shape(0) == gained.shape(0) && lost.shape(1) == gained.shape(1), "weights of two shapes");
    const auto pairs = weights_of(k, units, gained);
    return answer_rows(
        k, rows, {Question::subsets, &units}, {}, context,
        [&](JointRow& row, std::int64_t, double* values) { row.shapley(pairs, lost.data(), values); },
        blocks<double>(rows, units.size()));
}

nb::tuple box_costs(const Joint& k, const Rows& rows, std::int32_t m, nb::handle context,
                    const Units* given) {
    const auto& units = units_of(rows, given);
    return answer_rows(
        k, rows, {Question::subsets, &units, m}, {}, context,
        [&](JointRow& row, std::int64_t, double* milliseconds) {
            const auto found = row.box_cost(m);
            milliseconds[0] = found.mean_gap * 1e-6;
            milliseconds[1] = found.shapley * 1e-6;
            milliseconds[2] = found.subset_gaps * 1e-6;
        },
        blocks<double>(rows, 3));
}

std::tuple<double, double> cost(const Joint& k, const std::string& question, std::int32_t n_units,
                                std::int32_t top) {
    const auto asked = named<Question::Kind>(question, kQuestionNames, "an unknown question");
    require(asked != Question::examine, "an examination has no price under this noise");
    const auto found = k.price(asked, n_units, top);
    return {found.nanoseconds * 1e-6, found.bytes * 1e-6};
}

}  // namespace

void register_joint(nb::module_& m) {
    nb::class_<Joint> kernel(m, "Joint");
    kernel.def("__init__", &make_joint, "table"_a, nb::keep_alive<1, 2>());
    register_answers(kernel);
    const auto units = "units"_a.none() = nb::none();
    kernel.def("changes", &changes, "rows"_a, "masks"_a, "context"_a)
        .def("mean_gap", &mean_gap, "rows"_a, "weights"_a, "context"_a, units)
        .def("shapley", &shapley, "rows"_a, "gained"_a, "lost"_a, "context"_a, units)
        .def("box_costs", &box_costs, "rows"_a, "m"_a, "context"_a, units)
        .def("cost", &cost, "question"_a, "n_units"_a, "top"_a)
        .def_prop_ro("most_of_a_pair", &Joint::most_of_a_pair);
}

}  // namespace predgap
