// The vector kernels of the terms strategy: tables, weights, centring, gaps, nested subsets and gains.
//
// Compiled once per instruction set, with PREDGAP_ISA naming the copy. Nothing here allocates.
#include "kernels.hpp"

#include "tails.hpp"

namespace predgap::PREDGAP_ISA {

namespace {

struct MaskTable {
    alignas(64) double lane[256][kLanes];
    constexpr MaskTable() : lane{} {
        for (int bits = 0; bits < 256; ++bits)
            for (int i = 0; i < kLanes; ++i) lane[bits][i] = static_cast<double>((bits >> i) & 1);
    }
};
constexpr MaskTable kMask;

// The lanes named by bits as 1.0, the others as 0.0.
PREDGAP_INLINE Lanes lanes_of(LaneBits bits) { return *lanes(kMask.lane[bits]); }

PREDGAP_INLINE bool stopped(const Block& b) { return b.stop->load(std::memory_order_relaxed); }

// ---- tables: F, S and e at every atom -----------------------------------------------------------

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

void tables(const PlanView& p, Block& b, const Law* law, const double* parameter) {
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
    }
}

// ---- weights: the row's omega -------------------------------------------------------------------

// How likely x' gets as far as the literal's interval: 1 inside, else the tail from its near end on.
void reach_literals(const PlanView& p, Block& b) {
    const Lanes one = splat(1.0), zero = splat(0.0);
    for (std::int32_t l = 0; l < p.n_literals; ++l) {
        const auto q = p.literal_feature[l], lo = p.literal_lo[l], hi = p.literal_hi[l];
        const Lanes x = lanes(b.x)[q];
        Lanes reach = p.literal_numeric[l] ? one : zero;
        if (lo >= 0) reach = select(is_less(x, splat(p.atom_threshold[lo])), lanes(b.above)[lo], reach);
        if (hi >= 0) reach = select(is_less(x, splat(p.atom_threshold[hi])), reach, lanes(b.below)[hi]);
        if (b.gone[q]) reach = select(lanes_of(b.gone[q]), zero, reach);
        lanes(b.reach)[l] = select(lanes(b.inside)[l], one, reach);
    }
}

void test_literals(const PlanView& p, Block& b) {
    for (std::int32_t l = 0; l < p.n_literals; ++l) {
        const auto q = p.literal_feature[l], lo = p.literal_lo[l], hi = p.literal_hi[l];
        const Lanes x = lanes(b.x)[q];
        Lanes inside = splat(p.literal_numeric[l] ? 1.0 : 0.0);
        if (lo >= 0) inside *= splat(1.0) - is_less(x, splat(p.atom_threshold[lo]));
        if (hi >= 0) inside *= is_less(x, splat(p.atom_threshold[hi]));
        if (b.gone[q]) inside = select(lanes_of(b.gone[q]), splat(p.literal_missing[l]), inside);
        lanes(b.inside)[l] = inside;
        LaneBits bits = 0;
        for (int i = 0; i < kLanes; ++i) bits |= static_cast<LaneBits>((inside[i] != 0.0) << i);
        b.inside_bits[l] = bits;
    }
}

void reach_leaves(const PlanView& p, Block& b) {
    for (std::int32_t box = 0; box < p.n_boxes; ++box) {
        Lanes inside = splat(1.0);
        for (auto l = p.box_literal_begin[box]; l < p.box_literal_begin[box + 1]; ++l)
            inside *= lanes(b.inside)[p.box_literal[l]];
        lanes(b.box_inside)[box] = inside;
    }
    for (std::int32_t tree = 0; tree < p.n_trees; ++tree) {
        Lanes value = splat(0.0);  // just one box of a tree holds x, so this sum is exact
        for (auto leaf = p.tree_leaf_begin[tree]; leaf < p.tree_leaf_begin[tree + 1]; ++leaf)
            value += lanes(b.box_inside)[p.leaf_box[leaf]] * splat(p.leaf_value[leaf]);
        lanes(b.tree_value)[tree] = value;
    }
}

// What reaching the box changes. Residuals, not leaf values: a leaf that x cannot be told from adds
// exactly nothing, and no digits are lost to values that cancel.
PREDGAP_INLINE Lanes residual(const PlanView& p, const Block& b, std::int32_t box) {
    Lanes sum = splat(0.0);
    for (auto i = p.box_member_begin[box]; i < p.box_member_begin[box + 1]; ++i)
        sum += splat(p.member_value[i]) - lanes(b.tree_value)[p.member_tree[i]];
    return sum;
}

void add_error_scale(const PlanView& p, Block& b, std::int32_t box) {
    Lanes sum = splat(0.0);
    for (auto i = p.box_member_begin[box]; i < p.box_member_begin[box + 1]; ++i) {
        const Lanes g = splat(p.member_value[i]) - lanes(b.tree_value)[p.member_tree[i]];
        sum += g * g;
    }
    for (auto l = p.box_literal_begin[box]; l < p.box_literal_begin[box + 1]; ++l)
        sum *= lanes(b.reach)[p.box_literal[l]];
    const auto first = p.box_literal_begin[box], last = p.box_literal_begin[box + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
        std::int64_t left = 0;  // the literals that this lane's row fails
        for (auto l = first; l < last; ++l)
            left |= std::int64_t{((b.inside_bits[p.box_literal[l]] >> lane) & 1) == 0} << (l - first);
        const auto c = left ? p.group_component[p.box_group_begin[box] + left - 1] : -1;
        if (c >= 0) lanes(b.error_scale)[c][lane] += sum[lane];
    }
}

// Multiplies out one box: to each mask of perturbed literals, its residual times the other literals.
void spread_box(const PlanView& p, Block& b, std::int32_t box) {
    const auto* literal = p.box_literal + p.box_literal_begin[box];
    const auto n_literals = p.box_literal_begin[box + 1] - p.box_literal_begin[box];
    std::int32_t open[32];
    std::int32_t n_open = 0;
    Lanes keep = splat(1.0);
    LaneBits reachable = kAllLanes;
    for (std::int32_t j = 0; j < n_literals; ++j) {
        if (b.perturbed[p.literal_feature[literal[j]]]) {
            open[n_open++] = j;
        } else {
            keep *= lanes(b.inside)[literal[j]];
            reachable &= b.inside_bits[literal[j]];
        }
    }
    if (n_open == 0 || reachable == 0) return;
    Lanes *coefficient = lanes(b.coefficient), *weight = lanes(b.weight);
    const std::int32_t full = (std::int32_t{1} << n_open) - 1;
    b.mask[0] = 0;
    for (std::int32_t m = 1; m <= full; ++m)
        b.mask[m] = b.mask[m & (m - 1)] | (1 << open[std::countr_zero(static_cast<unsigned>(m))]);
    for (std::int32_t m = full; m > 0; --m) {
        if (m == full) {
            coefficient[m] = residual(p, b, box) * keep;
        } else {
            const auto j = std::countr_one(static_cast<unsigned>(m));
            coefficient[m] = coefficient[m | (1 << j)] * lanes(b.inside)[literal[open[j]]];
        }
        const auto group = p.box_group_begin[box] + b.mask[m] - 1;
        const Lanes plus = coefficient[m], minus = splat(0.0) - coefficient[m];
        for (auto i = p.group_entry_begin[group]; i < p.group_entry_begin[group + 1]; ++i)
            weight[p.entry[i] >> 1] += (p.entry[i] & 1) ? minus : plus;
    }
}

void begin_row(const PlanView& p, Block& b, bool for_ranking) {
    test_literals(p, b);
    reach_leaves(p, b);
    Lanes* weight = lanes(b.weight);
    for (std::int32_t c = 0; c < p.n_components; ++c)
        if (b.active[c])
            for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t)
                weight[t] = splat(0.0);
    weight[p.n_terms] = splat(0.0);
    for (std::int32_t box = 0; box < p.n_boxes && !stopped(b); ++box) spread_box(p, b, box);
    if (!for_ranking) return;
    reach_literals(p, b);
    for (std::int32_t c = 0; c < p.n_components; ++c) lanes(b.error_scale)[c] = splat(0.0);
    for (std::int32_t box = 0; box < p.n_boxes && !stopped(b); ++box) add_error_scale(p, b, box);
}

