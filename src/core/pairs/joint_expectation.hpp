// Eight leaves of one tree against all leaves of another: their boxes go down that tree together.
#pragma once

#include "pairs/leaf_group.hpp"
#include "simd/kernels.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// P(lo <= x' < hi), from tails on their own side of the median: a difference of two numbers near 1 has no
// digits.
PREDGAP_INLINE Lanes mass_between(const Lanes& lo_f, const Lanes& lo_s, const Lanes& hi_f,
                                  const Lanes& hi_s) {
    return max(where_less(splat(0.5), hi_f, lo_s - hi_s, hi_f - lo_f), splat(0.0));
}

// Eight boxes on their way down, cut to the box of the node where they are.
class Descent {
public:
    PREDGAP_INLINE Descent(const ReducedNode* nodes, LeafGroup& m)
        : nodes_(nodes),
          m_(m),
          ends_(lanes(m.ends)),
          cut_below_(m.cut_below),
          first_(reinterpret_cast<Frame*>(m.frames)),
          top_(first_),
          cut_above_(m.cut_above),
          p_(*lanes(m.probability)) {}

    PREDGAP_INLINE void run(std::int32_t root) {
        auto node = root;
        std::int64_t n_met = 0;
        do {
            ++n_met;
            const auto& at = nodes_[node];
            node = is_done(at, p_) ? next() : at.set < 0 ? split(at) : split_by_set(at);
        } while (node >= 0);
        *lanes(m_.rest) = rest_;
        m_.n_met = n_met;
    }

private:
    struct Frame {
        Lanes end_f, end_s, mass;  // of the slot, before it was cut
        Lanes right, right_mass;   // what goes right
        std::uint64_t cut_below;
        const ReducedNode* node;
        std::uint64_t cut_above;
        bool on_left, right_waits;
    };
    static_assert(sizeof(Frame) <= LeafGroup::kFrame * sizeof(Lanes));

    // True if no box cuts a feature that is split on from here on. The subtree's mean is then the answer, and
    // is added.
    PREDGAP_INLINE bool is_done(const ReducedNode& at, const Lanes& p) {
        if (!(at.features & (cut_below_ | cut_above_))) {
            rest_ += p * splat(at.mean);
            return true;
        }
        return false;
    }

    PREDGAP_INLINE std::int32_t split(const ReducedNode& at) {
        const Lanes* end = ends_ + at.slot * LeafGroup::kEnds;
        const Lanes f = splat(at.below), s = splat(at.above);
        const Lanes left = mass_between(end[0], end[1], min(end[2], f), max(end[3], s));
        const Lanes right = mass_between(max(end[0], f), min(end[1], s), end[2], end[3]);
        return fork(at, left, right);
    }

    std::int32_t split_by_set(const ReducedNode& at) {
        Lanes left, right;
        m_.sets->split(at, reinterpret_cast<double*>(&p_), reinterpret_cast<double*>(&left),
                       reinterpret_cast<double*>(&right));
        return fork(at, left, right);
    }

    PREDGAP_INLINE std::int32_t fork(const ReducedNode& at, const Lanes& left, const Lanes& right) {
        const Lanes share = p_ / ends_[at.slot * LeafGroup::kEnds + 4];
        const Lanes p_left = share * left, p_right = share * right;
        const bool to_left = is_open(at.child[0], p_left), to_right = is_open(at.child[1], p_right);
        if (to_left != to_right && !any_less(splat(0.0), to_left ? p_right : p_left)) {  // nothing is cut
            if (at.set >= 0) m_.sets->leave();
            mark(at, to_left);
            return at.child[to_left ? 0 : 1];
        }
        if (!to_left && !to_right) {
            if (at.set >= 0) m_.sets->leave();
            return next();
        }
        auto& frame = *top_++;
        frame.cut_below = cut_below_;
        frame.cut_above = cut_above_;
        frame.mass = ends_[at.slot * LeafGroup::kEnds + 4];
        frame.node = &at;
        frame.right_waits = to_left && to_right;
        if (frame.right_waits) {
            frame.right = p_right;
            frame.right_mass = right;
        }
        return to_left ? enter(frame, true, p_left, left) : enter(frame, false, p_right, right);
    }

