// Tables of the thresholds of one feature: tails, and what follows from them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "noise/tails.hpp"
#include "simd/kernels.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

void normal_tails_of_four(const double* z, double* below, double* above) {
    normal_tails(*fours(z), *fours(below), *fours(above));
}

// Where x' >= threshold i begins, for x plus the law's number; infinite if never or always.
PREDGAP_INLINE double place(const TableRequest& r, std::int32_t i) {
    if (r.threshold[i] > r.high) return std::numeric_limits<double>::infinity();
    return r.threshold[i] <= r.low ? -std::numeric_limits<double>::infinity() : r.at[i];
}

// Tails of all thresholds, four at a time; tails_of(thresholds, below, above) computes four.
template <class TailsOf>
PREDGAP_INLINE void fill_tails(const TableRequest& r, const TailsOf& tails_of) {
    for (std::int32_t first = 0; first < r.n; first += 4) {
        Four c, below, above;
        for (int i = 0; i < 4; ++i) {
            const double at = place(r, std::min(first + i, r.n - 1));
            c[i] = std::isinf(at) ? r.x : at;
        }
        tails_of(c, below, above);
        for (int i = 0; i < 4 && first + i < r.n; ++i) {
            const double at = place(r, first + i);
            r.tail[2 * (first + i)] = std::isinf(at) ? at > 0 : below[i];
            r.tail[2 * (first + i) + 1] = std::isinf(at) ? at < 0 : above[i];
        }
    }
}

PREDGAP_INLINE void fill_tails(const TableRequest& r) {
    const Four x = four(r.x);
    switch (r.law) {  // without a default: a compiler warns of a law that is missing
        case Law::normal:
            return fill_tails(r, [&](const Four& c, Four& below, Four& above) {
                normal_tails(standardised(c, x, r.parameter), below, above);
            });
        case Law::uniform:
            return fill_tails(r, [&](const Four& c, Four& below, Four& above) {
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
