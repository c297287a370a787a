#include "sampling/many_subsets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

SharedPoints::SharedPoints(const double* p, int32_t columns, const int32_t* column_of,
                           std::span<const int64_t> ends, int replicates)
    : points(p),
      n_columns(columns),
      column(column_of),
      look_end(ends),
      n_replicates(replicates),
      lowest(static_cast<std::size_t>(columns), 1.0),
      highest(static_cast<std::size_t>(columns), 0.0) {
    const int64_t n_points = ends.empty() ? 0 : ends.back();
    for (int64_t i = 0; i < n_points * columns; ++i) {
        lowest[i % columns] = std::min(lowest[i % columns], p[i]);
        highest[i % columns] = std::max(highest[i % columns], p[i]);
    }
}

Forest::Forest(const EnsembleView& view, const Atoms& a) : e(view), atoms(a), depth(predgap::depth(view)) {
    constexpr auto kNever = std::numeric_limits<int32_t>::max();
    node.reserve(e.feature.size());
    for (int32_t i = 0; i < static_cast<int32_t>(e.feature.size()); ++i) {
        const auto q = e.feature[i], set = e.category_set[i];
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

Walker::Walker(const Forest& forest, const SharedPoints& points)
    : forest_(forest),
      points_(points),
      d_(forest.e.n_features),
      axis_(static_cast<std::size_t>(d_)),
      own_(axis_.size()),
      leaf_(forest.e.root.size()),
      can_cross_(axis_.size()),
      crosses_(axis_.size()),
      place_(axis_.size() + 1) {}

int32_t Walker::own_cell(const RowTables& row, int32_t q) const {
    const double x = row.value(q);
    if (std::isnan(x)) return Forest::kMissing;
    if (forest_.e.cells->categorical(q)) return static_cast<int32_t>(x);
    const auto begin = forest_.atoms.threshold.begin();
    const auto first = begin + forest_.atoms.begin[q], last = begin + forest_.atoms.begin[q + 1];
    return static_cast<int32_t>(std::upper_bound(first, last, x) - first);
}

// Has any other cell mass? Asked of the tail on the cell's own far side: 1 - F has lost what S still knows.
bool Walker::leaves_cell(const RowTables& row, int32_t q) const {
    const auto& cells = *forest_.e.cells;
    if (cells.categorical(q)) {
        const double* arriving = row.laws().categories->mass.data() + cells.begin[q];
        for (int32_t cell = 0; cell < cells.count(q); ++cell)
            if (cell != own_[q] && arriving[cell] > 0) return true;
        return false;
    }
    const auto& begin = forest_.atoms.begin;
    const auto above = begin[q] + own_[q];  // the threshold at the cell's upper end, if it has one
    return (above > begin[q] && row.F(above - 1) > 0) || (above < begin[q + 1] && row.S(above) > 0);
}

void Walker::load(const RowTables& row) {
    const auto& e = forest_.e;
    is_plain_ = !forest_.has_sets;
    for (int32_t q = 0; q < d_; ++q) {
        own_[q] = own_cell(row, q);
        is_plain_ = is_plain_ && own_[q] != Forest::kMissing;
        can_cross_[q] = crosses_[q] = 0;
        const auto c = points_.column[q];
        if (!row.is_open[q] || c < 0) continue;
        axis_[q].fill(row, e, forest_.atoms, q);
        can_cross_[q] = leaves_cell(row, q);
        crosses_[q] =
            axis_[q].cell(points_.lowest[c]) != own_[q] || axis_[q].cell(points_.highest[c]) != own_[q];
    }
    for (std::size_t t = 0; t < leaf_.size(); ++t) leaf_[t] = row.leaf(e, e.root[t]);
}

// No feature has joined yet.
void Walker::locate(int64_t first, int64_t n) {
    n_ = n;
    cells_.resize(static_cast<std::size_t>(n * d_ + 1));  // a leaf looks at one even if there are no features
    for (int64_t p = 0; p < n; ++p) {
        const double* point = points_.points + (first + p) * points_.n_columns;
        for (int64_t q = 0; q < d_; ++q)
            cells_[p * d_ + q] = {own_[q], crosses_[q] ? axis_[q].cell(point[points_.column[q]]) : own_[q]};
    }
}

template <bool kPlain>
bool Walker::goes_right(int32_t at, int32_t cell) const {
    const auto test = forest_.node[at].test;
    if (!kPlain && cell == Forest::kMissing) return !forest_.e.default_left[at];
    if (!kPlain && test < 0) return !holds(forest_.e.cells->set(~test), cell);
    return cell > test;
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

// Takes all points to their leaves; returns where their paths first part if an open feature joins.
template <bool kPlain>
std::span<const Walker::Divergence> Walker::find_turns(std::size_t tree) {
    std::size_t n_turns = 0;
    at_.assign(static_cast<std::size_t>(n_), forest_.e.root[tree]);
    walk([&](std::size_t p, int32_t at, const Forest::Node& node) {
        const auto [now, then] = cells_[p * d_ + node.feature];
        const bool right = goes_right<kPlain>(at, now);
        turn_[n_turns] = {static_cast<int32_t>(p), node.feature, node.child[!right]};
        n_turns += goes_right<kPlain>(at, then) != right;
        return right;
    });
    const auto again = [&](const Divergence& turn) {
        return std::exchange(seen_[turn.point * d_ + turn.feature], tree) == tree;
    };
    return {turn_.begin(), std::remove_if(turn_.begin(), turn_.begin() + n_turns, again)};
}

template <bool kPlain>
void Walker::walk_candidates(std::size_t tree, double* change, double* more) {
    const auto& value = forest_.e.value;
    const auto turns = find_turns<kPlain>(tree);
    base_ = at_;
    for (int64_t p = 0; p < n_; ++p) change[p] += value[base_[p]] - value[leaf_[tree]];
    at_.clear();
    for (const auto& turn : turns) at_.push_back(turn.to);
    walk([&](std::size_t i, int32_t at, const Forest::Node& node) {
        const auto [now, then] = cells_[turns[i].point * d_ + node.feature];
        return goes_right<kPlain>(at, node.feature == turns[i].feature ? then : now);
    });
    for (std::size_t i = 0; i < turns.size(); ++i)
        more[turns[i].point * d_ + turns[i].feature] += value[at_[i]] - value[base_[turns[i].point]];
}

void Walker::candidates(int64_t first, int64_t n, const uint8_t* taken, const uint8_t* open, double* change,
                        double* more) {
    locate(first, n);
    for (int64_t i = 0; i < n * d_; ++i) {
        auto& [now, then] = cells_[i];
        if (taken[i % d_]) now = then;
        if (!open[i % d_]) then = now;
    }
    turn_.resize(static_cast<std::size_t>(n * forest_.depth + 1));  // one is written before it is counted
    seen_.assign(static_cast<std::size_t>(n * d_), leaf_.size());
    std::fill(change, change + n, 0.0);
    std::fill(more, more + n * d_, 0.0);
    for (std::size_t t = 0; t < leaf_.size(); ++t)
        is_plain_ ? walk_candidates<true>(t, change, more) : walk_candidates<false>(t, change, more);
}

// Each round takes every point to its next prefix with another path.
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
            const auto [now, then] = cells_[prefix.point * d_ + node.feature];
            const bool right = goes_right<kPlain>(at, place < prefix.k ? then : now);
            const bool turns = place >= prefix.k && goes_right<kPlain>(at, then) != right;
            prefix.next = turns ? std::min(prefix.next, place) : prefix.next;
            return right;
        });
        std::size_t n_left = 0;
        for (std::size_t i = 0; i < prefix_.size(); ++i) {
            const auto [point, k, next, leaf] = prefix_[i];
            if (k > 0) more[int64_t{point} * n_places + k - 1] += value[at_[i]] - value[leaf];
            if (next < n_places) prefix_[n_left++] = {point, next + 1, n_places, at_[i]};
        }
        prefix_.resize(n_left);
    }
}

void Walker::prefixes(int64_t first, int64_t n, const int32_t* order, int32_t n_places, double* more) {
    locate(first, n);
    std::fill(place_.begin(), place_.end(), n_places);  // never joins
    for (int32_t k = 0; k < n_places; ++k) place_[order[k]] = k;
    std::fill(more, more + n * n_places, 0.0);
    for (std::size_t t = 0; t < leaf_.size(); ++t)
        is_plain_ ? walk_prefixes<true>(t, n_places, more) : walk_prefixes<false>(t, n_places, more);
}

}  // namespace predgap
