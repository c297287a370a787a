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

// Eight numbers from the first one on; past the last one, the last one again.
PREDGAP_INLINE Lanes eight(const double* from, std::int32_t first, std::int32_t n) {
    if (first + 8 <= n) return load<8>(from + first);
    Lanes found;
    for (int i = 0; i < 8; ++i) found[i] = from[std::min(first + i, n - 1)];
    return found;
}

// The least value of x plus the law's number at which x' >= threshold holds, for each threshold: infinite if
// it never holds, minus infinite if it always does.
PREDGAP_INLINE Lanes places(const TableRequest& r, const Lanes& threshold, std::int32_t first) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Lanes at = where_less(splat(r.low), threshold, eight(r.at, first, r.n), splat(-kInfinity));
    return where_less(splat(r.high), threshold, splat(kInfinity), at);
}

// The tails of eight thresholds, and what follows from them. With probability `stays` x' is x.
PREDGAP_INLINE void keep(const TableRequest& r, const Lanes& threshold, std::int32_t first, Lanes below,
                         Lanes above) {
    const Lanes x = splat(r.x), zero = splat(0.0), one = splat(1.0), stays = splat(r.stays);
    if (r.stays > 0.0) {
        below = min(splat(r.moves) * below + where_less(x, threshold, stays, zero), one);
        above = min(splat(r.moves) * above + where_less(x, threshold, zero, stays), one);
    }
    const Lanes low = where_less(x, threshold, zero, below), high = where_less(x, threshold, above, zero);
    const Lanes shift = low - high;
    const auto n = std::min(8, r.n - first);
    if (n == 8) {
        store_pairs(below, above, r.tail + 2 * first);
        store_pairs(low, high, r.crossing + 2 * first);
        store(shift, r.shift + first);
    }
    for (std::int32_t i = 0, at = first; i < n; ++i, ++at) {
        r.event[at] = r.x < r.threshold[at];
        if (n == 8) continue;
        r.tail[2 * at] = below[i];
        r.tail[2 * at + 1] = above[i];
        r.crossing[2 * at] = low[i];
        r.crossing[2 * at + 1] = high[i];
        r.shift[at] = shift[i];
    }
}

// Fills the tables by a law, eight thresholds at a time: their polynomials are long chains, and two registers
// of four take hardly longer than one. tails_of(thresholds, below, above) computes eight.
template <class TailsOf>
PREDGAP_INLINE void fill_from_law(const TableRequest& r, const TailsOf& tails_of) {
    const Lanes largest = splat(std::numeric_limits<double>::max()), zero = splat(0.0), one = splat(1.0);
    for (std::int32_t first = 0; first < r.n; first += 8) {
        const Lanes threshold = eight(r.threshold, first, r.n), at = places(r, threshold, first);
        const Lanes never = zero - at;
        Lanes below, above;
        tails_of(where_less(largest, max(at, never), splat(r.x), at), below, above);
        below = where_less(largest, at, one, where_less(largest, never, zero, below));
        above = where_less(largest, at, zero, where_less(largest, never, one, above));
        keep(r, threshold, first, below, above);
    }
}

// Fills the tables from given tails, two for each threshold.
PREDGAP_INLINE void fill_from_tails(const TableRequest& r, const double* tail) {
    for (std::int32_t first = 0; first < r.n; first += 8) {
        Lanes below, above;
        for (int i = 0; i < 8; ++i) {
            const auto at = std::min(first + i, r.n - 1);
            below[i] = tail[2 * at];
            above[i] = tail[2 * at + 1];
        }
        keep(r, eight(r.threshold, first, r.n), first, below, above);
    }
}

void fill_tables(const TableRequest& r) {
    const Lanes x = splat(r.x);
    switch (r.law) {  // without a default: a compiler warns of a law that is missing
        case Law::normal:
            return fill_from_law(r, [&](const Lanes& c, Lanes& below, Lanes& above) {
                normal_tails(standardised(c, x, r.parameter), below, above);
            });
        case Law::uniform:
            return fill_from_law(r, [&](const Lanes& c, Lanes& below, Lanes& above) {
                uniform_tails(c, x, r.parameter, below, above);
            });
        case Law::fixed: return fill_from_tails(r, r.fixed);
        case Law::table:     // they are given with the row
        case Law::still:     // it crosses no threshold
        case Law::category:  // it has none
            return fill_from_tails(r, r.tail);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
