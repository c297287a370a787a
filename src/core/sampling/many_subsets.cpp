// Walks copies through trees eight at a time, and follows only those paths that a subset changes.
#include "sampling/many_subsets.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

Forest::Forest(const EnsembleView& view, const Atoms& a) : e(view), atoms(a), depth(predgap::depth(view)) {
    constexpr auto kNever = std::numeric_limits<int32_t>::max();
    node.reserve(e.feature.size());
    for (int32_t i = 0; i < static_cast<int32_t>(e.feature.size()); ++i) {
        const auto q = e.feature[i], set = e.category_set[i];
        missing_goes_right.push_back(q != kLeaf && !e.default_left[i]);
        if (q == kLeaf) {
            node.push_back({0, kNever, {i, i}});
        } else if (set == kNumeric) {
            node.push_back({q, atoms.of_node[i] - atoms.begin[q], {e.left[i], e.right[i]}});
        } else {
            node.push_back({q, ~set, {e.left[i], e.right[i]}});
            has_sets = true;
        }
    }
}

int32_t Forest::path_length(int32_t root, const int32_t* cells) const {
    int32_t n = 0;
    for (auto at = root; e.feature[at] != kLeaf; ++n)
        at = node[at].child[goes_right<false>(at, cells[node[at].feature])];
    return n;
}

Walker::Walker(const Forest& forest, const Units& units)
    : forest_(forest),
      units_(units),
      d_(forest.e.n_features),
      leaf_(forest.e.root.size()),
      turned_squares_(static_cast<std::size_t>(units.size())),
      place_(static_cast<std::size_t>(d_) + 1) {}

void Walker::load(const Copies& copies) {
    copies_ = &copies;
    is_plain_ = !forest_.has_sets && !copies.has_missing();
    const auto own = copies.own();
    at_.assign(forest_.e.root.begin(), forest_.e.root.end());
    walk([&](std::size_t, int32_t at, const Forest::Node& node) {
        return forest_.goes_right<false>(at, own.empty() ? 0 : own[node.feature]);
    });
    leaf_ = at_;
}

// Finds the cells of the copies before and after they move. No unit has joined yet.
void Walker::locate(int64_t first, int64_t n) {
    n_ = n;
    moves_.resize(static_cast<std::size_t>(n * d_ + 1));  // a leaf looks at one even if there are no features
    copies_->locate(first, n, moves_.data());
}

// Takes all of at_ to their leaves, some side by side, so that their loads overlap.
template <class GoesRight>
void Walker::walk(GoesRight goes_right) {
    constexpr std::size_t kWays = 8;
    for (std::size_t first = 0; first < at_.size(); first += kWays) {
        const auto last = std::min(first + kWays, at_.size());
        for (bool moved = true; moved;) {
            moved = false;
            for (auto i = first; i < last; ++i) {
                const auto& node = forest_.node[at_[i]];
                const auto next = node.child[goes_right(i, at_[i], node)];
                moved |= next != at_[i];
                at_[i] = next;
            }
        }
    }
}

// Takes all copies to their leaves; returns where their paths first part if an open unit joins.
template <bool kPlain>
std::span<const Walker::Divergence> Walker::find_turns(std::size_t tree) {
    std::size_t n_turns = 0;
    const int64_t n_units = units_.size();
    at_.assign(static_cast<std::size_t>(n_), forest_.e.root[tree]);
    walk([&](std::size_t p, int32_t at, const Forest::Node& node) {
        const auto [now, then] = moves_[p * d_ + node.feature];
        const bool right = forest_.goes_right<kPlain>(at, now);
        turn_[n_turns] = {static_cast<int32_t>(p), node.feature, node.child[!right]};  // its unit: below
        n_turns += forest_.goes_right<kPlain>(at, then) != right;
        return right;
    });
    std::size_t n_first = 0;  // of them, the first of each copy and unit
    for (std::size_t i = 0; i < n_turns; ++i) {
        const auto turn = turn_[i];
        const auto unit = units_.of(turn.unit);
        if (std::exchange(seen_[turn.copy * n_units + unit], tree) != tree)
            turn_[n_first++] = {turn.copy, unit, turn.to};
    }
    return {turn_.data(), n_first};
}

