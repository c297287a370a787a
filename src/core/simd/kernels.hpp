// The functions that are compiled once per instruction set, and what they are told. They do not allocate.
#pragma once

#include <cstdint>

#include "noise/law.hpp"
#include "simd/lanes.hpp"

namespace predgap {

class Units;
struct TermState;
struct ReducedNode;
struct LeafGroup;
struct SubsetBlock;
struct BoxList;
struct BoxWeights;
struct BoxValues;
struct SetSquare;

constexpr int kLanes = 8;  // leaves that the pairs strategy takes side by side

// The thresholds of one feature, and where their tables go; see LawArrays and RowTables. With Law::table the
// tails are there already.
struct TableRequest {
    Law law;
    double parameter, x, stays, moves;
    double low, high;  // x' is from here to there
    const double *threshold, *at, *fixed;
    std::int32_t n;
    double *tail, *crossing, *shift;
    std::uint8_t* event;
};

struct Kernels {
    const char* name;
    void (*normal_tails)(const double* z, double* below, double* above);  // four of them
    void (*fill_tables)(const TableRequest&);
    // Some columns of the factors of pairs of sets, from the one on.
    void (*fill_set_square)(const SetSquare&, std::int64_t first);
    // Terms: all features that are open move; the weights are used up. That of the empty term is then the
    // mean change of an output. The forms of the components are left in TermState::form.
    double (*gap)(TermState&);
    // Instead of the gap, the covariances of the outputs (width, width); needs room for TermState::product.
    void (*covariances)(TermState&, double* found);
    // Nested subsets: adds the gaps of the prefixes of an order of units to `gaps`.
    void (*curve)(TermState&, const Units& units, const std::int32_t* order, std::int32_t n, double* gaps);
    // Begin with none; add a unit, for what each other unit would add to the gap (TermState::gain).
    void (*begin)(TermState&);
    void (*add_unit)(TermState&, std::int32_t unit);
    void (*gains)(TermState&);
    // The forms of a component for a block of subsets.
    void (*subset_forms)(TermState&, std::int32_t component, const SubsetBlock&);
    // Pairs: E[residual of a tree; in the leaf] of eight leaves of another.
    void (*joint_expectation)(const ReducedNode* nodes, std::int32_t root, LeafGroup&);
    // Boxes of two rows, all pairs of box u and those before it, or itself: the sum of the products of their
    // changes and the weight of the pair; and Shapley values, from what units get that switched or stayed.
    double (*box_pairs)(const BoxList&, std::int64_t u, const BoxWeights&);
    void (*box_pair_values)(const BoxList&, std::int64_t u, const BoxWeights& switched, const double* stayed,
                            const BoxValues&);
};

const Kernels& kernels();  // the best that this machine runs; see dispatch.cpp

}  // namespace predgap
