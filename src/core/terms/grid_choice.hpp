// The choice between two ways to compute the form of a component with categories, by counts: as a sum over
// cells, or over pairs of terms.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/model.hpp"
#include "terms/cell_grid.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

// The rule for which components are evaluated over their cells.
enum class CellRule : std::uint8_t { cheapest, all };  // all that have few enough cells, for tests

class GridChoice {
public:
    explicit GridChoice(const Model& model) : model_(model), seen_(model.n_atoms()) {
        std::fill(seen_.begin(), seen_.end(), 0);
    }

    struct Choice {
        CellGrid grid;
        bool over_cells;
        double nanoseconds;  // of a form
    };
    // n_steps: of a curve, in which the forms of a component over pairs share their factors; else 0.
    Choice choose(const RowTerms& terms, const Component& c, CellRule rule, std::int32_t n_steps = 0);

private:
    std::int32_t count_atoms(const std::int32_t* atom, std::int32_t n);
    // n_rows: is multiplied by about the number of rows of cells that a term changes.
    CellGrid lay_out(const RowTerms& terms, const Component& c, double& n_rows);

    const Model& model_;
    Buffer<std::int32_t> seen_;  // (n_atoms) when it was counted last
    std::int32_t n_counts_ = 0;
};

}  // namespace predgap
