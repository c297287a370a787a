// Nested subsets, one per lane: taking a feature, and which components that completes.
#pragma once

#include "forms.hpp"
#include "weights.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

void begin_nested(const PlanView& p, Block& b) {
    for (std::int32_t q = 0; q < p.n_features; ++q) b.chosen[q] = 0;
    for (std::int32_t c = 0; c < p.n_components; ++c) {
        b.dirty[c] = kAllLanes;
        b.changed[c] = 0;
        lanes(b.form)[c] = lanes(b.piece)[c] = splat(0.0);
    }
    const Lanes zero = splat(0.0);
    for (std::int32_t a = p.n_thresholds; a < p.n_atoms; ++a) {
        lanes(b.pair_below)[a] = lanes(b.below)[a];
        lanes(b.pair_above)[a] = lanes(b.above)[a];
        lanes(b.pair_other)[a] = zero;
    }
    for (std::int32_t a = 0; a < p.n_thresholds; ++a) {
        const Lanes e = lanes(b.shift)[a];
        lanes(b.pair_below)[a] = max(e, zero);
        lanes(b.pair_above)[a] = splat(1.0);
        lanes(b.pair_other)[a] = max(zero - e, zero);
        lanes(b.lower)[a] = is_less(zero, e);
        lanes(b.upper)[a] = is_less(e, zero);
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
            lanes(b.lower)[a] = select(mask, lanes(b.above)[a], lanes(b.lower)[a]);
            lanes(b.upper)[a] = select(mask, zero, lanes(b.upper)[a]);
        }
        for (auto a = p.set_atom_begin[q]; a < p.set_atom_begin[q + 1]; ++a)
            lanes(b.pair_other)[a] = select(mask, lanes(b.shift)[a], lanes(b.pair_other)[a]);
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

}  // namespace
}  // namespace predgap::PREDGAP_ISA
