// The gaps of all subsets of some units at once.
//
// The weights of a component C, once a subset S is pushed, are a sum over the sets R of other features in S:
// what the terms of C and R give to those of C when R is pushed. Each such *part* is computed once. Sums over
// the subsets of the units that give C a part, and then the forms, run over subsets side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "terms/term_state.hpp"

namespace predgap {

// The weights that the terms of a component get when certain features are pushed.
struct WeightPart {
    std::uint32_t units;  // of these features, without those of the component; from 0
    std::int32_t lowest;  // of these features
    std::int64_t weight;  // where its weights (width, n_terms) begin
};

// A component and a block of subsets, for the kernel.
struct SubsetBlock {
    struct Part {
        std::int64_t subset;   // the smallest in the block that has it
        const double* weight;  // (width, n_terms)
    };
    static constexpr int kLeastBits = 3;           // subsets are taken eight at a time
    static constexpr std::int32_t kMostGram = 64;  // terms whose pairs have their factors in memory

    const Part* part;
    std::int64_t n_parts;
    int n_bits;      // the block has 2^n_bits subsets
    bool is_first;   // of the component: `gram` is to be filled
    double* weight;  // (width, n_terms, 2^n_bits)
    double* gram;    // (n_terms, n_terms) factors of pairs of terms, those of two twice; of few terms only
    double* form;    // (2^n_bits)
};

class SubsetGaps {
public:
    // Adds to gaps (2^m) those of all subsets of the m chosen units. The weights of the state are used up.
    void add(TermState& state, const Units& units, const std::int32_t* chosen, std::int32_t m, double* gaps);

private:
    void number_units(const TermState& state, const Units& units, const std::int32_t* chosen, std::int32_t m);
    void begin_part(const TermState& state, std::int32_t component);
    void push_parts(const TermState& state, std::int32_t component);
    void compute_forms(TermState& state, std::int32_t component);
    void add_forms(std::int32_t component, std::uint32_t all, double* gaps) const;
    double bytes() const;

    std::vector<std::uint32_t> unit_bit_;         // (n_features)
    std::vector<std::uint32_t> units_of_;         // (n_components)
    std::vector<std::vector<WeightPart>> parts_;  // (n_components)
    std::size_t n_parts_ = 0;                     // of all components
    std::vector<SubsetBlock::Part> in_block_;
    Buffer<double> pool_;  // weights of parts
    Buffer<double> weight_, gram_, form_;
    std::uint32_t others_ = 0;  // units that give the component a part
};

}  // namespace predgap
