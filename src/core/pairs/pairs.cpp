// Adds up the pairs of leaves of a row, and estimates how many there are.
#include "pairs/pairs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "simd/buffer.hpp"
#include "simd/kernels.hpp"
#include "terms/term_store.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;

namespace {

// The cells that each of eight boxes allows of the categorical features, with those of a walk on top.
class LaneSets final : public GroupSets {
public:
    LaneSets(const EnsembleView& e, const RowTables& row, const ReducedTrees& reached)
        : e_(e), row_(row), reached_(reached), words_(reached.sets), box_(reached.feature.size()) {}

    void clear() {
        for (auto& box : box_) box.fill(kAll);
    }
    double n_words_split() const { return static_cast<double>(n_words_split_); }
    void limit(int32_t slot, int lane, int64_t begin) { box_[slot][lane] = begin; }

    void split(const ReducedNode& node, const double* probability, double* left, double* right) override {
        const auto q = reached_.feature[node.slot];
        const auto n_words = e_.cells->n_words(q);
        const auto* set = e_.cells->set(node.set);
        n_words_split_ += n_words;
        parted_.push_back({node.slot, n_words, words_.size(), box_[node.slot]});
        words_.resize(words_.size() + 2 * kLanes * n_words);
        for (int lane = 0; lane < kLanes; ++lane) {
            left[lane] = right[lane] = 0.0;
            if (!(probability[lane] > 0)) continue;
            const auto here = box_[node.slot][lane];
            auto *in = words_.data() + part(lane, 0), *out = words_.data() + part(lane, 1);
            for (std::size_t w = 0; w < n_words; ++w) {
                const auto word =
                    here == kAll ? e_.cells->full_word(q, w) : words_[static_cast<std::size_t>(here) + w];
                in[w] = word & set[w];
                out[w] = word & ~set[w];
            }
            left[lane] = row_.mass(q, in);
            right[lane] = row_.mass(q, out);
        }
    }
    void enter(int side) override {
        for (int lane = 0; lane < kLanes; ++lane)
            box_[parted_.back().slot][lane] = static_cast<int64_t>(part(lane, side));
    }
    void leave() override {
        const auto& last = parted_.back();
        box_[last.slot] = last.before;
        words_.resize(last.begin);
        parted_.pop_back();
    }

private:
    static constexpr int64_t kAll = -1;
    using Box = std::array<int64_t, kLanes>;  // where the cells of each lane begin
    struct Parted {
        int32_t slot;
        std::size_t n_words, begin;
        Box before;
    };
    std::size_t part(int lane, int side) const {
        const auto& last = parted_.back();
        return last.begin + static_cast<std::size_t>(2 * lane + side) * last.n_words;
    }

    const EnsembleView& e_;
    const RowTables& row_;
    const ReducedTrees& reached_;
    Bits words_;
    std::size_t n_words_split_ = 0;
    std::vector<Box> box_;  // (n_slots)
    std::vector<Parted> parted_;
};

// The sum over pairs of leaves, eight leaves of a tree at a time.
class PairSum {
public:
    PairSum(const EnsembleView& e, const RowTables& row, const ReducedTrees& reached)
        : row_(row),
          r_(reached),
          cells_(*e.cells),
          sets_(e, row, reached),
          mean_(reached.root.size(), 0.0),
          memory_((n_slots() * LeafGroup::kEnds + kOthers + r_.deepest * LeafGroup::kFrame) * kLanes) {
        double* at = memory_.data();
        for (auto** array : {&m_.probability, &m_.rest}) {
            *array = at;
            at += kLanes;
        }
        m_.ends = at;
        m_.frames = at + n_slots() * LeafGroup::kEnds * kLanes;
        m_.sets = &sets_;
    }

    // Makes run() add up the covariances of the trees instead of the gap. The nodes of the trees must be
    // centred by these means.
    void subtract(std::vector<double> mean) { mean_ = std::move(mean); }

    int64_t n_groups() const {
        int64_t n = 0;
        for (std::size_t tree = 0; tree < r_.root.size(); ++tree)
            n += (r_.leaf_begin[tree + 1] - r_.leaf_begin[tree] + kLanes - 1) / kLanes;
        return n;
    }