// ---- centring: W[t without i] += W[t] e ---------------------------------------------------------

PREDGAP_INLINE void centre(const PlanView& p, Block& b, std::int32_t c, std::int32_t slot,
                           const Lanes& mask) {
    Lanes* weight = lanes(b.weight);
    const Lanes* shift = lanes(b.shift);
    const auto size = p.component_size[c];
    auto at = p.component_slot_begin[c] + slot;
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, at += size)
        weight[p.term_parent[at]] += weight[t] * (shift[p.term_atom[at]] * mask);
}

// ---- Q_C = sum over s, t of W_s W_t prod min(F_s, F_t) min(S_s, S_t) -----------------------------

PREDGAP_INLINE Lanes sweep(const PlanView& p, const Block& b, std::int32_t c) {
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Lanes sum = splat(0.0), earlier = splat(0.0);
    auto at = p.component_slot_begin[c];
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, ++at) {
        const auto a = p.term_atom[at];
        const Lanes w = weight[t], f = w * below[a];
        sum += w * above[a] * (earlier + earlier + f);
        earlier += f;
    }
    return sum;
}

// Terms are sorted by their first atom, so for s before t the first slot's factor is F_s S_t: it is
// folded into the weights. Gathered rows are [W F, W S, F_1, S_1, F_2, S_2, ...].
template <int kSize>
PREDGAP_INLINE Lanes triangle(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes sum = splat(0.0);
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += 2 * size) {
        const Lanes w = weight[first + t];
        row_t[0] = w * below[atom[0]];
        row_t[1] = w * above[atom[0]];
        Lanes own = row_t[0];
        for (std::int32_t j = 1; j < size; ++j) {
            row_t[2 * j] = below[atom[j]];
            row_t[2 * j + 1] = above[atom[j]];
            own *= row_t[2 * j] * row_t[2 * j + 1];
        }
        Lanes earlier = splat(0.0);
        const Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += 2 * size) {
            Lanes k = row_s[0];
            for (std::int32_t j = 1; j < size; ++j)
                k *= min(row_s[2 * j], row_t[2 * j]) * min(row_s[2 * j + 1], row_t[2 * j + 1]);
            earlier += k;
        }
        sum += row_t[1] * (earlier + earlier + own);
    }
    return sum;
}

