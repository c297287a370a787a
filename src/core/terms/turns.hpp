// The parts that walks of a row's trees share: the bounds of a path's features, and what a turn changes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "noise/row_tables.hpp"

namespace predgap {

// The bounds that the splits above a node set to one feature, and how likely x' gets there.
struct PathBounds {
    static constexpr std::int32_t kNone = -1;

    double chance = 1.0;                  // P(x' within the bounds) if x is not, else 1
    double size = 1.0;                    // the same times the amplitude of the bound next to x
    std::int32_t lo = kNone, hi = kNone;  // atoms
    std::int32_t near = kNone;            // the one next to x, if x is not inside
    bool inside = true;                   // true if x is within the bounds
};

// True if x is within these bounds of its feature.
inline bool is_inside(const RowTables& t, std::int32_t lo, std::int32_t hi) {
    constexpr auto kNone = PathBounds::kNone;
    return (lo == kNone || !t.event[lo]) && (hi == kNone || t.event[hi]);
}

// The bounds lo and hi of a feature with their chance: a difference of tails on the side of x where the
// bounds are; of categories, that of the set. amplitude: (n_atoms), or null where all are 1.
inline PathBounds narrowed(const RowTables& t, std::int32_t q, std::int32_t lo, std::int32_t hi,
                           const double* amplitude) {
    constexpr auto kNone = PathBounds::kNone;
    PathBounds b{1.0, 1.0, lo, hi, kNone, is_inside(t, lo, hi)};
    if (b.inside) return b;
    b.near = hi;
    if (t.model().cells.categorical(q)) {
        b.near = hi == kNone ? lo : hi;
        b.chance = t.reach(b.near);
    } else if (hi != kNone && !t.event[hi]) {  // below x
        b.chance = t.F(hi) - (lo == kNone ? 0.0 : t.F(lo));
    } else {
        b.near = lo;
        b.chance = t.S(lo) - (hi == kNone ? 0.0 : t.S(hi));
    }
    b.chance = std::clamp(b.chance, 0.0, 1.0);
    b.size = b.chance * (amplitude ? amplitude[b.near] : 1.0);
    return b;
}

// The bounds of the split's feature at one of its children.
inline PathBounds at_child(const RowTables& t, const TreeGroup& group, const Node& split, const PathBounds& b,
                           bool left, const double* amplitude) {
    if (split.atom >= 0)
        return left ? narrowed(t, split.feature, b.lo, split.atom, amplitude)
                    : narrowed(t, split.feature, split.atom, b.hi, amplitude);
    const auto& of = group.split[static_cast<std::size_t>(~split.atom)];
    const auto& ends = left ? of.left : of.right;
    return narrowed(t, split.feature, ends.lo, ends.hi, amplitude);
}

// True if the noise can change where x goes from this split on an open feature.
inline bool can_cross(const RowTables& t, const Node& split) {
    return split.way == Node::Way::both && (split.atom < 0 || t.shift[split.atom] != 0.0);
}

// True if the way from which others turn off goes to the left. That is the way of x; but where x' has other
// categories than x already, the way of x may be one that x' hardly ever takes: there it is the likelier one.
// Else large values that are hardly ever reached would be added, and subtracted again.
inline bool keeps_left(const RowTables& t, const TreeGroup& group, const Node& split) {
    if (split.atom >= 0 || split.way != Node::Way::both || !t.is_open[split.feature])
        return t.goes_left(group, split);
    const auto& of = group.split[static_cast<std::size_t>(~split.atom)];
    const auto chance = [&](const SetAtoms::Ends& ends) {
        return t.reach(ends.hi == PathBounds::kNone ? ends.lo : ends.hi);
    };
    if (is_inside(t, of.left.lo, of.left.hi)) return true;
    return !is_inside(t, of.right.lo, of.right.hi) && chance(of.left) >= chance(of.right);
}

// Tells where the values are of the leaf that this way reaches from a node. Each is found when it is asked
// for first.
class Leaves {
public:
    explicit Leaves(const TreeGroup& group) : group_(group) {}

    void clear(const RowTables& tables) {
        tables_ = &tables;
        values_.reset(static_cast<std::int64_t>(group_.node.size()), kUnknown);
    }
    double bytes() const { return values_.used_bytes(); }
    void prefetch(std::size_t first, std::size_t n) const { prefetch_items(values_.data() + first, n); }
    std::int32_t operator()(std::int32_t from) {
        auto& found = values_[from];
        if (found != kUnknown) return found;
        auto at = from;
        while (node(at).feature != kLeaf)
            at = keeps_left(*tables_, group_, node(at)) ? at + 1 : node(at).right;
        return found = node(at).right;
    }

private:
    static constexpr std::int32_t kUnknown = -1;
    const Node& node(std::int32_t at) const { return group_.node[static_cast<std::size_t>(at)]; }

    const TreeGroup& group_;
    const RowTables* tables_ = nullptr;
    Buffer<std::int32_t> values_;  // (n_nodes)
};

// The values at one leaf less those at another, (width); returns their size.
inline double change_of(const TreeGroup& group, std::int32_t from, std::int32_t to, double* change) {
    double square = 0.0;
    for (std::int32_t k = 0; k < group.width; ++k) {
        change[k] =
            group.value[static_cast<std::size_t>(to + k)] - group.value[static_cast<std::size_t>(from + k)];
        square += change[k] * change[k];
    }
    return group.width == 1 ? std::abs(change[0]) : std::sqrt(square);
}

}  // namespace predgap
