#include "pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace predgap {

using std::int32_t;
using std::int64_t;

bool Pairs::goes_left(int32_t node, const RowTables& row) const {
    const double x = row.value(e_.feature[node]);
    return std::isnan(x) ? e_.default_left[node] != 0 : x < e_.threshold[node];
}

// P(lo <= x' < hi), from tails on their own side of x: a difference of two numbers near 1 has no digits.
double Pairs::mass(const Scratch& s, const RowTables& row, int32_t q, int32_t lo, int32_t hi) const {
    const auto above = s.first_above[q];
    double m;
    if (hi >= 0 && hi < above)
        m = row.F(hi) - (lo >= 0 ? row.F(lo) : 0.0);
    else if (lo >= 0 && lo >= above)
        m = row.S(lo) - (hi >= 0 ? row.S(hi) : 0.0);
    else
        m = 1.0 - (lo >= 0 ? row.F(lo) : 0.0) - (hi >= 0 ? row.S(hi) : 0.0);
    return std::max(m, 0.0);
}

// Visits the leaves under root that can be reached inside the current intervals: x decides at unperturbed
// splits, every branch with positive mass is taken at perturbed ones.
template <class Visit>
void Pairs::walk(Scratch& s, const RowTables& row, const std::uint8_t* perturbed, int32_t root,
                 double probability, Visit visit) const {
    s.stack.clear();
    s.stack.push_back({root, kLeaf, -1, -1, 1.0, probability, false});
    while (!s.stack.empty()) {
        const auto step = s.stack.back();
        s.stack.pop_back();
        if (step.feature != kLeaf) {
            const auto q = step.feature;
            if (!step.undo) {
                s.stack.push_back({0, q, s.lo[q], s.hi[q], s.mass[q], 0.0, true});
                if (s.depth[q]++ == 0) s.used.push_back(q);
            } else if (--s.depth[q] == 0) {
                s.used.pop_back();
            }
            s.lo[q] = step.lo;
            s.hi[q] = step.hi;
            s.mass[q] = step.mass;
            if (step.undo) continue;
        }
        auto node = step.node;
        while (e_.feature[node] != kLeaf) {
            const auto q = e_.feature[node], atom = atoms_.of_node[node];
            if (!perturbed[q]) {
                node = goes_left(node, row) ? e_.left[node] : e_.right[node];
            } else if (atom <= s.lo[q]) {
                node = e_.right[node];
            } else if (s.hi[q] >= 0 && atom >= s.hi[q]) {
                node = e_.left[node];
            } else {
                const double left = mass(s, row, q, s.lo[q], atom), right = mass(s, row, q, atom, s.hi[q]);
                const double share = step.probability / s.mass[q];
                if (right > 0)
                    s.stack.push_back({e_.right[node], q, atom, s.hi[q], right, share * right, false});
                if (left > 0) s.stack.push_back({e_.left[node], q, s.lo[q], atom, left, share * left, false});
                break;
            }
        }
        if (e_.feature[node] == kLeaf) visit(node, step.probability);
    }
}