// Sums by level that are added to and asked for below a level, each in logarithmic time.
struct Fenwick {
    Lanes* node;
    std::int32_t n_levels;

    PREDGAP_INLINE void clear() {
        for (std::int32_t i = 0; i < n_levels; ++i) node[i] = splat(0.0);
    }
    PREDGAP_INLINE void add(std::int32_t level, const Lanes& value) {
        for (auto i = level; i < n_levels; i |= i + 1) node[i] += value;
    }
    PREDGAP_INLINE Lanes below(std::int32_t level) const {
        Lanes sum = splat(0.0);
        for (auto i = level - 1; i >= 0; i = (i & (i + 1)) - 1) sum += node[i];
        return sum;
    }
};

// Two features, many terms: sorted by the first, they are swept once, with sums by the level of the second.
bool sweeps_two(const PlanView& p, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c] + 1];
    const auto n = p.component_term_begin[c + 1] - p.component_term_begin[c];
    return n >= 32 && p.atom_begin[q + 1] - p.atom_begin[q] <= 4 * n;
}

Lanes sweep_two(const PlanView& p, Block& b, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c] + 1];
    const auto base = p.atom_begin[q], n_levels = p.atom_begin[q + 1] - base;
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Fenwick lower{lanes(b.scratch), n_levels}, upper{lanes(b.scratch) + n_levels, n_levels};
    lower.clear();
    upper.clear();
    Lanes sum = splat(0.0);
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, atom += 2) {
        if (stopped(b)) break;
        const auto level = atom[1] - base;
        const Lanes f = below[atom[1]], s = above[atom[1]], u = weight[t] * below[atom[0]];
        const Lanes uf = u * f, us = u * s;
        const Lanes earlier = s * lower.below(level + 1) + f * upper.below(n_levels - 1 - level);
        sum += weight[t] * above[atom[0]] * (earlier + earlier + uf * s);
        lower.add(level, uf);
        upper.add(n_levels - 1 - level, us);  // levels from above, so that nothing is subtracted
    }
    return sum;
}

