// A row's terms in place: filled from the shared plan, or compiled for the row. What is asked of the row is a
// function of them (rows/from_terms.hpp).
//
//   f(x') - f(x) = sum over terms of weight * product of tau over the term's atoms
//
// The weights depend on the row alone, not on the subset or the noise. A question begins a state with them,
// in which features join the subset.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terms/plan.hpp"
#include "terms/row_compilation.hpp"
#include "terms/term_state.hpp"

namespace predgap {

class Placed {
public:
    // Arrays that are kept from row to row, one for each group of trees.
    struct Memory {
        std::vector<Plan::Scratch> scratch;  // if there are plans
        std::vector<Buffer<double>> weight;
        std::vector<TermState> state;

        explicit Memory(std::size_t n_groups) : scratch(n_groups), weight(n_groups), state(n_groups) {}
        // Takes the room of the weights that the last states used up.
        Memory& ready();
    };
    using Plans = std::vector<std::unique_ptr<Plan>>;

    // What to compile.
    struct Compiled {
        double limit;         // of what is left out, relative to the row's scale; 0 for exact
        double most_entries;  // with more the compilation ends, and is not complete
        const Likely& likely;
        CellRule cell_rule = CellRule::cheapest;
        SomeTrees trees{};  // all, unless others are named
    };

    // Fills the weights of the plans' terms.
    Placed(Memory& memory, const Plans& plans, const RowTables& tables, RowWork& work);
    // Compiles the terms of the row.
    Placed(Memory& memory, RowCompilation& compilation, const Compiled& asked, const RowTables& tables,
           RowWork& work);
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;

    // Keeps the weights for several questions; without this the first one uses them up.
    void keep_weights() { keeps_weights_ = true; }

    // False if there were too many entries: nothing may be asked then.
    bool is_complete() const { return left_out_.complete; }
    // The bounds of what is left out. Every gap is within `bound` of the exact one.
    const RowCompilation::Totals& left_out() const { return left_out_; }
    double bound() const { return left_out_.bound; }

    const Model& model() const { return tables_.model(); }
    const RowTables& tables() const { return tables_; }
    RowWork& work() const { return work_; }
    bool stopped() const { return work_.stopped(); }

    // Begins a state of each group of trees.
    std::vector<TermState>& begin(TermUse use);
    const std::vector<TermState>& states() const { return memory_.state; }

    // The scale of the rounding errors of each component of a group of trees: E in the correctness criterion
    // of docs/internals.md.
    void read_error_scales(std::size_t group, Buffer<double>& scale) const;
    // No error scale is larger than the trees times the square of the largest change.
    double largest_error() const;

private:
    const RowTerms& terms(std::size_t group) const;

    Memory& memory_;
    const Plans* plans_ = nullptr;  // null if the terms are compiled
    RowCompilation* compilation_ = nullptr;
    const RowTables& tables_;
    RowWork& work_;
    CellRule cell_rule_ = CellRule::cheapest;
    RowCompilation::Totals left_out_;
    bool keeps_weights_ = false, has_weights_ = true;
};

}  // namespace predgap
