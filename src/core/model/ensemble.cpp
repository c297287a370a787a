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

Atoms::Atoms(const EnsembleView& e) : of_node(e.feature.size(), -1) {
    std::vector<std::pair<std::int32_t, double>> cuts;  // feature and threshold
    std::vector<std::int32_t> splits;
    std::vector<std::int32_t> stack(e.root.begin(), e.root.end());
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
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    begin.assign(static_cast<std::size_t>(e.n_features) + 1, 0);
    for (const auto& [q, cut] : cuts) {
        ++begin[static_cast<std::size_t>(q) + 1];
        feature.push_back(q);
        threshold.push_back(cut);
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const auto node : splits) {
        const auto q = e.feature[node];
        const auto first = threshold.begin() + begin[q], last = threshold.begin() + begin[q + 1];
        of_node[node] =
            static_cast<std::int32_t>(std::lower_bound(first, last, e.threshold[node]) - threshold.begin());
    }
}

}  // namespace predgap
