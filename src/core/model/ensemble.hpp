// Node arrays of a model, and the thresholds that cut each numeric feature's axis into cells.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/cells.hpp"

namespace predgap {

constexpr std::int32_t kLeaf = -1;

// One output: the trees that add to it. Spans over arrays that Python has validated: every index is in range
// and there are no cycles.
struct EnsembleView {
    std::int32_t n_features;
    std::span<const std::int32_t> root;          // (n_trees)
    std::span<const std::int32_t> feature;       // (n_nodes) kLeaf at leaves
    std::span<const double> threshold;           // (n_nodes) left iff x < threshold
    std::span<const std::int32_t> left;          // (n_nodes)
    std::span<const std::int32_t> right;         // (n_nodes)
    std::span<const std::uint8_t> default_left;  // (n_nodes) where a missing value goes
    std::span<const double> value;               // (n_nodes)
    std::span<const std::int32_t> category_set;  // (n_nodes) left iff x is a cell of it; or kNumeric
    const Cells* cells;

    bool goes_left(std::int32_t node, double x) const {
        if (std::isnan(x)) return default_left[node] != 0;
        const auto set = category_set[node];
        return set == kNumeric ? x < threshold[node] : holds(cells->set(set), static_cast<std::int32_t>(x));
    }
};

// The number of splits on the longest path.
std::int32_t depth(const EnsembleView& e);

// Atoms on numeric features are the distinct thresholds of the trees, sorted by feature and value; their ids
// are global.
struct Atoms {
    std::vector<std::int32_t> begin;    // (n_features + 1) first atom of each feature
    std::vector<std::int32_t> feature;  // (n_atoms)
    std::vector<double> threshold;      // (n_atoms)
    std::vector<std::int32_t> of_node;  // (n_nodes) atom of each reachable threshold, -1 elsewhere

    // check() is called now and then, and ends it by throwing.
    Atoms(const EnsembleView& all_trees, const std::function<void()>& check);
    std::int32_t size() const { return static_cast<std::int32_t>(threshold.size()); }
};

}  // namespace predgap
