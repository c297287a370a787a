// Distributions: all outcomes of one row, and how far its outputs can change.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "module/arrays.hpp"

using namespace nanobind::literals;

namespace predgap {
namespace {

using ListedOutcomes = std::tuple<NewArray<double, 1>, NewArray<double, 2>>;

// Probabilities (n_outcomes) and changes (n_outputs, n_outcomes); nothing if there are too many.
std::optional<ListedOutcomes> outcomes(const Rows& row, const Array<std::uint8_t, 2>& subset) {
    require(row.size() == 1, "one row");
    const auto& model = row.engine.model();
    const auto subsets = per_row(subset, 1, static_cast<std::size_t>(model.n_features()));
    std::optional<std::tuple<std::vector<double>, std::vector<double>>> found;
    const nb::object no_progress = nb::none();
    const auto request = row.request(1, no_progress);
    run_released([&] {
        return row.engine.outcomes(request, subsets, [&](std::int64_t, const Outcomes* listed) {
            if (listed) found = {listed->probability(), listed->change()};
        });
    });
    if (!found) return std::nullopt;
    const auto& [probability, change] = *found;
    auto by_output = make_array<double, 2>({model.output.size(), probability.size()});
    std::copy(change.begin(), change.end(), by_output.data());
    return ListedOutcomes{array_of(probability), by_output};
}

NewArray<double, 3> change_range(const Rows& rows, const Array<std::uint8_t, 2>& subset, int n_threads,
                                 const nb::object& progress) {
    const auto& model = rows.engine.model();
    const auto subsets = per_row(subset, rows.size(), static_cast<std::size_t>(model.n_features()));
    auto range = make_array<double, 3>({rows.size(), static_cast<std::size_t>(model.n_outputs()), 2});
    const auto request = rows.request(n_threads, progress);
    run_released([&] { return rows.engine.change_range(request, subsets, range.data()); });
    return range;
}

}  // namespace

void bind_outcomes(nb::module_& m) {
    m.def("outcomes", &outcomes, "row"_a, "subset"_a);
    m.def("change_range", &change_range, "rows"_a, "subset"_a, "n_threads"_a, "progress"_a.none());
}

}  // namespace predgap
