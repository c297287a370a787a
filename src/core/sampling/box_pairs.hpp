// Means over random subsets of the square of a sum of boxes, pair by pair: both hold where the units of both
// have switched and those of both have stayed, and how likely that is depends on their numbers alone.
#pragma once

#include <bit>

#include "sampling/box_list.hpp"
#include "simd/kernels.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The place of the weight of two boxes; 0 if a unit would have to switch and to stay.
template <bool kOneWord>
PREDGAP_INLINE std::int64_t place_of_pair(const BoxList& b, std::int64_t u, std::int64_t v,
                                          std::int32_t stride) {
    const std::int64_t n_words = kOneWord ? 1 : b.n_words;
    std::uint64_t clash = 0;
    std::int64_t place = 0;
    for (std::int64_t w = 0; w < n_words; ++w) {
        const auto switched = b.switched[u * n_words + w] | b.switched[v * n_words + w];
        const auto stayed = b.stayed[u * n_words + w] | b.stayed[v * n_words + w];
        clash |= switched & stayed;
        place += std::popcount(switched) * std::int64_t{stride} + std::popcount(stayed);
    }
    return clash ? 0 : place;
}

template <bool kOneWord>
PREDGAP_INLINE double row_of_pairs(const BoxList& b, std::int64_t u, const BoxWeights& w) {
    constexpr std::int64_t kWays = 4;  // so that sums need not wait for each other
    double sum[kWays] = {};
    std::int64_t v = 0;
    for (; v + kWays <= u; v += kWays)
        for (std::int64_t i = 0; i < kWays; ++i)
            sum[i] += b.change[v + i] * w.weight[place_of_pair<kOneWord>(b, u, v + i, w.stride)];
    for (; v < u; ++v) sum[0] += b.change[v] * w.weight[place_of_pair<kOneWord>(b, u, v, w.stride)];
    const double others = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return b.change[u] * (2.0 * others + b.change[u] * w.weight[place_of_pair<kOneWord>(b, u, u, w.stride)]);
}

// Calls add(i) for each bit i that both have.
template <class Add>
PREDGAP_INLINE void each_common(const std::uint64_t* a, const std::uint64_t* b, std::int64_t n_words,
                                Add add) {
    for (std::int64_t w = 0; w < n_words; ++w)
        for (auto both = a[w] & b[w]; both; both &= both - 1) add(64 * w + std::countr_zero(both));
}

// Adds up what units get from the pairs of box u and those before it, or itself. The units of either box are
// those of the one and those of the other, less those of both.
template <bool kOneWord>
PREDGAP_INLINE void row_of_values(const BoxList& b, std::int64_t u, const BoxWeights& joins,
                                  const double* leaves, const BoxValues& values) {
    const std::int64_t n_words = kOneWord ? 1 : b.n_words;
    double own_switched = 0.0, own_stayed = 0.0;
    for (std::int64_t v = 0; v <= u; ++v) {
        const auto place = place_of_pair<kOneWord>(b, u, v, joins.stride);
        if (!place) continue;
        const double product = (v < u ? 2.0 : 1.0) * b.change[u] * b.change[v];
        const double in = product * joins.weight[place], out = product * leaves[place];
        own_switched += in;
        own_stayed += out;
        values.to_switched[v] += in;
        values.to_stayed[v] += out;
        each_common(b.switched + u * n_words, b.switched + v * n_words, n_words,
                    [&](std::int64_t i) { values.to_bit[i] -= in; });
        each_common(b.stayed + u * n_words, b.stayed + v * n_words, n_words,
                    [&](std::int64_t i) { values.to_bit[i] += out; });
    }
    values.to_switched[u] += own_switched;
    values.to_stayed[u] += own_stayed;
}

// The sum over all pairs of box u and those before it, or itself.
double box_pairs(const BoxList& b, std::int64_t u, const BoxWeights& weights) {
    return b.n_words == 1 ? row_of_pairs<true>(b, u, weights) : row_of_pairs<false>(b, u, weights);
}

void box_pair_values(const BoxList& b, std::int64_t u, const BoxWeights& joins, const double* leaves,
                     const BoxValues& values) {
    b.n_words == 1 ? row_of_values<true>(b, u, joins, leaves, values)
                   : row_of_values<false>(b, u, joins, leaves, values);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
