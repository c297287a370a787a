// Compilation of a row for all outputs: main effects, a scale to prune by, and the bound of what was pruned.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terms/compiler.hpp"
#include "terms/term_state.hpp"

namespace predgap {

class RowCompilation {
public:
    explicit RowCompilation(const Model& model);

    // The bytes that the compilation of any row has beside those of its terms: arrays of nodes and of atoms.
    static double bytes_of(const Model& model);

    // Takes another row, or other features of it: whatever is open in the tables moves. The trees are routed,
    // and the main effects found, when something is asked that needs them.
    void open(const RowTables& tables, RowWork& work);

    // The gap of each feature alone, (n_features), and the square root of their sum.
    const Buffer<double>& main_effects();
    double scale();
    // The scale of rounding errors of the main effects, (n_features).
    const Buffer<double>& main_error_scales();
    double largest_change(std::size_t group) const { return compilers_[group]->largest_change(); }

    // The totals of what a compilation does, or would do.
    struct Totals {
        double n_entries = 0, n_nodes = 0;
        double bound = 0;                         // every gap is within this of the exact one
        double mean_error = 0, square_error = 0;  // E|G - G~| and E|G - G~|^2 of what is left out, at most
        bool complete = true;
    };
    // Counts what a compilation would do. `limit` is relative to the scale; 0 for exact. The counts are an
    // estimate from some of the trees if nothing is left out (limit = 0), or if `roughly`.
    Totals count(double limit, double most_entries, const Likely& likely, bool roughly = false);
    // Counts at a limit of 0, from at most about so many trees.
    Totals look(double n_trees, double most_entries);
    // The share of the nodes that an estimate looks at, of the first group of trees.
    double counted_share() const { return compilers_[0]->counted_share(); }
    // Leaves the terms in terms(), and their weights, for each group of trees; of some trees alone, if these
    // are named.
    Totals compile(double limit, double most_entries, std::vector<Buffer<double>>& weights,
                   const Likely& likely, SomeTrees some = {});
    const RowTerms& terms(std::size_t group) const { return terms_[group]; }
    void error_scales(std::size_t group, Buffer<double>& scale) const {
        compilers_[group]->error_scales(terms_[group], scale);
    }
    // A limit whose bound is probably within the target, and not much less; and roughly what it takes.
    double guess_limit(double target, const Likely& likely, Totals& totals);
    // A limit with a bound between a part of the target and the target, and what it takes; `complete` is
    // false if that would be more than so many entries.
    double find_limit(double target, double most_entries, const Likely& likely, Totals& totals);

private:
    void load();
    void find_main_effects();
    Pruning pruning(std::size_t group, double limit, const Likely& likely) const;
    void find_main_effects_of(std::size_t group);
    void add_squares(std::size_t group);
    void add_squares(const Component& c, const RowTerms& terms, const double* weight);
    void add_set_squares(const Component& c, const RowTerms& terms, const double* weight);
    Totals add_up(const std::vector<CompileCounts>& counts) const;

    const Model& model_;
    const Units features_;  // each alone
    const RowTables* tables_ = nullptr;
    RowWork* work_ = nullptr;
    std::vector<std::unique_ptr<Compiler>> compilers_;
    std::vector<RowTerms> terms_;
    TermState main_;              // of one group after the other
    Buffer<double> main_weight_;  // likewise
    Buffer<double> main_error_;   // (n_features)
    Buffer<double> main_effect_;  // (n_features)
    Buffer<double> squares_;      // (n_atoms) E[m^2; crossed] of the main effect m of its feature
    Buffer<double> amplitude_;    // (n_atoms) see Pruning
    Buffer<double> step_;         // main effect past each threshold
    double scale_ = 0.0, n_splits_ = 0.0;
    bool is_loaded_ = false, has_main_effects_ = false;

    double bytes_of_main_effects() const;
};

}  // namespace predgap