    // Adds up all pairs of leaves, or those of one group of leaves of every `step`; ends early if stopped.
    void run(RowWork& work, int64_t step = 1) {
        const auto n_trees = r_.root.size();
        int64_t group = 0;
        work.hold(RowWork::Arrays::trees,
                  r_.bytes() + memory_.used_bytes() + static_cast<double>(mean_.size() * sizeof(mean_[0])));
        for (std::size_t tree = 0; tree < n_trees; ++tree)
            for (auto first = r_.leaf_begin[tree]; first < r_.leaf_begin[tree + 1]; first += kLanes) {
                if (group++ % step != step / 2) continue;
                const auto n = static_cast<int>(std::min<int64_t>(kLanes, r_.leaf_begin[tree + 1] - first));
                load(r_.leaf.data() + first, n);
                std::array<double, kLanes> rest{};
                for (auto other = tree + 1; other < n_trees; ++other) {
                    if (work.stopped()) return;
                    kernels().joint_expectation(r_.node.data(), r_.root[other], m_);
                    work.add(nominal::kMetSplit * static_cast<double>(m_.n_met));
                    for (int lane = 0; lane < kLanes; ++lane) rest[lane] += m_.rest[lane];
                }
                work.add(nominal::kWordOfSet * kLanes * (sets_.n_words_split() - n_words_));
                n_words_ = sets_.n_words_split();
                for (int lane = 0; lane < n; ++lane) {
                    const auto& u = r_.leaf[first + lane];
                    sum_ += u.residual * ((u.residual - mean_[tree]) * u.probability + 2.0 * rest[lane]);
                }
            }
    }

    double sum() const { return std::max(sum_, 0.0); }

private:
    static constexpr int64_t kOthers = 2;
    int64_t n_slots() const { return static_cast<int64_t>(r_.feature.size()); }

    void load(const ReducedTrees::Leaf* leaf, int n) {
        constexpr std::array<double, LeafGroup::kEnds> kNoLimit{0.0, 1.0, 1.0, 0.0, 1.0};
        for (int64_t i = 0; i < n_slots() * LeafGroup::kEnds; ++i)
            std::fill_n(m_.ends + i * kLanes, kLanes, kNoLimit[i % LeafGroup::kEnds]);
        sets_.clear();
        m_.cut_below = m_.cut_above = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            m_.probability[lane] = lane < n ? leaf[lane].probability : 0.0;
            if (lane < n)
                for (auto i = leaf[lane].interval_begin; i < leaf[lane].interval_end; ++i)
                    limit(lane, r_.interval[i]);
        }
    }

    void limit(int lane, const ReducedTrees::Interval& box) {
        const auto slot = r_.slot[box.feature];
        const auto bit = std::uint64_t{1} << std::min(slot, 63);
        double* end = m_.ends + slot * LeafGroup::kEnds * kLanes + lane;
        end[4 * kLanes] = box.mass;
        if (cells_.categorical(box.feature)) {
            sets_.limit(slot, lane, box.lo);
            m_.cut_below |= bit;
            return;
        }
        if (box.lo >= 0) {
            end[0] = row_.F(box.lo);
            end[kLanes] = row_.S(box.lo);
            m_.cut_below |= bit;
        }
        if (box.hi >= 0) {
            end[2 * kLanes] = row_.F(box.hi);
            end[3 * kLanes] = row_.S(box.hi);
            m_.cut_above |= bit;
        }
    }

    const RowTables& row_;
    const ReducedTrees& r_;
    const Cells& cells_;
    LaneSets sets_;
    std::vector<double> mean_;  // (n_trees)
    Buffer<double> memory_;
    LeafGroup m_{};
    double sum_ = 0.0, n_words_ = 0.0;
};

}  // namespace

double Pairs::mean_change(Scratch& s, const RowTables& row) const {
    auto& trees = s.trees;
    trees.find(e_, atoms_, row, *s.work);
    return std::accumulate(trees.root.begin(), trees.root.end(), 0.0,
                           [&](double sum, int32_t root) { return sum + trees.node[root].mean; });
}

double Pairs::counted_nanoseconds(Scratch& s, const RowTables& row) const {
    constexpr int64_t kEnough = 100;  // groups of leaves
    const double before = s.work->nanoseconds();
    s.trees.find(e_, atoms_, row, *s.work);
    const double found = s.work->nanoseconds();
    PairSum sum(e_, row, s.trees);
    const auto n_groups = sum.n_groups(), step = std::max<int64_t>(n_groups / kEnough, 1);
    sum.run(*s.work, step);
    const auto n_run = static_cast<double>((n_groups + step - 1 - step / 2) / step);
    return found - before +
           (s.work->nanoseconds() - found) * static_cast<double>(n_groups) / std::max(n_run, 1.0);
}

Pairs::Result Pairs::gap(Scratch& s, const RowTables& row) const {
    s.trees.find(e_, atoms_, row, *s.work);
    PairSum sum(e_, row, s.trees);
    sum.run(*s.work);
    return {sum.sum(), s.trees.error_scale * static_cast<double>(e_.root.size())};
}

// Cov(g_t, g_s) = E[g_t (g_s - E g_s)]: only the leaves that change anything count, and no two large numbers
// are subtracted.
Pairs::Spread Pairs::spread(Scratch& s, const RowTables& row) const {
    s.trees.find(e_, atoms_, row, *s.work);
    auto mean = s.trees.centre();
    const double change = std::accumulate(mean.begin(), mean.end(), 0.0);
    PairSum sum(e_, row, s.trees);
    sum.subtract(std::move(mean));
    sum.run(*s.work);
    return {change, sum.sum()};
}

