// Finds trees with the same splits by a hash of their nodes, and adds their leaves.
#include "model/equal_trees.hpp"

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace predgap {

using std::int32_t;
using std::uint64_t;

namespace {

// Calls visit(node of one tree, node of the other) in the same order; false as soon as visit is.
template <class Visit>
bool walk_together(const NodeArrays& a, int32_t one, int32_t other, Visit visit) {
    std::vector<std::pair<int32_t, int32_t>> stack{{one, other}};
    while (!stack.empty()) {
        const auto [i, j] = stack.back();
        stack.pop_back();
        if (!visit(static_cast<std::size_t>(i), static_cast<std::size_t>(j))) return false;
        if (a.feature[static_cast<std::size_t>(i)] == kLeaf) continue;
        stack.emplace_back(a.right[static_cast<std::size_t>(i)], a.right[static_cast<std::size_t>(j)]);
        stack.emplace_back(a.left[static_cast<std::size_t>(i)], a.left[static_cast<std::size_t>(j)]);
    }
    return true;
}

uint64_t hash_of(const NodeArrays& a, int32_t root, int32_t target) {
    uint64_t hash = static_cast<uint64_t>(target) + 1;
    walk_together(a, root, root, [&](std::size_t i, std::size_t) {
        for (const auto part :
             {static_cast<uint64_t>(a.feature[i] + 1), std::bit_cast<uint64_t>(a.threshold[i]),
              static_cast<uint64_t>(a.category_set[i] + 1)})
            hash = (hash ^ (a.feature[i] == kLeaf ? 0 : part)) * 0x9e3779b97f4a7c15 + (hash >> 29);
        return true;
    });
    return hash;
}

bool are_equal(const NodeArrays& a, int32_t one, int32_t other) {
    return walk_together(a, one, other, [&](std::size_t i, std::size_t j) {
        if (a.feature[i] != a.feature[j]) return false;
        return a.feature[i] == kLeaf ||
               (a.threshold[i] == a.threshold[j] && a.default_left[i] == a.default_left[j] &&
                a.category_set[i] == a.category_set[j]);
    });
}

}  // namespace

void merge_equal_trees(NodeArrays& a, const std::function<void()>& check) {
    const auto width = a.feature.empty() ? 1 : a.value.size() / a.feature.size();
    std::unordered_multimap<uint64_t, std::size_t> known;  // trees that stay
    std::size_t n = 0;
    for (std::size_t t = 0; t < a.root.size(); ++t) {
        check();
        const auto hash = hash_of(a, a.root[t], a.target[t]);
        const auto [first, last] = known.equal_range(hash);
        auto same = first;
        while (same != last &&
               !(a.target[same->second] == a.target[t] && are_equal(a, a.root[same->second], a.root[t])))
            ++same;
        if (same != last) {
            walk_together(a, a.root[same->second], a.root[t], [&](std::size_t i, std::size_t j) {
                for (std::size_t k = 0; k < width; ++k) a.value[i * width + k] += a.value[j * width + k];
                return true;
            });
            continue;
        }
        a.root[n] = a.root[t];
        a.target[n] = a.target[t];
        known.emplace(hash, n++);
    }
    a.root.resize(n);
    a.target.resize(n);
}

}  // namespace predgap