    // True if there is more to see at a node than its mean, which is added if not.
    PREDGAP_INLINE bool is_open(std::int32_t node, const Lanes& p) {
        return !is_done(nodes_[node], p) && any_less(splat(0.0), p);
    }

    // The walk goes on at the child of a frame's node.
    PREDGAP_INLINE std::int32_t enter(Frame& frame, bool to_left, const Lanes& p, const Lanes& mass) {
        const auto& at = *frame.node;
        Lanes* end = ends_ + at.slot * LeafGroup::kEnds;
        frame.on_left = to_left;
        if (at.set >= 0) {
            m_.sets->enter(to_left ? 0 : 1);
        } else if (to_left) {
            frame.end_f = end[2];
            frame.end_s = end[3];
            end[2] = min(end[2], splat(at.below));
            end[3] = max(end[3], splat(at.above));
        } else {
            frame.end_f = end[0];
            frame.end_s = end[1];
            end[0] = max(end[0], splat(at.below));
            end[1] = min(end[1], splat(at.above));
        }
        p_ = p;
        end[4] = where_less(splat(0.0), p, mass,
                            splat(1.0));  // lanes with probability 0 divide by it too; 1 avoids 0/0
        mark(at, to_left);
        return at.child[to_left ? 0 : 1];
    }

    // Marks the feature as no longer cut on this side if, for all boxes that are there, the new end is that
    // of the node's box.
    PREDGAP_INLINE void mark(const ReducedNode& at, bool to_left) {
        auto& cut = to_left ? cut_above_ : cut_below_;
        const auto bit = std::uint64_t{1} << at.slot % 64;
        if (at.set >= 0 || at.slot >= 63 || !(cut & bit)) return;
        const Lanes* end = ends_ + at.slot * LeafGroup::kEnds + (to_left ? 2 : 0);
        const Lanes f = where_less(splat(0.0), p_, end[0], splat(at.below));
        const Lanes s = where_less(splat(0.0), p_, end[1], splat(at.above));
        // Ends of boxes inside the node's are on its inner side.
        const bool is_cut = to_left ? any_less(f, splat(at.below)) || any_less(splat(at.above), s)
                                    : any_less(splat(at.below), f) || any_less(s, splat(at.above));
        if (!is_cut) cut &= ~bit;
    }

    // Goes back to the last split whose right side waits, and enters that side; returns -1 if there is none.
    PREDGAP_INLINE std::int32_t next() {
        while (top_ != first_) {
            auto& frame = top_[-1];
            const auto& at = *frame.node;
            if (at.set < 0) {
                Lanes* end = ends_ + at.slot * LeafGroup::kEnds + (frame.on_left ? 2 : 0);
                end[0] = frame.end_f;
                end[1] = frame.end_s;
            }
            cut_below_ = frame.cut_below;
            cut_above_ = frame.cut_above;
            if (frame.right_waits) {
                frame.right_waits = false;
                return enter(frame, false, frame.right, frame.right_mass);
            }
            ends_[at.slot * LeafGroup::kEnds + 4] = frame.mass;
            if (at.set >= 0) m_.sets->leave();
            --top_;
        }
        return -1;
    }

    const ReducedNode* nodes_;
    LeafGroup& m_;
    Lanes* ends_;
    std::uint64_t cut_below_;
    Frame *first_, *top_;
    std::uint64_t cut_above_;
    Lanes p_, rest_ = splat(0.0);
};

void joint_expectation(const ReducedNode* nodes, std::int32_t root, LeafGroup& group) {
    Descent(nodes, group).run(root);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
