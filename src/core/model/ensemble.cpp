// Collects the distinct thresholds of all trees, and the depth of the deepest tree.
#include "model/ensemble.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace predgap {

std::int32_t depth(const EnsembleView& e) {
    std::int32_t deepest = 0;
    std::vector<std::pair<std::int32_t, std::int32_t>> stack;
    for (const auto root : e.root) stack.emplace_back(root, 0);
    while (!stack.empty()) {
        const auto [node, level] = stack.back();
        stack.pop_back();
        deepest = std::max(deepest, level);
        if (e.feature[node] == kLeaf) continue;
        stack.emplace_back(e.left[node], level + 1);
        stack.emplace_back(e.right[node], level + 1);
    }
    return deepest;
}

namespace {

// Sorts the cuts and drops those that are there twice; returns how many are left.
std::size_t keep_distinct(std::vector<std::pair<std::int32_t, double>>& cuts) {
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts.size();
}

}  // namespace

Atoms::Atoms(const EnsembleView& e, const std::function<void()>& check) : of_node(e.feature.size(), -1) {
    std::vector<std::pair<std::int32_t, double>> cuts;  // feature and threshold
    std::vector<std::int32_t> splits, stack;
    std::size_t n_sorted = 0;
    for (const auto root : e.root) {
        check();
        stack.assign(1, root);
        while (!stack.empty()) {
            const auto node = stack.back();
            stack.pop_back();
            if (e.feature[node] == kLeaf) continue;
            if (e.category_set[node] == kNumeric) {
                splits.push_back(node);
                cuts.emplace_back(e.feature[node], e.threshold[node] + 0.0);  // -0.0 and 0.0 are one atom
            }
            stack.push_back(e.left[node]);
            stack.push_back(e.right[node]);
        }
        if (cuts.size() > 2 * n_sorted + (1 << 18)) n_sorted = keep_distinct(cuts);
    }
    keep_distinct(cuts);
    begin.assign(static_cast<std::size_t>(e.n_features) + 1, 0);
    for (const auto& [q, cut] : cuts) {
        ++begin[static_cast<std::size_t>(q) + 1];
        feature.push_back(q);
        threshold.push_back(cut);
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (std::size_t i = 0; i < splits.size(); ++i) {
        if (i % (1 << 16) == 0) check();
        const auto node = splits[i], q = e.feature[node];
        const auto first = threshold.begin() + begin[q], last = threshold.begin() + begin[q + 1];
        of_node[node] =
            static_cast<std::int32_t>(std::lower_bound(first, last, e.threshold[node]) - threshold.begin());
    }
}

}  // namespace predgap