Lanes component_gap(const PlanView& p, Block& b, std::int32_t c) {
    switch (p.component_size[c]) {
        case 1: return sweep(p, b, c);
        case 2: return sweeps_two(p, c) ? sweep_two(p, b, c) : triangle<2>(p, b, c);
        case 3: return triangle<3>(p, b, c);
        case 4: return triangle<4>(p, b, c);
        default: return triangle<0>(p, b, c);
    }
}

void centre_all(const PlanView& p, Block& b) {
    const Lanes all = splat(1.0);
    for (std::int32_t q = 0; q < p.n_features && !stopped(b); ++q) {
        if (!b.perturbed[q]) continue;
        for (auto u = p.feature_use_begin[q]; u < p.feature_use_begin[q + 1]; ++u)
            if (b.active[p.use_component[u]]) centre(p, b, p.use_component[u], p.use_slot[u], all);
    }
}

void mean(const PlanView& p, Block& b, double* out) {
    centre_all(p, b);
    for (int i = 0; i < kLanes; ++i) out[i] = lanes(b.weight)[p.n_terms][i];
}

void gap(const PlanView& p, Block& b, double* out) {
    centre_all(p, b);
    const Lanes mean = lanes(b.weight)[p.n_terms];
    Lanes sum = mean * mean;
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c)
        if (b.active[c]) sum += component_gap(p, b, c);
    for (int i = 0; i < kLanes; ++i) out[i] = sum[i];
}

// ---- nested subsets -----------------------------------------------------------------------------

void begin_nested(const PlanView& p, Block& b) {
    for (std::int32_t q = 0; q < p.n_features; ++q) b.chosen[q] = 0;
    for (std::int32_t c = 0; c < p.n_components; ++c) {
        b.dirty[c] = kAllLanes;
        b.changed[c] = 0;
        lanes(b.form)[c] = lanes(b.piece)[c] = splat(0.0);
    }
    const Lanes zero = splat(0.0);
    for (std::int32_t a = 0; a < p.n_atoms; ++a) {
        const Lanes e = lanes(b.shift)[a];
        lanes(b.pair_below)[a] = max(e, zero);
        lanes(b.pair_above)[a] = splat(1.0);
        lanes(b.pair_other)[a] = max(zero - e, zero);
    }
}

// Adds to each lane's subset the feature it took (b.fresh).
void take(const PlanView& p, Block& b) {
    for (std::int32_t q = 0; q < p.n_features && !stopped(b); ++q) {
        const LaneBits fresh = b.fresh[q];
        if (!fresh) continue;
        const Lanes mask = lanes_of(fresh), zero = splat(0.0);
        for (auto u = p.feature_use_begin[q]; u < p.feature_use_begin[q + 1]; ++u) {
            const auto c = p.use_component[u], slot = p.use_slot[u];
            centre(p, b, c, slot, mask);
            b.dirty[c] |= fresh;
            const auto parent = p.component_parent[p.component_feature_begin[c] + slot];
            if (parent >= 0) b.dirty[parent] |= fresh;
        }
        for (auto a = p.atom_begin[q]; a < p.atom_begin[q + 1]; ++a) {
            lanes(b.pair_below)[a] = select(mask, lanes(b.below)[a], lanes(b.pair_below)[a]);
            lanes(b.pair_above)[a] = select(mask, lanes(b.above)[a], lanes(b.pair_above)[a]);
            lanes(b.pair_other)[a] = select(mask, zero, lanes(b.pair_other)[a]);
        }
        b.chosen[q] |= fresh;
    }
}

struct State {
    LaneBits complete;  // every feature of the component is in the lane's subset
    LaneBits frontier;  // all but one
};

