// Walks the trees of a row and copies what it can reach.
#include "pairs/reduced_trees.hpp"

#include <algorithm>
#include <cmath>

namespace predgap {

using std::int32_t;
using std::int64_t;

namespace {

template <class... Vectors>
double bytes_of(const Vectors&... vectors) {
    return (0.0 + ... + static_cast<double>(vectors.size() * sizeof(vectors[0])));
}

}  // namespace

// Walks down one tree after the other: x decides at unperturbed splits, every branch with positive mass is
// taken at perturbed ones.
class ReducedTrees::Walk {
public:
    Walk(ReducedTrees& r, const EnsembleView& e, const Atoms& atoms, const RowTables& row)
        : r_(r), e_(e), atoms_(atoms), row_(row) {
        start();
    }

    // Walks all trees. If it is stopped, the trees that are left get no leaves.
    void run(RowWork& work) {
        for (const auto root : e_.root) {
            const auto first = r_.node.size();
            r_.root.push_back(static_cast<int32_t>(first));
            work.stopped() ? r_.node.push_back({}) : descend(root, value_at(root));
            sum_up(first);
            r_.leaf_begin.push_back(static_cast<int64_t>(r_.leaf.size()));
            work.add(nominal::kReducedNode * static_cast<double>(r_.node.size() - first));
            work.hold(RowWork::Arrays::trees, r_.bytes());
        }
    }

private:
    static constexpr int32_t kFork = -2;

    void start() {
        const auto d = static_cast<std::size_t>(e_.n_features);
        r_.lo_.assign(d, -1);
        r_.hi_.assign(d, -1);
        r_.mass_.assign(d, 1.0);
        r_.n_limits_.assign(d, 0);
        r_.slot.assign(d, -1);
        r_.node.assign(1, ReducedNode{});
        r_.leaf_begin.assign(1, 0);
        for (auto* list : {&r_.used_, &r_.feature, &r_.root}) list->clear();
        r_.leaf.clear();
        r_.interval.clear();
        r_.sets.clear();
        r_.walked_.clear();
        r_.deepest = 0;
        r_.error_scale = 0.0;
        for (const auto q : row_.model().features) {
            if (!row_.is_open[q]) continue;
            r_.slot[q] = static_cast<int32_t>(r_.feature.size());
            r_.feature.push_back(q);
        }
    }

    double value_at(int32_t root) const { return e_.value[row_.leaf(e_, root)]; }

    void descend(int32_t root, double base) {
        base_ = base;
        r_.stack_.assign(1, {root, kLeaf, -1, -1, 1.0, 1.0, 1.0, 0, 0, 0, 0, false});
        while (!r_.stack_.empty()) {
            const auto step = r_.stack_.back();
            r_.stack_.pop_back();
            if (step.feature != kLeaf) narrow(step);
            if (step.undo) continue;
            r_.walked_.resize(step.sets_end);
            auto node = step.node, last = node;
            while (node != kFork && e_.feature[node] != kLeaf) {
                last = node;
                node = row_.is_open[e_.feature[node]] ? branch(step, node) : row_.child(e_, node);
            }
            r_.node[step.parent].child[step.side] = static_cast<int32_t>(r_.node.size());
            if (node == kFork)
                add_split(step, last);
            else
                add_leaf(step, node);
        }
        r_.node[0] = {};
    }

    // Changes the interval of a feature to that of a step, or back.
    void narrow(const Step& step) {
        const auto q = step.feature;
        if (!step.undo) {
            auto back = step;
            back.lo = r_.lo_[q];
            back.hi = r_.hi_[q];
            back.mass = r_.mass_[q];
            back.undo = true;
            r_.stack_.push_back(back);
            if (r_.n_limits_[q]++ == 0) r_.used_.push_back(q);
        } else if (--r_.n_limits_[q] == 0) {
            r_.used_.pop_back();
        }
        r_.lo_[q] = step.lo;
        r_.hi_[q] = step.hi;
        r_.mass_[q] = step.mass;
    }

    // Takes a perturbed split: returns the only child that can be reached, or kFork with both sides on the
    // stack.
    int32_t branch(const Step& from, int32_t node) {
        if (e_.category_set[node] != kNumeric) return branch_on_set(from, node);
        const auto q = e_.feature[node], atom = atoms_.of_node[node];
        const auto lo = r_.lo_[q], hi = r_.hi_[q];
        if (atom <= lo) return e_.right[node];
        if (hi >= 0 && atom >= hi) return e_.left[node];
        push(from, node, 1, atom, hi, row_.mass_between(atom, hi));
        push(from, node, 0, lo, atom, row_.mass_between(lo, atom));
        return kFork;
    }

