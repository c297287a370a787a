// Tables of the thresholds of one feature: tails, and what follows from them.
#pragma once

#include <algorithm>
#include <limits>

#include "noise/tails.hpp"
#include "simd/kernels.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

void normal_tails_of_four(const double* z, double* below, double* above) {
    normal_tails(*fours(z), *fours(below), *fours(above));
}

// Where x' >= threshold begins, for x plus the law's number; infinite if never or always. Of eight thresholds
// from the first one on; past the last one, that of the last.
PREDGAP_INLINE Lanes places(const TableRequest& r, std::int32_t first) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    Lanes threshold, at;
    if (first + 8 <= r.n) {
        threshold = load<8>(r.threshold + first);
        at = load<8>(r.at + first);
    } else {
        for (int i = 0; i < 8; ++i) {
            const auto last = std::min(first + i, r.n - 1);
            threshold[i] = r.threshold[last];
            at[i] = r.at[last];
        }
    }
    at = where_less(splat(r.low), threshold, at, splat(-kInfinity));
    return where_less(splat(r.high), threshold, splat(kInfinity), at);
}

// Tails of all thresholds, eight at a time: their polynomials are long chains, and two registers of four take
// hardly longer than one. tails_of(thresholds, below, above) computes eight.
template <class TailsOf>
PREDGAP_INLINE void fill_tails(const TableRequest& r, const TailsOf& tails_of) {
    const Lanes largest = splat(std::numeric_limits<double>::max()), zero = splat(0.0), one = splat(1.0);
    for (std::int32_t first = 0; first < r.n; first += 8) {
        const Lanes at = places(r, first), never = zero - at, x = splat(r.x);
        Lanes below, above;
        tails_of(where_less(largest, max(at, never), x, at), below, above);
        below = where_less(largest, at, one, where_less(largest, never, zero, below));
        above = where_less(largest, at, zero, where_less(largest, never, one, above));
        for (std::int32_t i = 0; i < std::min(8, r.n - first); ++i) {
            r.tail[2 * (first + i)] = below[i];
            r.tail[2 * (first + i) + 1] = above[i];
        }
    }
}

PREDGAP_INLINE void fill_tails(const TableRequest& r) {
    const Lanes x = splat(r.x);
    switch (r.law) {  // without a default: a compiler warns of a law that is missing
        case Law::normal:
            return fill_tails(r, [&](const Lanes& c, Lanes& below, Lanes& above) {
                normal_tails(standardised(c, x, r.parameter), below, above);
            });
        case Law::uniform:
            return fill_tails(r, [&](const Lanes& c, Lanes& below, Lanes& above) {
                uniform_tails(c, x, r.parameter, below, above);
            });
        case Law::fixed: std::copy_n(r.fixed, 2 * r.n, r.tail); return;
        case Law::table:     // they are given with the row
        case Law::still:     // it crosses no threshold
        case Law::category:  // it has none
            return;
    }
}

// With probability `stays` x' is x.
void mix_with_staying(const TableRequest& r) {
    for (std::int32_t i = 0; i < r.n; ++i) {
        const bool is_below = r.x < r.threshold[i];
        r.tail[2 * i] = std::min(r.moves * r.tail[2 * i] + (is_below ? r.stays : 0.0), 1.0);
        r.tail[2 * i + 1] = std::min(r.moves * r.tail[2 * i + 1] + (is_below ? 0.0 : r.stays), 1.0);
    }
}

void fill_tables(const TableRequest& r) {
    fill_tails(r);
    if (r.stays > 0.0) mix_with_staying(r);
    for (std::int32_t i = 0; i < r.n; ++i) {
        const double below = r.tail[2 * i], above = r.tail[2 * i + 1];
        const bool is_below = r.x < r.threshold[i];
        r.event[i] = is_below;
        r.crossing[2 * i] = is_below ? 0.0 : below;
        r.crossing[2 * i + 1] = is_below ? above : 0.0;
        r.shift[i] = is_below ? -above : below;
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
