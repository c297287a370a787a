// A model as the kernels see it: all outputs, with what follows from the trees alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/cells.hpp"
#include "model/ensemble.hpp"

namespace predgap {

// Node arrays as Python gives them.
struct NodeArrays {
    std::int32_t n_features, n_outputs;
    std::vector<std::int32_t> root, target;  // (n_trees) target: the output, or -1 where leaves are vectors
    std::vector<std::int32_t> feature;       // (n_nodes) and so on
    std::vector<double> threshold;
    std::vector<std::int32_t> left, right;
    std::vector<std::uint8_t> default_left;
    std::vector<double> value;  // (n_nodes, 1 or n_outputs)
    std::vector<std::int32_t> category_set;
};

// A node of a tree that is laid out in preorder: the left child of a split is the next node.
struct Node {
    std::int32_t feature;  // kLeaf at a leaf
    std::int32_t right;    // at a leaf: where its values begin
    std::int32_t atom;     // threshold of a numeric split; of a split on categories, ~(its number in `split`)
    bool default_left;
    // Splits above it may leave only one way to go, but for missing values.
    enum class Way : std::uint8_t { both, left, right } way;
};

// A split on categories: the set it tests, and what its children allow of its feature, given the splits above
// it.
struct SetSplit {
    std::int32_t set;
    SetAtoms::Ends left, right;
};

// Trees that add to the same outputs.
struct TreeGroup {
    std::int32_t width = 1;          // outputs
    std::vector<Node> node;          // all trees
    std::vector<std::int32_t> root;  // (n_trees)
    std::vector<SetSplit> split;
    std::vector<double> value;        // (n_leaves, width)
    std::vector<double> range;        // (n_nodes) how far two values below it are apart, at most
    std::vector<double> least, most;  // (n_trees, width)
    std::int32_t depth = 0;
};

class Model {
public:
    Model(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check);
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    std::int32_t n_features() const { return arrays_.n_features; }
    std::int32_t n_outputs() const { return arrays_.n_outputs; }
    std::int32_t n_thresholds() const { return atoms.size(); }
    std::int32_t n_atoms() const { return atoms.size() + set_atoms.size(); }
    std::int32_t feature_of(std::int32_t atom) const {
        return atom < atoms.size() ? atoms.feature[atom] : set_atoms.feature[atom - atoms.size()];
    }

private:
    NodeArrays arrays_;
    std::vector<std::vector<std::int32_t>> roots_;  // (n_outputs)
    std::vector<std::vector<double>> values_;       // (n_outputs) of vector leaves

    void view_outputs();
    void lay_out_groups(const std::function<void()>& check);
    void lay_out(TreeGroup& group, const std::vector<std::int32_t>& roots,
                 const std::function<void()>& check);

public:
    Cells cells;
    EnsembleView all_trees;
    Atoms atoms;
    SetAtoms set_atoms;                  // numbered after the thresholds
    std::vector<EnsembleView> output;    // (n_outputs)
    std::vector<TreeGroup> group;        // one per output, or one for all where leaves are vectors
    std::vector<std::int32_t> features;  // that some split uses, ascending
};

}  // namespace predgap