PREDGAP_INLINE State state_of(const PlanView& p, const Block& b, std::int32_t c) {
    LaneBits one = 0, two = 0;
    for (auto i = p.component_feature_begin[c]; i < p.component_feature_begin[c + 1]; ++i) {
        const auto out = static_cast<LaneBits>(~b.chosen[p.component_feature[i]]);
        two |= one & out;
        one |= out;
    }
    return {static_cast<LaneBits>(~one), static_cast<LaneBits>(one & ~two)};
}

void nested_gap(const PlanView& p, Block& b, double* out) {
    const Lanes mean = lanes(b.weight)[p.n_terms];
    Lanes sum = mean * mean;
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c) {
        const LaneBits complete = state_of(p, b, c).complete;
        if (!complete) continue;
        if (complete & b.dirty[c]) {
            lanes(b.form)[c] = component_gap(p, b, c);
            b.dirty[c] = 0;
        }
        sum += select(lanes_of(complete), lanes(b.form)[c], splat(0.0));
    }
    for (int i = 0; i < kLanes; ++i) out[i] = sum[i];
}

// ---- gains: what each feature outside the subset would add --------------------------------------
//
// A component all but one of whose features are in the subset (its frontier) adds W'HW' + 2 cross to the
// gain of that feature. H has E[tau tau'] in the slot of the feature outside, which is min(F, F') on one
// side of x, min(S, S') on the other, and 0 across; the other slots have min(F, F') min(S, S'). Both are
//     min(a, a') min(b, b') + min(c, c'),   (a, b, c) = (F, S, 0) inside, (e+, 1, e-) outside,
// so lanes in different states share one formula.

// One feature: thresholds are sorted, so for s <= t the factor is F_s P_t + N_s S_t, and sums run along.
PREDGAP_INLINE Lanes sweep_product(const PlanView& p, Block& b, std::int32_t c) {
    const auto q = p.component_feature[p.component_feature_begin[c]];
    const Lanes in = lanes_of(b.chosen[q]), zero = splat(0.0);
    const Lanes *weight = lanes(b.weight), *below = lanes(b.below), *above = lanes(b.above);
    Lanes* product = lanes(b.product);
    const auto first = p.component_term_begin[c], last = p.component_term_begin[c + 1];
    const auto* atom = p.term_atom + p.component_slot_begin[c] - first;
    const auto lower = [&](std::int32_t a) {  // P
        return select(in, above[a], is_less(zero, lanes(b.shift)[a]));
    };
    const auto upper = [&](std::int32_t a) {  // N
        return select(in, zero, is_less(lanes(b.shift)[a], zero));
    };
    Lanes f = zero, n = zero;
    for (auto t = first; t < last; ++t) {
        const auto a = atom[t];
        f += weight[t] * below[a];
        n += weight[t] * upper(a);
        product[t] = f * lower(a) + n * above[a];
    }
    Lanes sum = zero, l = zero, s = zero;
    for (auto t = last - 1; t >= first; --t) {
        const auto a = atom[t];
        product[t] += l * below[a] + s * upper(a);
        l += weight[t] * lower(a);
        s += weight[t] * above[a];
        sum += weight[t] * product[t];
    }
    return sum;
}

// Several features. Gathered rows are [W, a_0, b_0, c_0, a_1, ...].
template <int kSize>
PREDGAP_INLINE Lanes square_product(const PlanView& p, Block& b, std::int32_t c) {
    const std::int32_t size = kSize ? kSize : p.component_size[c];
    const std::int32_t stride = 1 + 3 * size;
    const auto first = p.component_term_begin[c];
    const auto n = p.component_term_begin[c + 1] - first;
    const auto* atom = p.term_atom + p.component_slot_begin[c];
    Lanes* product = lanes(b.product) + first;
    Lanes* row_t = lanes(b.scratch);
    for (std::int32_t t = 0; t < n && !stopped(b); ++t, atom += size, row_t += stride) {
        const Lanes w = row_t[0] = lanes(b.weight)[first + t];
        Lanes own = w;
        for (std::int32_t j = 0; j < size; ++j) {
            row_t[1 + 3 * j] = lanes(b.pair_below)[atom[j]];
            row_t[2 + 3 * j] = lanes(b.pair_above)[atom[j]];
            row_t[3 + 3 * j] = lanes(b.pair_other)[atom[j]];
            own *= row_t[1 + 3 * j] * row_t[2 + 3 * j] + row_t[3 + 3 * j];
        }
        const Lanes* row_s = lanes(b.scratch);
        for (std::int32_t s = 0; s < t; ++s, row_s += stride) {
            Lanes k = splat(1.0);
            for (std::int32_t j = 0; j < size; ++j)
                k *= min(row_s[1 + 3 * j], row_t[1 + 3 * j]) * min(row_s[2 + 3 * j], row_t[2 + 3 * j]) +
                     min(row_s[3 + 3 * j], row_t[3 + 3 * j]);
            own += row_s[0] * k;
            product[s] += w * k;
        }
        product[t] = own;
    }
    Lanes sum = splat(0.0);
    for (std::int32_t t = 0; t < n; ++t) sum += lanes(b.weight)[first + t] * product[t];
    return sum;
}

