// Features that join the subset: the mean parts of their terms go to the terms without them.
#pragma once

#include "terms/term_state.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE bool stopped(const TermState& s) { return s.work->stopped(); }

PREDGAP_INLINE bool has_weight(const TermState& s, const Component& c) {
    bool any = false;  // without a jump for each: these could not be foreseen
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double* w = s.weight.data() + k * s.terms->n_weights + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) any |= w[t] != 0.0;
    }
    return any;
}

// W[t without its atom in the slot] += W[t] E tau, for all terms of a component.
PREDGAP_INLINE void push(const TermState& s, Use use, Buffer<double>& weights) {
    const auto& c = s.terms->component[use.component];
    const auto at = c.slots + std::int64_t{use.slot} * c.stride;
    const auto *atom = s.terms->atom.data() + at, *parent = s.terms->parent.data() + at;
    const double* shift = s.tables->shift.data();
    s.work->add(nominal::kPushedTerm * c.n_terms * s.terms->width);
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        double* weight = weights.data() + k * s.terms->n_weights;
        const double* own = weight + c.first_term;
        for (std::int32_t t = 0; t < c.n_terms; ++t) weight[parent[t]] += own[t] * shift[atom[t]];
    }
}

PREDGAP_INLINE std::int32_t parent_of(const TermState& s, Use use) {
    return s.terms->parent_component[s.terms->component[use.component].features + use.slot];
}

// Marks the component without the feature: it has weights, which have changed.
PREDGAP_INLINE void mark_parent(TermState& s, Use use) {
    auto& parent = s.component[parent_of(s, use)];
    parent.has_weight = parent.is_stale = true;
}

// Centres a feature in all terms.
PREDGAP_INLINE void push_feature(TermState& s, std::int32_t q) {
    const auto begin = s.terms->use_begin[q], end = s.terms->use_begin[q + 1];
    for (auto i = begin; i < end; ++i) {
        const auto use = s.terms->use[i];
        if (!s.component[use.component].has_weight) continue;
        push(s, use, s.weight);
        mark_parent(s, use);
    }
}

PREDGAP_INLINE double squared_mean(const TermState& s) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < s.terms->width; ++k) {
        const double mean = s.weight[k * s.terms->n_weights];
        sum += mean * mean;
    }
    return sum;
}

// Centres a feature like push_feature, but on a plan, where terms that do not matter have weight 0: blocks of
// features that stay are left out.
PREDGAP_INLINE void push_edges(TermState& s, std::int32_t q) {
    const double* shift = s.tables->shift.data();
    const EdgeBlock *block = s.terms->block.data() + s.terms->block_begin[q],
                    *end = s.terms->block.data() + s.terms->block_begin[q + 1];
    const auto is_open = [&](const EdgeBlock& b) {
        return b.other == EdgeBlock::kNoFeature || s.tables->is_open[b.other];
    };
    while (block < end) {
        if (!is_open(*block)) {
            ++block;
            continue;
        }
        const auto* first = block;
        while (block < end && is_open(*block)) ++block;
        const Edge *from = s.terms->edge.data() + first->begin, *to = s.terms->edge.data() + block[-1].end;
        s.work->add(nominal::kPushedTerm * static_cast<double>((to - from) * s.terms->width));
        for (std::int64_t k = 0; k < s.terms->width; ++k) {
            double* weight = s.weight.data() + k * s.terms->n_weights;
            for (const auto* e = from; e != to; ++e) weight[e->parent] += weight[e->term] * shift[e->atom];
        }
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
