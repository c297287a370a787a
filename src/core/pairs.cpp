#include "pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace predgap {

using std::int32_t;
using std::int64_t;

bool Pairs::goes_left(int32_t node, const RowTables& row) const {
    return e_.goes_left(node, row.value(e_.feature[node]));
}

// P(lo <= x' < hi), from tails on their own side of x: a difference of two numbers near 1 has no digits.
double Pairs::mass(const Scratch& s, const RowTables& row, int32_t q, int64_t lo, int64_t hi) const {
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

// P(x' in the cells): what arrives there, or, where x is in one of them, all but what arrives elsewhere.
double Pairs::mass(const RowTables& row, int32_t q, const std::uint64_t* cells) {
    const auto& arriving = row.categories->mass_of.at(q);
    if (!holds(cells, static_cast<int32_t>(row.value(q))))
        return arriving.sum([&](std::size_t w) { return cells[w]; });
    return std::max(1.0 - arriving.sum([&](std::size_t w) { return ~cells[w]; }), 0.0);
}

// How likely x' gets as far as the current interval.
double Pairs::reach(const Scratch& s, const RowTables& row, int32_t q) const {
    if (e_.cells->categorical(q)) {
        const bool stays = s.lo[q] < 0 || holds(s.sets.data() + s.lo[q], static_cast<int32_t>(row.value(q)));
        return stays ? 1.0 : s.mass[q];
    }
    double reach = 1.0;
    if (s.lo[q] >= s.first_above[q]) reach *= row.S(s.lo[q]);
    if (s.hi[q] >= 0 && s.hi[q] < s.first_above[q]) reach *= row.F(s.hi[q]);
    return reach;
}

// At a perturbed split: the only child that can be reached, or kLeaf with both on the stack.
int32_t Pairs::branch(Scratch& s, const RowTables& row, int32_t node, double probability) const {
    if (e_.category_set[node] != kNumeric) return branch_on_set(s, row, node, probability);
    const auto q = e_.feature[node], atom = atoms_.of_node[node];
    if (atom <= s.lo[q]) return e_.right[node];
    if (s.hi[q] >= 0 && atom >= s.hi[q]) return e_.left[node];
    const double left = mass(s, row, q, s.lo[q], atom), right = mass(s, row, q, atom, s.hi[q]);
    const double share = probability / s.mass[q];
    const auto end = s.sets.size();
    if (right > 0) s.stack.push_back({e_.right[node], q, atom, s.hi[q], right, share * right, end, false});
    if (left > 0) s.stack.push_back({e_.left[node], q, s.lo[q], atom, left, share * left, end, false});
    return kLeaf;
}

int32_t Pairs::branch_on_set(Scratch& s, const RowTables& row, int32_t node, double probability) const {
    const auto q = e_.feature[node];
    const auto n_words = e_.cells->n_words(q);
    const auto* set = e_.cells->set(e_.category_set[node]);
    const auto left = s.sets.size(), right = left + n_words, end = right + n_words;
    s.sets.resize(end);
    std::uint64_t any_left = 0, any_right = 0;
    for (std::size_t w = 0; w < n_words; ++w) {
        const auto n_rest = e_.cells->count(q) - static_cast<int32_t>(w) * 64;
        const auto full = n_rest < 64 ? (std::uint64_t{1} << n_rest) - 1 : ~std::uint64_t{0};
        const auto here = s.lo[q] < 0 ? full : s.sets[static_cast<std::size_t>(s.lo[q]) + w];
        any_left |= s.sets[left + w] = here & set[w];
        any_right |= s.sets[right + w] = here & ~set[w];
    }
    if (!any_left || !any_right) {
        s.sets.resize(left);
        return any_left ? e_.left[node] : e_.right[node];
    }
    const double share = probability / s.mass[q];
    for (const bool to_left : {false, true}) {
        const auto begin = to_left ? left : right;
        const double m = mass(row, q, s.sets.data() + begin);
        const auto child = to_left ? e_.left[node] : e_.right[node];
        if (m > 0) s.stack.push_back({child, q, static_cast<int64_t>(begin), -1, m, share * m, end, false});
    }
    return kLeaf;
}

// Visits the leaves under root that can be reached inside the current intervals: x decides at unperturbed
// splits, every branch with positive mass is taken at perturbed ones.
template <class Visit>
void Pairs::walk(Scratch& s, const RowTables& row, const std::uint8_t* perturbed, int32_t root,
                 double probability, Visit visit) const {
    s.stack.clear();
    s.stack.push_back({root, kLeaf, -1, -1, 1.0, probability, s.sets_base, false});
    while (!s.stack.empty()) {
        const auto step = s.stack.back();
        s.stack.pop_back();
        if (step.feature != kLeaf) {
            const auto q = step.feature;
            if (!step.undo) {
                s.stack.push_back({0, q, s.lo[q], s.hi[q], s.mass[q], 0.0, 0, true});
                if (s.depth[q]++ == 0) s.used.push_back(q);
            } else if (--s.depth[q] == 0) {
                s.used.pop_back();
            }
            s.lo[q] = step.lo;
            s.hi[q] = step.hi;
            s.mass[q] = step.mass;
            if (step.undo) continue;
        }
        s.sets.resize(step.sets_end);
        auto node = step.node;
        while (node != kLeaf && e_.feature[node] != kLeaf) {
            if (perturbed[e_.feature[node]])
                node = branch(s, row, node, step.probability);
            else
                node = goes_left(node, row) ? e_.left[node] : e_.right[node];
        }
        if (node != kLeaf) visit(node, step.probability);
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
    s.sets.clear();
    s.kept.clear();
    s.sets_base = 0;
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
            double from_x = 1.0;  // tails from x to the box
            for (const auto q : s.used) from_x *= reach(s, row, q);
            s.error_scale += residual * residual * from_x;
            const auto begin = static_cast<int64_t>(s.interval.size());
            for (const auto q : s.used) s.interval.push_back({q, keep(s, q), s.hi[q], s.mass[q]});
            s.leaf.push_back({residual, probability, begin, static_cast<int64_t>(s.interval.size())});
        });
        s.tree_leaf_begin.push_back(static_cast<int64_t>(s.leaf.size()));
    }
    s.sets.swap(s.kept);
    s.sets_base = s.sets.size();
}

