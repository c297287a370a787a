// Tables of a block: F, S and e at every atom; of a set of categories, the side of x and e.
#pragma once

#include "masks.hpp"
#include "tails.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE void uniform_tails(const Lanes& x, const Lanes& c, double half_width, Lanes& below,
                                  Lanes& above) {
    const Lanes zero = splat(0.0), one = splat(1.0);
    // Near the edge of the support half_width - |c - x| cancels: put back what rounding c - x lost.
    const Lanes delta = c - x, virtual_x = c - delta;
    const Lanes lost = (c - (delta + virtual_x)) + (virtual_x - x);
    const Lanes right = is_less(x, c), distance = select(right, delta, zero - delta);
    const Lanes inner = max((splat(half_width) - distance) - select(right, lost, zero - lost), zero);
    const Lanes tail = inner / splat(half_width) * splat(0.5);
    const Lanes to_left = is_less(c, x);
    below = select(to_left, tail, one - tail);
    above = select(to_left, one - tail, tail);
}

void normal_tails_of(const double* z, double* below, double* above) {
    normal_tails(*lanes(z), *lanes(below), *lanes(above));
}

void fill_tails(const PlanView& p, Block& b, Law law, double parameter, std::int32_t q) {
    const auto first = p.atom_begin[q], last = p.atom_begin[q + 1];
    const Lanes x = lanes(b.x)[q];
    Lanes *below = lanes(b.below), *above = lanes(b.above);
    if (law == Law::normal) {
        for (auto a = first; a < last; ++a)
            normal_tails((splat(p.atom_threshold[a]) - x) / splat(parameter), below[a], above[a]);
    } else if (law == Law::uniform) {
        for (auto a = first; a < last; ++a)
            uniform_tails(x, splat(p.atom_threshold[a]), parameter, below[a], above[a]);
    }  // Law::table: the caller has put the tails in place
}

// Which sets of categories each row is in.
void fill_members(const PlanView& p, Block& b) {
    for (std::int32_t q = 0; q < p.n_features; ++q)
        for (auto a = p.set_atom_begin[q]; a < p.set_atom_begin[q + 1]; ++a) {
            const auto k = a - p.n_thresholds;
            const auto* word = p.set_word + p.set_word_begin[k];
            for (int i = 0; i < kLanes; ++i) {
                const bool gone = (b.gone[q] >> i) & 1;
                const auto cell = gone ? 0 : static_cast<std::int32_t>(lanes(b.x)[q][i]);
                lanes(b.member)[k][i] =
                    gone ? 0.0 : static_cast<double>((word[cell / 64] >> (cell % 64)) & 1);
            }
        }
}

void tables(const PlanView& p, Block& b, const Law* law, const double* parameter) {
    fill_members(p, b);
    const Lanes zero = splat(0.0);
    Lanes *below = lanes(b.below), *above = lanes(b.above), *shift = lanes(b.shift);
    for (std::int32_t q = 0; q < p.n_features; ++q) {
        if (!b.perturbed[q]) continue;
        const Lanes x = lanes(b.x)[q], moves = lanes_of(b.moves[q]);
        if (b.moves[q]) fill_tails(p, b, law[q], parameter[q], q);
        for (auto a = p.atom_begin[q]; a < p.atom_begin[q + 1]; ++a) {
            below[a] = select(moves, below[a], zero);
            above[a] = select(moves, above[a], zero);
            shift[a] = select(is_less(x, splat(p.atom_threshold[a])), zero - above[a], below[a]);
        }
        for (auto a = p.set_atom_begin[q]; a < p.set_atom_begin[q + 1]; ++a) {
            const Lanes in = lanes(b.member)[a - p.n_thresholds];
            below[a] = select(moves, splat(1.0) - in, zero);
            above[a] = select(moves, in, zero);
            shift[a] = below[a] * splat(b.sets.inside[a - p.n_thresholds]) -
                       above[a] * splat(b.sets.outside[a - p.n_thresholds]);
        }
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
