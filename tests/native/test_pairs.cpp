// What a tree gives in the boxes of eight leaves of another one.
#include "checks.hpp"
#include "pairs/leaf_group.hpp"

namespace predgap::test {
namespace {

struct Range {
    int lo, hi;  // cells from lo to hi - 1
};
using Box = std::vector<Range>;

// A random tree on numbers that all move, as the kernel sees it.
class Tree {
public:
    Tree(Random& random, int n_slots, int n_cells, int depth) : n_cells_(n_cells) {
        for (int s = 0; s < n_slots; ++s) {
            const auto own = number(random, n_cells - 1).likely;
            const auto sum = std::accumulate(own.begin(), own.end(), Real{0});
            p_.emplace_back();
            for (const auto part : own)
                p_.back().push_back((part + 0.01L * sum) / (1 + 0.01L * n_cells) / sum);
        }
        Box all(p_.size(), {0, n_cells});
        node_.emplace_back();
        grow(random, all, depth);
    }

    Real mass(std::size_t slot, Range r) const {
        Real sum = 0;
        for (int z = r.lo; z < r.hi; ++z) sum += p_[slot][static_cast<std::size_t>(z)];
        return sum;
    }
    Real mass(const Box& box) const {
        Real product = 1;
        for (std::size_t s = 0; s < box.size(); ++s) product *= mass(s, box[s]);
        return product;
    }
    Real least() const {
        Real found = 1;
        for (const auto& own : p_) found = std::min(found, *std::min_element(own.begin(), own.end()));
        return found;
    }
    // E[value; x' in the box]; or of the absolute value.
    Real inside(const Box& box, bool is_absolute) const {
        Real sum = 0;
        for (const auto& [leaf, value] : leaf_) {
            Real product = is_absolute ? std::fabs(value) : value;
            for (std::size_t s = 0; s < box.size(); ++s)
                product *= mass(s, {std::max(box[s].lo, leaf[s].lo), std::min(box[s].hi, leaf[s].hi)});
            sum += product;
        }
        return sum;
    }
    const std::vector<ReducedNode>& nodes() const { return node_; }
    int n_cells() const { return n_cells_; }

private:
    int grow(Random& random, const Box& box, int depth) {
        const auto at = static_cast<int>(node_.size());
        node_.emplace_back();
        const auto slot = static_cast<std::size_t>(random.below(static_cast<int>(box.size())));
        const auto [lo, hi] = box[slot];
        if (depth == 0 || hi - lo < 2) {
            const double value = random.between(-1.0, 1.0);
            node_.back().mean = value;
            leaf_.emplace_back(box, value);
            return at;
        }
        const int cut = lo + 1 + random.below(hi - lo - 1);
        auto left = box, right = box;
        left[slot].hi = right[slot].lo = cut;
        const auto share = mass(slot, {lo, cut}) / mass(slot, {lo, hi});
        ReducedNode own;
        own.below = static_cast<double>(mass(slot, {0, cut}));
        own.above = static_cast<double>(mass(slot, {cut, n_cells_}));
        own.slot = static_cast<int>(slot);
        own.child[0] = grow(random, left, depth - 1);
        own.child[1] = grow(random, right, depth - 1);
        own.features = std::uint64_t{1} << slot;
        for (const auto child : own.child) own.features |= node_[static_cast<std::size_t>(child)].features;
        own.mean = static_cast<double>(share * node_[static_cast<std::size_t>(own.child[0])].mean +
                                       (1 - share) * node_[static_cast<std::size_t>(own.child[1])].mean);
        node_[static_cast<std::size_t>(at)] = own;
        return at;
    }

    int n_cells_;
    std::vector<std::vector<Real>> p_;  // of each slot, of each cell
    std::vector<ReducedNode> node_;
    std::vector<std::pair<Box, double>> leaf_;
};

TEST_CASE("what a tree gives in eight boxes") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        Random random(seed + 600);
        const int n_slots = 1 + random.below(5), depth = 1 + random.below(6);
        const Tree tree(random, n_slots, 4 + random.below(5), depth);
        const auto n = static_cast<std::size_t>(n_slots);
        std::vector<Box> boxes(kLanes, Box(n));
        Buffer<double> ends(n_slots * LeafGroup::kEnds * kLanes), probability(kLanes), rest(kLanes),
            frames((depth + 1) * LeafGroup::kFrame * kLanes);
        std::uint64_t cut_below = 0, cut_above = 0;
        for (std::size_t l = 0; l < boxes.size(); ++l) {
            for (std::size_t s = 0; s < n; ++s) {
                auto& own = boxes[l][s];
                const int a = random.below(tree.n_cells()), b = random.below(tree.n_cells());
                own =
                    random.chance(0.5) ? Range{0, tree.n_cells()} : Range{std::min(a, b), std::max(a, b) + 1};
                if (own.lo > 0) cut_below |= std::uint64_t{1} << s;
                if (own.hi < tree.n_cells()) cut_above |= std::uint64_t{1} << s;
                const Real end[LeafGroup::kEnds] = {
                    tree.mass(s, {0, own.lo}), tree.mass(s, {own.lo, tree.n_cells()}),
                    tree.mass(s, {0, own.hi}), tree.mass(s, {own.hi, tree.n_cells()}), tree.mass(s, own)};
                for (std::size_t e = 0; e < LeafGroup::kEnds; ++e)
                    ends[static_cast<std::int64_t>((s * LeafGroup::kEnds + e) * kLanes + l)] =
                        static_cast<double>(end[e]);
            }
            const bool is_there = l == 0 || random.chance(0.9);
            probability[static_cast<std::int64_t>(l)] =
                is_there ? static_cast<double>(tree.mass(boxes[l])) : 0.0;
        }
        Buffer<double> own_ends, own_probability;
        const auto found = everywhere([&](const Kernels& k) {
            own_ends.assign(ends);
            own_probability.assign(probability);
            LeafGroup group{own_ends.data(), own_probability.data(),
                            frames.data(),   cut_below,
                            cut_above,       nullptr,
                            rest.data(),     0};
            k.joint_expectation(tree.nodes().data(), 1, group);
            return std::vector<double>(rest.begin(), rest.end());
        });
        // A mass is a difference of two tails: it is as much less accurate as it is smaller.
        for (std::size_t l = 0; l < boxes.size(); ++l) {
            const bool is_there = probability[static_cast<std::int64_t>(l)] > 0.0;
            check_close(found[l], is_there ? tree.inside(boxes[l], false) : 0,
                        tree.inside(boxes[l], true) / tree.least(), "what a tree gives in a box");
        }
    }
}

}  // namespace
}  // namespace predgap::test