void Pairs::start(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const {
    const auto d = static_cast<std::size_t>(e_.n_features);
    s.lo.assign(d, -1);
    s.hi.assign(d, -1);
    s.mass.assign(d, 1.0);
    s.depth.assign(d, 0);
    s.first_above.resize(d);
    s.used.clear();
    for (int32_t q = 0; q < e_.n_features; ++q) {
        if (!perturbed[q]) continue;
        const auto first = atoms_.threshold.begin() + atoms_.begin[q];
        const auto last = atoms_.threshold.begin() + atoms_.begin[q + 1];
        s.first_above[q] =
            static_cast<int32_t>(std::upper_bound(first, last, row.value(q)) - atoms_.threshold.begin());
    }
    s.base.clear();
    for (auto node : e_.root) {
        while (e_.feature[node] != kLeaf) node = goes_left(node, row) ? e_.left[node] : e_.right[node];
        s.base.push_back(e_.value[node]);
    }
}

// The leaves with a residual, tree by tree, each with its probability and box.
void Pairs::collect(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const {
    const auto n_trees = e_.root.size();
    s.leaf.clear();
    s.interval.clear();
    s.tree_leaf_begin.assign(1, 0);
    s.mean.assign(n_trees, 0.0);
    s.error_scale = 0.0;
    s.touched.assign(n_trees * words(), 0);
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
        walk(s, row, perturbed, e_.root[tree], 1.0, [&](int32_t node, double probability) {
            const double residual = e_.value[node] - s.base[tree];
            for (const auto q : s.used) s.touched[tree * words() + q / 64] |= std::uint64_t{1} << (q % 64);
            if (residual == 0.0) return;
            s.mean[tree] += residual * probability;
            double reach = 1.0;  // tails from x to the box
            for (const auto q : s.used) {
                if (s.lo[q] >= s.first_above[q]) reach *= row.S(s.lo[q]);
                if (s.hi[q] >= 0 && s.hi[q] < s.first_above[q]) reach *= row.F(s.hi[q]);
            }
            s.error_scale += residual * residual * reach;
            const auto begin = static_cast<int64_t>(s.interval.size());
            for (const auto q : s.used) s.interval.push_back({q, s.lo[q], s.hi[q], s.mass[q]});
            s.leaf.push_back({residual, probability, begin, static_cast<int64_t>(s.interval.size())});
        });
        s.tree_leaf_begin.push_back(static_cast<int64_t>(s.leaf.size()));
    }
}

double Pairs::mean_change(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const {
    start(s, row, perturbed);
    collect(s, row, perturbed);
    return std::accumulate(s.mean.begin(), s.mean.end(), 0.0);
}

Pairs::Result Pairs::gap(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const {
    start(s, row, perturbed);
    collect(s, row, perturbed);
    const auto n_trees = e_.root.size();
    const auto share_a_feature = [&](std::size_t a, std::size_t b) {
        for (std::size_t w = 0; w < words(); ++w)
            if (s.touched[a * words() + w] & s.touched[b * words() + w]) return true;
        return false;
    };
    Result sum{0.0, s.error_scale * static_cast<double>(n_trees)};
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
        for (auto i = s.tree_leaf_begin[tree]; i < s.tree_leaf_begin[tree + 1]; ++i) {
            if (s.stop->load(std::memory_order_relaxed)) return sum;
            const auto u = s.leaf[i];
            double rest = 0.0;
            for (auto j = u.interval_begin; j < u.interval_end; ++j) {
                const auto& box = s.interval[j];
                s.lo[box.feature] = box.lo;
                s.hi[box.feature] = box.hi;
                s.mass[box.feature] = box.mass;
            }
            for (auto other = tree + 1; other < n_trees; ++other) {
                if (s.tree_leaf_begin[other] == s.tree_leaf_begin[other + 1]) continue;
                if (!share_a_feature(tree, other)) {
                    rest += s.mean[other] * u.probability;
                    continue;
                }
                walk(s, row, perturbed, e_.root[other], u.probability, [&](int32_t node, double probability) {
                    rest += (e_.value[node] - s.base[other]) * probability;
                });
            }
            for (auto j = u.interval_begin; j < u.interval_end; ++j) {
                const auto q = s.interval[j].feature;
                s.lo[q] = s.hi[q] = -1;
                s.mass[q] = 1.0;
            }
            sum.gap += u.residual * (u.residual * u.probability + 2.0 * rest);
        }
    }
    sum.gap = std::max(sum.gap, 0.0);
    return sum;
}

Pairs::Reach Pairs::reach(int32_t root, const std::uint8_t* perturbed) const {
    // Post-order without recursion: a path may be as long as the tree has nodes.
    std::vector<std::pair<int32_t, bool>> stack{{root, false}};
    std::vector<Reach> result;
    while (!stack.empty()) {
        const auto [node, done] = stack.back();
        stack.pop_back();
        if (e_.feature[node] == kLeaf) {
            result.push_back({1.0, 0.0});
        } else if (!done) {
            stack.insert(stack.end(), {{node, true}, {e_.left[node], false}, {e_.right[node], false}});
        } else {
            const auto a = result.back();
            result.pop_back();
            auto& b = result.back();
            if (perturbed[e_.feature[node]])
                b = {a.leaves + b.leaves, std::max(a.depth, b.depth) + 1.0};
            else
                b = {std::max(a.leaves, b.leaves), std::max(a.depth, b.depth)};
        }
    }
    return result.back();
}

double Pairs::cost(const std::uint8_t* perturbed) const {
    const double n_perturbed = std::accumulate(perturbed, perturbed + e_.n_features, 0.0);
    double leaves = 0.0, squares = 0.0, intervals = 0.0;
    for (const auto root : e_.root) {
        const auto own = reach(root, perturbed);
        leaves += own.leaves;
        squares += own.leaves * own.leaves;
        intervals += own.leaves * std::min(own.depth, n_perturbed);
    }
    if (intervals * kIntervalBytes > kMostBytes) return std::numeric_limits<double>::infinity();
    return leaves + 0.5 * (leaves * leaves - squares);  // a tree meets the others, and itself leaf by leaf
}

}  // namespace predgap