template <bool kPlain>
void Walker::walk_candidates(std::size_t tree, double* change, double* more) {
    const auto& value = forest_.e.value;
    const auto* unit = units_.of_features();
    const double own = value[leaf_[tree]];
    const auto turns = find_turns<kPlain>(tree);
    base_ = at_;
    for (int64_t p = 0; p < n_; ++p) {
        const double by = value[base_[p]] - own;
        change[p] += by;
        squares_[p] += by * by;
    }
    at_.clear();
    for (const auto& turn : turns) at_.push_back(turn.to);
    walk([&](std::size_t i, int32_t at, const Forest::Node& node) {
        const auto [now, then] = moves_[turns[i].copy * d_ + node.feature];
        return forest_.goes_right<kPlain>(at, unit[node.feature] == turns[i].unit ? then : now);
    });
    for (std::size_t i = 0; i < turns.size(); ++i) {
        const auto [copy, u, to] = turns[i];
        const double by = value[at_[i]] - own;
        more[int64_t{copy} * units_.size() + u] += value[at_[i]] - value[base_[copy]];
        turned_squares_[u] += by * by;
    }
}

void Walker::candidates(int64_t first, int64_t n, const uint8_t* taken, const uint8_t* open, double* change,
                        double* more) {
    locate(first, n);
    const int64_t n_units = units_.size();
    const auto* unit = units_.of_features();
    for (int64_t i = 0; i < n * d_; ++i) {
        auto& [now, then] = moves_[i];
        const auto u = unit[i % d_];
        if (taken[u]) now = then;
        if (!open[u]) then = now;
    }
    turn_.resize(static_cast<std::size_t>(n * forest_.depth + 1));  // one is written before it is counted
    seen_.assign(static_cast<std::size_t>(n * n_units), leaf_.size());
    squares_.assign(static_cast<std::size_t>(n), 0.0);
    std::fill(turned_squares_.begin(), turned_squares_.end(), 0.0);
    std::fill(change, change + n, 0.0);
    std::fill(more, more + n * n_units, 0.0);
    for (std::size_t t = 0; t < leaf_.size(); ++t)
        is_plain_ ? walk_candidates<true>(t, change, more) : walk_candidates<false>(t, change, more);
    taken_squares_ = std::accumulate(squares_.begin(), squares_.end(), 0.0);
}

// Adds up the changes of one tree. Each round takes every copy to its next prefix with another path.
template <bool kPlain>
void Walker::walk_prefixes(std::size_t tree, int32_t n_places, double* more) {
    const auto& value = forest_.e.value;
    prefix_.clear();
    for (int32_t p = 0; p < n_; ++p) prefix_.push_back({p, 0, n_places, leaf_[tree]});
    while (!prefix_.empty()) {
        at_.assign(prefix_.size(), forest_.e.root[tree]);
        walk([&](std::size_t i, int32_t at, const Forest::Node& node) {
            auto& prefix = prefix_[i];
            const auto place = place_[node.feature];
            const auto [now, then] = moves_[prefix.copy * d_ + node.feature];
            const bool right = forest_.goes_right<kPlain>(at, place < prefix.k ? then : now);
            const bool turns = place >= prefix.k && forest_.goes_right<kPlain>(at, then) != right;
            prefix.next = turns ? std::min(prefix.next, place) : prefix.next;
            return right;
        });
        std::size_t n_left = 0;
        for (std::size_t i = 0; i < prefix_.size(); ++i) {
            const auto [copy, k, next, leaf] = prefix_[i];
            if (k > 0) more[int64_t{copy} * n_places + k - 1] += value[at_[i]] - value[leaf];
            if (next < n_places) prefix_[n_left++] = {copy, next + 1, n_places, at_[i]};
        }
        prefix_.resize(n_left);
    }
}

void Walker::prefixes(int64_t first, int64_t n, const int32_t* order, int32_t n_places, double* more) {
    locate(first, n);
    std::fill(place_.begin(), place_.end(), n_places);  // never joins
    for (int32_t k = 0; k < n_places; ++k)
        for (const auto q : units_.members(order[k])) place_[q] = k;
    std::fill(more, more + n * n_places, 0.0);
    for (std::size_t t = 0; t < leaf_.size(); ++t)
        is_plain_ ? walk_prefixes<true>(t, n_places, more) : walk_prefixes<false>(t, n_places, more);
}

}  // namespace predgap