Lanes component_product(const PlanView& p, Block& b, std::int32_t c) {
    switch (p.component_size[c]) {
        case 1: return sweep_product(p, b, c);
        case 2: return square_product<2>(p, b, c);
        case 3: return square_product<3>(p, b, c);
        case 4: return square_product<4>(p, b, c);
        default: return square_product<0>(p, b, c);
    }
}

PREDGAP_INLINE Lanes cross(const PlanView& p, const Block& b, std::int32_t c, std::int32_t slot) {
    const auto size = p.component_size[c];
    auto at = p.component_slot_begin[c] + slot;
    Lanes sum = splat(0.0);
    for (auto t = p.component_term_begin[c]; t < p.component_term_begin[c + 1]; ++t, at += size)
        sum += lanes(b.weight)[t] * lanes(b.shift)[p.term_atom[at]] * lanes(b.product)[p.term_parent[at]];
    return sum;
}

void add_frontier(const PlanView& p, Block& b, std::int32_t c, LaneBits frontier) {
    const Lanes zero = splat(0.0), scale = lanes(b.error_scale)[c];
    const auto begin = p.component_feature_begin[c];
    for (std::int32_t slot = 0; slot < p.component_size[c]; ++slot) {
        const auto q = p.component_feature[begin + slot], parent = p.component_parent[begin + slot];
        const auto here = static_cast<LaneBits>(frontier & ~b.chosen[q]);
        if (!here) continue;
        const Lanes mask = lanes_of(here);
        if (here & (b.changed[c] | (parent >= 0 ? b.changed[parent] : kAllLanes))) {
            const Lanes twice = splat(2.0) * cross(p, b, c, slot);
            lanes(b.piece)[c] = select(mask, lanes(b.form)[c] + twice, lanes(b.piece)[c]);
        }
        lanes(b.gain)[q] += select(mask, lanes(b.piece)[c], zero);
        lanes(b.error_of)[q] += select(mask, scale, zero);
    }
}

void gains(const PlanView& p, Block& b) {
    const Lanes zero = splat(0.0);
    for (std::int32_t q = 0; q <= p.n_features; ++q) lanes(b.error_of)[q] = zero;
    for (std::int32_t q = 0; q < p.n_features; ++q) lanes(b.gain)[q] = zero;
    lanes(b.product)[p.n_terms] = lanes(b.weight)[p.n_terms];
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c) {
        const State state = state_of(p, b, c);
        const auto needed = static_cast<LaneBits>(
            state.frontier | (p.component_has_children[c] ? state.complete : LaneBits{0}));
        b.changed[c] = 0;
        if (needed & b.dirty[c]) {
            lanes(b.form)[c] = component_product(p, b, c);
            b.changed[c] = b.dirty[c];
            b.dirty[c] = 0;
        }
        if (state.frontier) add_frontier(p, b, c, state.frontier);
        if (state.complete)
            lanes(b.error_of)[p.n_features] +=
                select(lanes_of(state.complete), lanes(b.error_scale)[c], zero);
    }
}

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {
    PREDGAP_ISA_NAME, normal_tails_of, tables, begin_row, mean, gap, begin_nested, take, nested_gap, gains};

}  // namespace predgap::PREDGAP_ISA