// The current lower end of a feature; its cells, if it is categorical, are put where they stay.
int64_t Pairs::keep(Scratch& s, int32_t q) const {
    if (s.lo[q] < 0 || !e_.cells->categorical(q)) return s.lo[q];
    const auto* cells = s.sets.data() + s.lo[q];
    s.kept.insert(s.kept.end(), cells, cells + e_.cells->n_words(q));
    return static_cast<int64_t>(s.kept.size() - e_.cells->n_words(q));
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

Pairs::Reach Pairs::reachable(int32_t root, const std::uint8_t* perturbed) const {
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

double Pairs::bytes_per_interval() const {
    std::size_t most_words = 0;
    for (int32_t q = 0; q < e_.n_features; ++q) most_words = std::max(most_words, e_.cells->n_words(q));
    return static_cast<double>(sizeof(Scratch::Interval) + most_words * sizeof(std::uint64_t));
}

Pairs::Work Pairs::work(const std::uint8_t* perturbed) const {
    const double n_perturbed = std::accumulate(perturbed, perturbed + e_.n_features, 0.0);
    double leaves = 0.0, squares = 0.0, intervals = 0.0;
    for (const auto root : e_.root) {
        const auto own = reachable(root, perturbed);
        leaves += own.leaves;
        squares += own.leaves * own.leaves;
        intervals += own.leaves * std::min(own.depth, n_perturbed);
    }
    // A tree meets the others, and itself leaf by leaf; a set of cells costs by its words.
    double most_words = 0.0;
    for (int32_t q = 0; q < e_.n_features; ++q)
        if (perturbed[q]) most_words = std::max(most_words, static_cast<double>(e_.cells->n_words(q)));
    return {(leaves + 0.5 * (leaves * leaves - squares)) * (1.0 + 0.5 * most_words),
            intervals * bytes_per_interval()};
}

}  // namespace predgap
