// The trees as the pairs kernel sees them: one without the splits that x decides, and eight leaves of
// another.
#pragma once

#include <cstdint>

#include "simd/lanes.hpp"

namespace predgap {

// A split of a tree as one row and one subset see it: only those are left that can go either way.
struct ReducedNode {
    double below = 0, above = 0;  // F and S of its threshold
    double share = 0;             // of what gets to its parent
    double mean = 0;              // residual of what gets here
    std::uint64_t features = 0;   // bits of the slots that are split on from here on; none at a leaf
    std::int32_t slot = 0;        // of its feature
    std::int32_t set = -1;        // of categories that it tests, or kNumeric
    std::int32_t child[2] = {0, 0};
};

// The cells that eight boxes allow of the categorical features.
class GroupSets {
public:
    // Parts them by the set that a node tests: the masses of both parts, where the probability is positive.
    virtual void split(const ReducedNode& node, const double* probability, double* left, double* right) = 0;
    virtual void enter(int side) = 0;  // one of the parts of the last split
    virtual void leave() = 0;          // undoes the last split

protected:
    ~GroupSets() = default;
};

// Eight leaves of a tree, as arrays of lanes with one lane per leaf.
struct LeafGroup {
    static constexpr int kEnds = 5;      // F and S of the lower end, F and S of the upper, the mass between
    static constexpr int kFrame = 7;     // lanes that a split on the way takes
    double* ends;                        // (n_slots, kEnds)
    double* probability;                 // (1) 0 where there is no leaf
    double* frames;                      // (depth, kFrame)
    std::uint64_t cut_below, cut_above;  // bits of the slots that any of the boxes limits
    GroupSets* sets;
    double* rest;        // (1) out: E[residual; in the leaf]
    std::int64_t n_met;  // out: nodes that the walk came to
};

}  // namespace predgap