    int32_t branch_on_set(const Step& from, int32_t node) {
        const auto q = e_.feature[node];
        auto& walked = r_.walked_;
        const auto n_words = e_.cells->n_words(q);
        const auto* set = e_.cells->set(e_.category_set[node]);
        const auto left = walked.size(), right = left + n_words;
        walked.resize(right + n_words);
        std::uint64_t any_left = 0, any_right = 0;
        for (std::size_t w = 0; w < n_words; ++w) {
            const auto here =
                r_.lo_[q] < 0 ? e_.cells->full_word(q, w) : walked[static_cast<std::size_t>(r_.lo_[q]) + w];
            any_left |= walked[left + w] = here & set[w];
            any_right |= walked[right + w] = here & ~set[w];
        }
        if (!any_left || !any_right) {
            walked.resize(left);
            return any_left ? e_.left[node] : e_.right[node];
        }
        push(from, node, 1, static_cast<int64_t>(right), -1, row_.mass(q, walked.data() + right));
        push(from, node, 0, static_cast<int64_t>(left), -1, row_.mass(q, walked.data() + left));
        return kFork;
    }

    // Puts a side of the split that is about to be added on the stack, if it has any mass.
    void push(const Step& from, int32_t node, int32_t side, int64_t lo, int64_t hi, double mass) {
        if (!(mass > 0)) return;
        const auto q = e_.feature[node], child = side ? e_.right[node] : e_.left[node];
        const double share = mass / r_.mass_[q], probability = from.probability * share;
        const auto parent = static_cast<int32_t>(r_.node.size());
        r_.stack_.push_back({child, q, lo, hi, mass, share, probability, parent, side, from.depth + 1,
                             r_.walked_.size(), false});
    }

    void add_split(const Step& step, int32_t node) {
        const auto set = e_.category_set[node], atom = atoms_.of_node[node];
        ReducedNode met{.share = step.share, .slot = r_.slot[e_.feature[node]], .set = set};
        if (set == kNumeric) {
            met.below = row_.F(atom);
            met.above = row_.S(atom);
        }
        r_.deepest = std::max(r_.deepest, step.depth + 1);
        r_.node.push_back(met);
    }

    void add_leaf(const Step& step, int32_t node) {
        const double residual = e_.value[node] - base_;
        r_.node.push_back({.share = step.share, .mean = residual});
        if (residual == 0.0) return;
        double from_x = 1.0;  // tails from x to the box
        for (const auto q : r_.used_) from_x *= reach(q);
        r_.error_scale += residual * residual * from_x;
        const auto begin = static_cast<int64_t>(r_.interval.size());
        for (const auto q : r_.used_) r_.interval.push_back({q, kept(q), r_.hi_[q], r_.mass_[q]});
        r_.leaf.push_back({residual, step.probability, begin, static_cast<int64_t>(r_.interval.size())});
    }

    // The probability that x' gets as far as the current interval.
    double reach(int32_t q) const {
        const auto lo = r_.lo_[q], hi = r_.hi_[q];
        if (e_.cells->categorical(q)) {
            const bool stays = lo < 0 || holds(r_.walked_.data() + lo, static_cast<int32_t>(row_.value(q)));
            return stays ? 1.0 : r_.mass_[q];
        }
        double reach = 1.0;
        if (lo >= row_.first_above[q]) reach *= row_.S(lo);
        if (hi >= 0 && hi < row_.first_above[q]) reach *= row_.F(hi);
        return reach;
    }

    // The current lower end of a feature; its cells, if it is categorical, are put where they stay.
    int64_t kept(int32_t q) const {
        const auto lo = r_.lo_[q];
        if (lo < 0 || !e_.cells->categorical(q)) return lo;
        const auto begin = static_cast<int64_t>(r_.sets.size());
        const auto* cells = r_.walked_.data() + lo;
        r_.sets.insert(r_.sets.end(), cells, cells + e_.cells->n_words(q));
        return begin;
    }

    // Goes from the leaves of one tree to its root, and adds up the means and the features below each node.
    void sum_up(std::size_t first) {
        for (auto i = r_.node.size(); i-- > first;) {
            auto& met = r_.node[i];
            if (!met.child[0] && !met.child[1]) continue;
            met.features = std::uint64_t{1} << std::min(met.slot, 63);
            for (const auto c : met.child) {
                const auto& child = r_.node[c];
                met.mean += child.share * child.mean;
                met.features |= child.features;
            }
        }
    }

    ReducedTrees& r_;
    const EnsembleView& e_;
    const Atoms& atoms_;
    const RowTables& row_;
    double base_ = 0.0;
};

void ReducedTrees::find(const EnsembleView& e, const Atoms& atoms, const RowTables& row, RowWork& work) {
    Walk(*this, e, atoms, row).run(work);
}

double ReducedTrees::bytes() const {
    return bytes_of(node, root, leaf_begin, leaf, interval, slot, feature, sets, stack_, lo_, hi_, mass_,
                    n_limits_, used_, walked_);
}

std::vector<double> ReducedTrees::centre() {
    std::vector<double> mean;
    auto end = static_cast<int32_t>(node.size());
    for (auto tree = root.size(); tree-- > 0; end = root[tree]) {
        const double own = node[root[tree]].mean;
        for (auto i = root[tree]; i < end; ++i) node[i].mean -= own;
        mean.push_back(own);
    }
    std::reverse(mean.begin(), mean.end());
    return mean;
}

}  // namespace predgap
