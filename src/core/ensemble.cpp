#include "ensemble.hpp"

#include <algorithm>
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

Atoms::Atoms(const EnsembleView& e) : of_node(e.feature.size(), -1) {
    std::vector<std::vector<double>> thresholds(static_cast<std::size_t>(e.n_features));
    std::vector<std::int32_t> splits;
    std::vector<std::int32_t> stack(e.root.begin(), e.root.end());
    while (!stack.empty()) {
        const auto node = stack.back();
        stack.pop_back();
        if (e.feature[node] == kLeaf) continue;
        if (e.category_set[node] == kNumeric) {
            splits.push_back(node);
            thresholds[e.feature[node]].push_back(e.threshold[node] + 0.0);  // -0.0 and 0.0 are one atom
        }
        stack.push_back(e.left[node]);
        stack.push_back(e.right[node]);
    }
    begin.push_back(0);
    for (std::int32_t q = 0; q < e.n_features; ++q) {
        auto& own = thresholds[q];
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        threshold.insert(threshold.end(), own.begin(), own.end());
        feature.insert(feature.end(), own.size(), q);
        begin.push_back(size());
    }
    for (const auto node : splits) {
        const auto q = e.feature[node];
        const auto first = threshold.begin() + begin[q], last = threshold.begin() + begin[q + 1];
        of_node[node] =
            static_cast<std::int32_t>(std::lower_bound(first, last, e.threshold[node]) - threshold.begin());
    }
}

}  // namespace predgap
