// Copies the trees of a row without the splits that x decides, and walks points through them.
#include "sampling/sampling.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace predgap {

using std::int32_t;
using std::int64_t;

// Copies the tree under root with its unperturbed splits resolved; returns the root of the copy.
int32_t Sampler::copy(int32_t root, const RowTables& row, const int32_t* column, double base,
                      int32_t& depth) {
    struct Step {
        int32_t node, parent, side, depth;
    };
    const auto resolve = [&](int32_t node) {
        while (e_.feature[node] != kLeaf && !row.is_open[e_.feature[node]]) node = row.child(e_, node);
        return node;
    };
    const auto first = static_cast<int32_t>(node_.size());
    std::vector<Step> stack{{resolve(root), -1, 0, 0}};
    depth = 0;
    while (!stack.empty()) {
        const auto step = stack.back();
        stack.pop_back();
        const auto id = static_cast<int32_t>(node_.size());
        if (step.parent >= 0) node_[step.parent].child[step.side] = id;
        depth = std::max(depth, step.depth);
        const auto q = e_.feature[step.node];
        if (q == kLeaf) {
            node_.push_back({0, 0, nullptr, {id, id}});
            residual_.push_back(e_.value[step.node] - base);
            continue;
        }
        const auto set = e_.category_set[step.node];
        if (set == kNumeric) {
            node_.push_back({column[q], atoms_.of_node[step.node] - atoms_.begin[q], nullptr, {0, 0}});
        } else {
            node_.push_back({column[q], 0, e_.cells->set(set), {0, 0}});
            has_sets_ = true;
        }
        residual_.push_back(0.0);
        stack.push_back({resolve(e_.right[step.node]), id, 1, step.depth + 1});
        stack.push_back({resolve(e_.left[step.node]), id, 0, step.depth + 1});
    }
    return first;
}

void Sampler::reduce(const RowTables& row, const int32_t* column, int32_t n_columns) {
    n_columns_ = n_columns;
    cell_.assign(static_cast<std::size_t>(std::max(n_columns, 1)) * kWays, 0);
    axis_.resize(static_cast<std::size_t>(n_columns));
    moves_.assign(static_cast<std::size_t>(n_columns), 0);
    for (const auto q : row.model().features) {
        if (!row.is_open[q]) continue;
        axis_[column[q]].fill(row, e_, atoms_, q);
        moves_[column[q]] = 1;
    }
    node_.clear();
    residual_.clear();
    tree_.clear();
    has_sets_ = false;
    for (const auto root : e_.root) {
        int32_t depth = 0;
        const auto first = copy(root, row, column, e_.value[row.leaf(e_, root)], depth);
        if (depth > 0) tree_.push_back({first, depth});
    }
}

// The cells of kWays points; past the last point they repeat it.
void Sampler::locate(const double* points, int64_t n) {
    for (int32_t c = 0; c < n_columns_; ++c) {
        if (!moves_[c]) continue;
        for (int way = 0; way < kWays; ++way)
            cell_[c * kWays + way] = axis_[c].cell(points[std::min<int64_t>(way, n - 1) * n_columns_ + c]);
    }
}

PowerSums Sampler::evaluate(const double* points, int64_t n_points, const std::atomic<bool>& stop) {
    PowerSums sum{0.0, 0.0, 0.0};
    each_change(points, n_points, stop, [&](int64_t, double change) {
        const double square = change * change;
        sum.first += change;
        sum.second += square;
        sum.fourth += square * square;
    });
    return sum;
}

void Sampler::list(const double* points, int64_t n_points, const std::atomic<bool>& stop, double* changes) {
    each_change(points, n_points, stop, [&](int64_t point, double change) { changes[point] = change; });
}

template <class Take>
void Sampler::each_change(const double* points, int64_t n_points, const std::atomic<bool>& stop, Take take) {
    if (has_sets_)
        walk<true>(points, n_points, stop, take);
    else
        walk<false>(points, n_points, stop, take);
}

template <bool kSets, class Take>
void Sampler::walk(const double* points, int64_t n_points, const std::atomic<bool>& stop, Take take) {
    for (int64_t first = 0; first < n_points && !stop.load(std::memory_order_relaxed); first += kWays) {
        const auto n = std::min<int64_t>(kWays, n_points - first);
        locate(points + first * n_columns_, n);
        std::array<double, kWays> change{};
        for (const auto& tree : tree_) {
            std::array<int32_t, kWays> at;
            at.fill(tree.root);
            for (int32_t level = 0; level < tree.depth; ++level)
                for (int way = 0; way < kWays; ++way) {
                    const auto& node = node_[at[way]];
                    const auto cell = cell_[node.column * kWays + way];
                    at[way] = node.child[kSets && node.set ? !holds(node.set, cell) : cell > node.atom];
                }
            for (int way = 0; way < kWays; ++way) change[way] += residual_[at[way]];
        }
        for (int way = 0; way < n; ++way) take(first + way, change[way]);
    }
}

}  // namespace predgap
