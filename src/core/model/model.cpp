// Lays out the trees of a model for the kernels: copies in preorder, with what splits allow of each feature.
#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/equal_trees.hpp"

namespace predgap {

using std::int32_t;

namespace {

NodeArrays merged(NodeArrays arrays, const std::function<void()>& check) {
    merge_equal_trees(arrays, check);
    return arrays;
}

}  // namespace

Model::Model(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check)
    : arrays_(merged(std::move(arrays), check)),
      cells(sets),
      all_trees{arrays_.n_features, arrays_.root,         arrays_.feature, arrays_.threshold,    arrays_.left,
                arrays_.right,      arrays_.default_left, arrays_.value,   arrays_.category_set, &cells},
      atoms(all_trees, check),
      set_atoms(cells, atoms.size()) {
    view_outputs();
    lay_out_groups(check);
    std::vector<std::uint8_t> used(static_cast<std::size_t>(n_features()), 0);
    for (const auto& g : group)
        for (const auto& node : g.node)
            if (node.feature != kLeaf) used[node.feature] = 1;
    for (int32_t q = 0; q < n_features(); ++q)
        if (used[q]) features.push_back(q);
}

void Model::view_outputs() {
    const auto n_nodes = arrays_.feature.size();
    const auto width = n_nodes ? arrays_.value.size() / n_nodes : 1;
    roots_.resize(static_cast<std::size_t>(n_outputs()));
    values_.resize(roots_.size());
    for (std::size_t k = 0; k < roots_.size(); ++k) {
        for (std::size_t t = 0; t < arrays_.root.size(); ++t)
            if (arrays_.target[t] < 0 || arrays_.target[t] == static_cast<int32_t>(k))
                roots_[k].push_back(arrays_.root[t]);
        if (width > 1)
            for (std::size_t i = 0; i < n_nodes; ++i) values_[k].push_back(arrays_.value[i * width + k]);
        auto view = all_trees;
        view.root = roots_[k];
        if (width > 1) view.value = values_[k];
        output.push_back(view);
    }
}

void Model::lay_out_groups(const std::function<void()>& check) {
    const auto n_nodes = arrays_.feature.size();
    const auto width = n_nodes ? arrays_.value.size() / n_nodes : 1;
    group.resize(width > 1 ? 1 : roots_.size());
    for (std::size_t k = 0; k < group.size(); ++k) {
        group[k].width = static_cast<int32_t>(width);
        lay_out(group[k], roots_[k], check);
    }
    const auto number = set_atoms.finish();
    for (auto& g : group)
        for (auto& split : g.split)
            for (auto* ends : {&split.left, &split.right})
                if (!ends->empty())
                    for (auto* end : {&ends->lo, &ends->hi})
                        if (*end >= 0) *end = number[*end - atoms.size()];
}

namespace {

// Copies trees to preorder, and notes what the splits above a node allow of each feature.
class Layout {
public:
    Layout(const EnsembleView& trees, const Atoms& atoms, SetAtoms& sets, TreeGroup& group)
        : e_(trees), atoms_(atoms), sets_(sets), g_(group), ends_(static_cast<std::size_t>(e_.n_features)) {}

    void add(int32_t root) {
        g_.root.push_back(next());
        stack_.assign(1, {root, -1, 0, -1, {}, false, 0, -1});
        categorical_.clear();
        const auto first = next();
        while (!stack_.empty()) {
            const auto step = stack_.back();
            stack_.pop_back();
            if (step.feature >= 0) narrow(step);
            if (!step.undo) copy(step);
        }
        spread_values(first);
    }

private:
    struct Step {
        int32_t node, parent, depth;  // in the copy
        int32_t feature;              // whose ends change, or -1
        SetAtoms::Ends ends;
        bool undo;
        std::uint64_t path;   // bits of the features above it, modulo 64
        int32_t categorical;  // the last of those with categories, or -1
    };
    struct Categorical {
        int32_t feature, before;  // before: the one above it, or -1
    };

    int32_t next() const { return static_cast<int32_t>(g_.node.size()); }

    void narrow(const Step& step) {
        if (!step.undo) {
            auto back = step;
            back.ends = ends_[step.feature];
            back.undo = true;
            stack_.push_back(back);
        }
        ends_[step.feature] = step.ends;
    }

