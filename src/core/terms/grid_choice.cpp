// Lays out the cells of a component with categories, and compares what sums over them and over pairs take.
#include "terms/grid_choice.hpp"

#include <algorithm>

#include "constants.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;

namespace {

// The nanoseconds of a form: over cells, and over pairs of terms. The first version of a component's weights
// adds all terms to cells, later ones those that changed, if the cells are kept.
double by_cells(const CellGrid& grid, double n_terms, double n_rows, double n_versions) {
    using namespace of_categories;
    const double adding =
        n_terms * (kTerm + n_rows * (kRow + kFourCells * static_cast<double>(grid.row() / 4)));
    const bool are_kept = n_versions > 1.0 && grid.n_cells <= CellGrid::kMostKept;
    const double share = are_kept ? (1.0 + kChanged * (n_versions - 1.0)) / n_versions : 1.0;
    return kCell * static_cast<double>(grid.n_cells * grid.n_axes) + share * adding;
}
double by_pairs(const Component& c, double n_versions) {
    using namespace of_categories;
    const double n_pairs = 0.5 * c.n_terms * (c.n_terms + 1.0);
    const double once = n_pairs * kPairSlot * c.size;
    return n_versions > 1.0 ? once / n_versions + kVersion * n_pairs : once;
}

// The number of times that the weights of a component change in a curve, from the step on in which it is
// complete, if its features come at any place.
double versions_of(const Component& c, std::int32_t n_steps) {
    return n_steps > c.size ? 1.0 + (n_steps - c.size) / (c.size + 1.0) : 1.0;
}

}  // namespace

// Counts the different atoms of a slot.
int32_t GridChoice::count_atoms(const int32_t* atom, int32_t n) {
    ++n_counts_;
    int32_t found = 0;
    for (int32_t t = 0; t < n; ++t) {
        found += seen_[atom[t]] != n_counts_;
        seen_[atom[t]] = n_counts_;
    }
    return found;
}

// Lays out the axes: numbers come first, and the category with the fewest cells last.
CellGrid GridChoice::lay_out(const RowTerms& terms, const Component& c, double& n_rows) {
    CellGrid grid{};
    const auto feature = [&](int32_t slot) { return terms.feature[c.features + slot]; };
    const auto add = [&](int32_t slot, int64_t length) {
        grid.slot[grid.n_axes] = slot;
        grid.length[grid.n_axes++] = length;
    };
    int32_t last = -1;
    for (int32_t j = 0; j < c.size; ++j) {
        const auto q = feature(j);
        if (!model_.cells.categorical(q)) {
            add(j, 1 + count_atoms(terms.atom.data() + c.slots + int64_t{j} * c.stride, c.n_terms));
            grid.most_thresholds =
                std::max<int64_t>(grid.most_thresholds, model_.atoms.begin[q + 1] - model_.atoms.begin[q]);
            continue;
        }
        if (last < 0 || model_.cells.count(q) < model_.cells.count(feature(last))) last = j;
    }
    grid.n_numeric = grid.n_axes;
    for (int32_t j = 0; j < c.size; ++j)
        if (const auto n = model_.cells.count(feature(j)); n > 0 && j != last) {
            add(j, n);
            n_rows *= n / 3.0;
        }
    add(last, (model_.cells.count(feature(last)) + 3) / 4 * 4);
    grid.n_cells = 1;
    for (auto i = grid.n_axes; i-- > 0 && grid.n_cells <= CellGrid::kMostCells;) {
        grid.step[i] = grid.n_cells;
        grid.n_cells *= grid.length[i];
    }
    return grid;
}

GridChoice::Choice GridChoice::choose(const RowTerms& terms, const Component& c, CellRule rule,
                                      std::int32_t n_steps) {
    const double n_versions = terms.width == 1 ? versions_of(c, n_steps) : 1.0;
    if (c.size > CellGrid::kMostAxes) return {{}, false, by_pairs(c, n_versions)};
    double n_rows = 1.0;
    const auto grid = lay_out(terms, c, n_rows);
    const double over_cells = terms.width * by_cells(grid, c.n_terms, n_rows, n_versions);
    if (c.size == 1) return {grid, true, over_cells};
    const double over_pairs = (1.0 + of_categories::kOutput * (terms.width - 1)) * by_pairs(c, n_versions);
    const bool is_cheaper = rule == CellRule::all || over_cells < over_pairs;
    if (grid.n_cells > CellGrid::kMostCells || !is_cheaper) return {grid, false, over_pairs};
    return {grid, true, over_cells};
}

}  // namespace predgap
