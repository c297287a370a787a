// Walks the trees of a row with all cells that the features can be in, and adds up probabilities and changes.
#include "outcomes/outcomes.hpp"

#include <algorithm>
#include <utility>

namespace predgap {

using std::int32_t;
using std::size_t;

Outcomes::Outcomes(const Model& model)
    : model_(model),
      is_tested_(static_cast<size_t>(model.n_thresholds())),
      is_met_(static_cast<size_t>(model.n_features())),
      axis_of_(static_cast<size_t>(model.n_features())) {}

// ---- the cells of each feature ---------------------------------------------------------------------------

void Outcomes::find_axes(const RowTables& row) {
    std::fill(is_tested_.begin(), is_tested_.end(), 0);
    std::fill(is_met_.begin(), is_met_.end(), 0);
    std::fill(axis_of_.begin(), axis_of_.end(), -1);
    for (const auto& output : model_.output) mark_splits(output, row);
    axis_.clear();
    for (const auto q : model_.features) {
        if (!is_met_[q]) continue;
        if (model_.cells.categorical(q))
            add_category_axis(row, q);
        else
            add_numeric_axis(row, q);
        if (axis_.back().probability.size() < 2)
            axis_.pop_back();
        else
            axis_of_[q] = static_cast<int32_t>(axis_.size()) - 1;
    }
    // The longest axis comes last, because its entries are neighbours.
    std::stable_sort(axis_.begin(), axis_.end(), [](const Axis& a, const Axis& b) {
        return a.probability.size() < b.probability.size();
    });
    for (size_t i = 0; i < axis_.size(); ++i) axis_of_[axis_[i].feature] = static_cast<int32_t>(i);
    stride_.assign(axis_.size(), 1);
    for (auto i = axis_.size(); i-- > 1;) stride_[i - 1] = stride_[i] * axis_[i].probability.size();
}

void Outcomes::mark_splits(const EnsembleView& e, const RowTables& row) {
    std::vector<int32_t> stack(e.root.begin(), e.root.end());
    while (!stack.empty()) {
        auto node = stack.back();
        stack.pop_back();
        while (e.feature[node] != kLeaf && !row.is_open[e.feature[node]]) node = row.child(e, node);
        const auto q = e.feature[node];
        if (q == kLeaf) continue;
        is_met_[q] = 1;
        if (e.category_set[node] == kNumeric) is_tested_[model_.atoms.of_node[node]] = 1;
        stack.push_back(e.left[node]);
        stack.push_back(e.right[node]);
    }
}

void Outcomes::add_numeric_axis(const RowTables& row, int32_t q) {
    Axis axis{.feature = q, .cut = {}, .probability = {}, .category = {}};
    for (auto a = model_.atoms.begin[q]; a < model_.atoms.begin[q + 1]; ++a)
        if (is_tested_[a] && row.reach(a) > 0) axis.cut.push_back(a);
    for (size_t i = 0; i <= axis.cut.size(); ++i)
        axis.probability.push_back(row.mass_between(i ? axis.cut[i - 1] : RowTables::kNoAtom,
                                                    i < axis.cut.size() ? axis.cut[i] : RowTables::kNoAtom));
    axis_.push_back(std::move(axis));
}

void Outcomes::add_category_axis(const RowTables& row, int32_t q) {
    Axis axis{.feature = q, .cut = {}, .probability = {}, .category = {}};
    const auto* noise = row.laws().categories;
    const auto own = static_cast<int32_t>(row.value(q));
    for (int32_t cell = 0; cell < model_.cells.count(q); ++cell) {
        const double p = (cell == own ? noise->stay : noise->mass)[model_.cells.begin[q] + cell];
        if (cell != own && !(p > 0)) continue;
        axis.probability.push_back(p);
        axis.category.push_back(cell);
    }
    axis_.push_back(std::move(axis));
}

// ---- the leaves that a tree can come to ------------------------------------------------------------------

bool Outcomes::goes_left(const EnsembleView& e, const RowTables& row, int32_t node, int32_t axis,
                         int32_t entry) const {
    const auto& own = axis_[static_cast<size_t>(axis)];
    if (e.category_set[node] != kNumeric)
        return holds(e.cells->set(e.category_set[node]), own.category[static_cast<size_t>(entry)]);
    const auto atom = model_.atoms.of_node[node];
    if (!(row.reach(atom) > 0)) return atom >= row.first_above[own.feature];
    return static_cast<size_t>(entry) < own.cut.size() && own.cut[static_cast<size_t>(entry)] <= atom;
}

// The first node, from a node down, whose split can go either way, or else a leaf. The row decides the splits
// before it.
int32_t Outcomes::first_open(const EnsembleView& e, const RowTables& row, int32_t node) const {
    while (e.feature[node] != kLeaf && axis_of_[e.feature[node]] < 0) node = row.child(e, node);
    return node;
}

void Outcomes::start_walk(int32_t root) {
    entries_.clear();
    slice_.clear();
    for (const auto& axis : axis_) {
        const auto begin = entries_.size();
        for (size_t i = 0; i < axis.probability.size(); ++i) entries_.push_back(static_cast<int32_t>(i));
        slice_.push_back({begin, entries_.size()});
    }
    stack_.assign(1, {root, -1, {}, entries_.size(), false});
}

template <class Leaf>
void Outcomes::walk(const EnsembleView& e, const RowTables& row, int32_t root, const Leaf& leaf) {
    start_walk(root);
    while (!stack_.empty()) {
        auto step = stack_.back();
        stack_.pop_back();
        if (step.axis >= 0) {
            std::swap(slice_[static_cast<size_t>(step.axis)], step.slice);
            if (step.undo) continue;
            stack_.push_back({step.node, step.axis, step.slice, step.n_entries, true});
        }
        entries_.resize(step.n_entries);
        const auto node = first_open(e, row, step.node);
        if (e.feature[node] == kLeaf)
            leaf(node);
        else
            fork(e, row, node);
    }
}

// Puts on the stack each side of a split that can be reached, with the entries that go there.
void Outcomes::fork(const EnsembleView& e, const RowTables& row, int32_t node) {
    const auto axis = axis_of_[e.feature[node]];
    const auto before = slice_[static_cast<size_t>(axis)];
    Slice side[2];
    for (const int right : {0, 1}) {
        side[right].begin = entries_.size();
        for (auto i = before.begin; i < before.end; ++i)
            if (const auto entry = entries_[i]; goes_left(e, row, node, axis, entry) != (right == 1))
                entries_.push_back(entry);
        side[right].end = entries_.size();
    }
    for (const int right : {1, 0})
        if (!side[right].empty())
            stack_.push_back(
                {right ? e.right[node] : e.left[node], axis, side[right], entries_.size(), false});
}

// True if the leaf that x comes to in this tree can change.
bool Outcomes::moves(const EnsembleView& e, const RowTables& row, int32_t root) const {
    return e.feature[first_open(e, row, root)] != kLeaf;
}

// ---- outcomes --------------------------------------------------------------------------------------------

bool Outcomes::list(const RowTables& row, const std::atomic<bool>& stop) {
    find_axes(row);
    probability_.clear();
    change_.clear();
    std::vector<int32_t> moving;
    double n_trees = 0.0;
    for (const auto& output : model_.output)
        for (const auto root : output.root) {
            if (!moves(output, row, root)) continue;
            n_trees += 1.0;
            if (std::find(moving.begin(), moving.end(), root) == moving.end() && moving.size() < 2)
                moving.push_back(root);
        }
    if (moving.size() == 1) {  // its leaves are all there is
        list_leaves(row, moving[0]);
        return true;
    }
    double n = 1.0;
    for (const auto& axis : axis_) n *= static_cast<double>(axis.probability.size());
    if (n > kMostOutcomes || n * n_trees > kMostAdditions) return false;
    list_cells(row, stop);
    return !stop.load(std::memory_order_relaxed);
}

void Outcomes::list_leaves(const RowTables& row, int32_t root) {
    std::vector<int32_t> leaves;
    walk(model_.all_trees, row, root, [&](int32_t leaf) {
        double probability = 1.0;
        for (size_t i = 0; i < axis_.size(); ++i) {
            double own = 0.0;
            for (auto at = slice_[i].begin; at < slice_[i].end; ++at)
                own += axis_[i].probability[static_cast<size_t>(entries_[at])];
            probability *= own;
        }
        leaves.push_back(leaf);
        probability_.push_back(probability);
    });
    for (const auto& output : model_.output) {
        const bool is_own = std::find(output.root.begin(), output.root.end(), root) != output.root.end();
        const double base = output.value[row.leaf(output, root)];
        for (const auto leaf : leaves) change_.push_back(is_own ? output.value[leaf] - base : 0.0);
    }
}

void Outcomes::list_cells(const RowTables& row, const std::atomic<bool>& stop) {
    probability_.assign(1, 1.0);
    for (const auto& axis : axis_) {
        std::vector<double> with_axis;
        for (const double before : probability_)
            for (const double own : axis.probability) with_axis.push_back(before * own);
        probability_ = std::move(with_axis);
    }
    const auto n = probability_.size();
    change_.assign(n * model_.output.size(), 0.0);
    for (size_t k = 0; k < model_.output.size(); ++k) {
        const auto& output = model_.output[k];
        for (const auto root : output.root) {
            if (stop.load(std::memory_order_relaxed)) return;
            if (!moves(output, row, root)) continue;
            const double base = output.value[row.leaf(output, root)];
            walk(output, row, root, [&](int32_t leaf) {
                const double by = output.value[leaf] - base;
                if (by != 0.0) add_to_box(by, 0, 0, change_.data() + k * n);
            });
        }
    }
}

// Adds `by` to all outcomes whose entries are in the slices, from an axis on.
void Outcomes::add_to_box(double by, size_t axis, size_t at, double* change) const {
    const auto [begin, end] = slice_[axis];
    if (axis + 1 < axis_.size()) {
        for (auto i = begin; i < end; ++i)
            add_to_box(by, axis + 1, at + stride_[axis] * static_cast<size_t>(entries_[i]), change);
        return;
    }
    const auto first = static_cast<size_t>(entries_[begin]), last = static_cast<size_t>(entries_[end - 1]);
    double* here = change + at;
    if (last - first + 1 == end - begin)
        for (auto i = first; i <= last; ++i) here[i] += by;
    else
        for (auto i = begin; i < end; ++i) here[entries_[i]] += by;
}

void Outcomes::range(const RowTables& row, const std::atomic<bool>& stop, double* least_and_most) {
    find_axes(row);
    for (const auto& output : model_.output) {
        double least = 0.0, most = 0.0;
        for (const auto root : output.root) {
            if (stop.load(std::memory_order_relaxed)) return;
            if (!moves(output, row, root)) continue;
            double low = 0.0, high = 0.0;  // x may stay where it is
            const double base = output.value[row.leaf(output, root)];
            walk(output, row, root, [&](int32_t leaf) {
                low = std::min(low, output.value[leaf] - base);
                high = std::max(high, output.value[leaf] - base);
            });
            least += low;
            most += high;
        }
        *least_and_most++ = least;
        *least_and_most++ = most;
    }
}

}  // namespace predgap