    void copy(const Step& step) {
        const auto id = next(), q = e_.feature[step.node], set = e_.category_set[step.node];
        if (step.parent >= 0) g_.node[step.parent].right = id;
        g_.depth = std::max(g_.depth, step.depth);
        if (q == kLeaf) {
            g_.node.push_back({kLeaf, static_cast<int32_t>(g_.value.size()), 0, false, Node::Way::both});
            const auto* value = e_.value.data() + std::size_t(step.node) * g_.width;
            g_.value.insert(g_.value.end(), value, value + g_.width);
            return;
        }
        const auto own = std::uint64_t{1} << q % 64;
        auto last = step.categorical;
        for (auto i = last; i >= 0; i = categorical_[i].before)
            if (const auto p = categorical_[i].feature; p != q) sets_.add_others(ends_[p], own);
        auto atom = atoms_.of_node[step.node];
        auto way = Node::Way::both;
        auto left = ends_[q], right = left;
        if (set == kNumeric) {
            if (atom <= left.lo) way = Node::Way::right;
            if (left.hi >= 0 && atom >= left.hi) way = Node::Way::left;
            if (way == Node::Way::both) left.hi = right.lo = atom;
        } else {
            left = sets_.meet(q, ends_[q], set, true);
            right = sets_.meet(q, ends_[q], set, false);
            if (left.empty()) way = Node::Way::right;
            if (right.empty()) way = Node::Way::left;
            for (const auto& ends : {left, right}) sets_.add_others(ends, step.path & ~own);
            last = static_cast<int32_t>(categorical_.size());
            categorical_.push_back({q, step.categorical});
            atom = ~static_cast<int32_t>(g_.split.size());
            g_.split.push_back({set, left, right});
        }
        g_.node.push_back({q, 0, atom, e_.default_left[step.node] != 0, way});
        const auto path = step.path | own;
        stack_.push_back({e_.right[step.node], id, step.depth + 1, q, right, false, path, last});
        stack_.push_back({e_.left[step.node], -1, step.depth + 1, q, left, false, path, last});
    }

    // Goes from the leaves of the last tree to its root, and finds for each node how far two values below it
    // are apart, at most; and for the tree its least and its largest values.
    void spread_values(int32_t first) {
        const auto w = static_cast<std::size_t>(g_.width), n = g_.node.size();
        least_.resize((n - first) * w);
        most_.resize((n - first) * w);
        g_.range.resize(n);
        for (auto i = n; i-- > static_cast<std::size_t>(first);) {
            const auto& node = g_.node[i];
            const auto at = (i - first) * w;
            double square = 0.0;
            for (std::size_t k = 0; k < w; ++k) {
                if (node.feature == kLeaf) {
                    least_[at + k] = most_[at + k] = g_.value[node.right + k];
                } else {
                    const auto left = at + w + k, right = (std::size_t(node.right) - first) * w + k;
                    least_[at + k] = std::min(least_[left], least_[right]);
                    most_[at + k] = std::max(most_[left], most_[right]);
                }
                const double range = most_[at + k] - least_[at + k];
                square += range * range;
            }
            g_.range[i] = w == 1 ? most_[at] - least_[at] : std::sqrt(square);
        }
        g_.least.insert(g_.least.end(), least_.begin(), least_.begin() + static_cast<std::ptrdiff_t>(w));
        g_.most.insert(g_.most.end(), most_.begin(), most_.begin() + static_cast<std::ptrdiff_t>(w));
    }

    const EnsembleView& e_;
    const Atoms& atoms_;
    SetAtoms& sets_;
    TreeGroup& g_;
    std::vector<SetAtoms::Ends> ends_;  // (n_features) of the path
    std::vector<Step> stack_;
    std::vector<Categorical> categorical_;  // splits of one tree
    std::vector<double> least_, most_;      // of the nodes of one tree
};

}  // namespace

void Model::lay_out(TreeGroup& g, const std::vector<int32_t>& roots, const std::function<void()>& check) {
    Layout layout(all_trees, atoms, set_atoms, g);
    for (const auto root : roots) {
        check();
        layout.add(root);
    }
}

}  // namespace predgap