Pairs::Reach Pairs::reachable(int32_t root, const std::uint8_t* perturbed, const RowTables& row) const {
    // Without recursion: a path may be as long as the tree has nodes.
    std::vector<std::pair<int32_t, double>> stack{{root, 0.0}};
    Reach reach{0.0, 0.0, 0.0};
    while (!stack.empty()) {
        auto [node, depth] = stack.back();
        stack.pop_back();
        while (e_.feature[node] != kLeaf) {
            const auto q = e_.feature[node];
            reach.walked += 1.0;
            if (perturbed[q] && row.is_open[q]) {
                stack.emplace_back(e_.right[node], ++depth);
                node = e_.left[node];
            } else {
                node = row.child(e_, node);
            }
        }
        reach.leaves += 1.0;
        reach.depth = std::max(reach.depth, depth);
    }
    return reach;
}

double Pairs::bytes_per_interval() const {
    std::size_t most_words = 0;
    for (int32_t q = 0; q < e_.n_features; ++q) most_words = std::max(most_words, e_.cells->n_words(q));
    return static_cast<double>(sizeof(ReducedTrees::Interval) + most_words * sizeof(std::uint64_t));
}

namespace {

// The number of splits that eight neighbouring boxes meet in a tree of so many leaves. Boxes and leaves have
// the same sides, 1 / n_leaves ^ (1 / n_features) if all are alike: so the boxes reach over 8 ^ (1 /
// n_features) + 1 leaves along each feature, which is a number that does not grow with the trees.
double splits_met(double n_leaves, double n_features) {
    constexpr double kUneven = 4.0;  // fitted: they are not alike, and there are splits above leaves
    constexpr double kPower = 0.86;  // fitted: while trees are small, a box meets this power of their leaves
    const double most = kUneven * std::pow(std::pow(kLanes, 1.0 / n_features) + 1.0, n_features);
    const double of_small = std::min(n_leaves - 1.0, 1.0) * std::pow(n_leaves, kPower);
    return of_small / std::sqrt(1.0 + of_small * of_small / (most * most));
}

}  // namespace

Pairs::Work Pairs::work(double n_leaves, double n_trees, double n_features) {
    const double met = splits_met(std::max(n_leaves / n_trees, 1.0), std::max(n_features, 1.0));
    return {n_leaves, 0.5 * n_leaves * (n_trees - 1.0) * met / kLanes, 0.0};
}

Pairs::Work Pairs::work(const std::uint8_t* perturbed, const RowTables& row) const {
    double n_perturbed = 0.0;
    for (const auto q : row.model().features) n_perturbed += perturbed[q];
    n_perturbed = std::max(n_perturbed, 1.0);
    double leaves = 0.0, met = 0.0, own = 0.0, intervals = 0.0, walked = 0.0;
    // Counts on some trees where there are many: one of every `step`, at a scrambled place among them.
    constexpr std::size_t kEnough = 64;
    const auto n_trees = e_.root.size(), step = std::max<std::size_t>(n_trees / kEnough, 1);
    for (std::size_t first = 0; first < n_trees; first += step) {
        const auto tree = first + scrambled(first) % std::min(step, n_trees - first);
        const auto reach = reachable(e_.root[tree], perturbed, row);
        const double splits = splits_met(reach.leaves, n_perturbed);
        leaves += reach.leaves;
        walked += reach.walked;
        met += splits;
        own += reach.leaves * splits;
        intervals += reach.leaves * std::min(reach.depth, n_perturbed);
    }
    const auto n_counted = static_cast<double>((n_trees + step - 1) / step);
    for (double* sum : {&leaves, &met, &own, &intervals})
        *sum *= static_cast<double>(n_trees) / std::max(n_counted, 1.0);
    // A split on a set of cells costs time by the number of its words.
    double most_words = 0.0;
    for (int32_t q = 0; q < e_.n_features; ++q)
        if (perturbed[q]) most_words = std::max(most_words, static_cast<double>(e_.cells->n_words(q)));
    // Beside its leaves a tree has its root, where its leaves begin, and its mean; and a feature has its
    // place, its bounds, their mass and their number, and the ends of eight boxes.
    constexpr double kOfTree = sizeof(int32_t) + sizeof(int64_t) + sizeof(double);
    constexpr double kOfFeature =
        4 * sizeof(int32_t) + 2 * sizeof(int64_t) + (1 + LeafGroup::kEnds * kLanes) * sizeof(double);
    return {leaves, 0.5 * (leaves * met - own) / kLanes * (1.0 + 2.0 * most_words),
            intervals * bytes_per_interval() +
                leaves * (2 * sizeof(ReducedNode) + sizeof(ReducedTrees::Leaf)) +
                static_cast<double>(n_trees) * kOfTree + e_.n_features * kOfFeature,
            walked};
}

}  // namespace predgap
