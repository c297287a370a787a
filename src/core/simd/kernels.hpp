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
    // Fills some columns of the determinants of pairs of sets, from column `first` on.
    void (*fill_set_square)(const SetSquare&, std::int64_t first);
    // The gap if all features that are open move. The weights are used up: that of the empty term is then the
    // mean change of an output. The forms of the components are left in TermState::form.
    double (*gap)(TermState&);
    // Writes the covariances of the outputs (width, width) instead of the gap; needs room for
    // TermState::product.
    void (*covariances)(TermState&, double* found);
    // Adds the gaps of nested subsets, the prefixes of an order of units, to `gaps`.
    void (*curve)(TermState&, const Units& units, const std::int32_t* order, std::int32_t n, double* gaps);
    // These begin with an empty subset, add a unit to it, and find what each other unit would add to the gap
    // (TermState::gain).
    void (*begin)(TermState&);
    void (*add_unit)(TermState&, std::int32_t unit);
    void (*gains)(TermState&);
    // Computes the forms of a component for a block of subsets.
    void (*subset_forms)(TermState&, std::int32_t component, const SubsetBlock&);
    // Computes E[residual of a tree; in the leaf] for eight leaves of another tree.
    void (*joint_expectation)(const ReducedNode* nodes, std::int32_t root, LeafGroup&);
    // Take all pairs of box u of two rows and those before it, or itself: the first adds up the products of
    // their changes and the weight of the pair; the second adds up Shapley values, from what units get that
    // switched or stayed.
    double (*box_pairs)(const BoxList&, std::int64_t u, const BoxWeights&);
    void (*box_pair_values)(const BoxList&, std::int64_t u, const BoxWeights& switched, const double* stayed,
                            const BoxValues&);
};

const Kernels& kernels();  // the best that this machine runs; see dispatch.cpp

}  // namespace predgap
