// Both tails of the normal law and of the uniform one, several at a time and without branches.
#pragma once

#include "simd/lanes.hpp"

namespace predgap::PREDGAP_ISA {

// Q(a) = exp(-a^2/2) R(a), where R is smooth: (a + 4) R(a) is a polynomial in t = (a - 4) / (a + 4),
// interpolated at Chebyshev nodes for 0 <= a <= 40. Its error in double arithmetic is below 8e-16.
constexpr int kMillsDegree = 22;
constexpr double kMills[kMillsDegree + 1] = {
    0x1.82b4bb8c94dcep-1,  -0x1.373e3a893c287p-1,  0x1.8c6dbf2cfc306p-2,   -0x1.7dff2bff6887ep-3,
    0x1.eec4cc3e44934p-5,  -0x1.ee276103553f4p-8,  -0x1.c81719c9c6173p-9,  0x1.ab825f813220cp-10,
    0x1.17a4a6244ab27p-13, -0x1.e4a416c8b21ebp-13, -0x1.001100120093ap-19, 0x1.26cfa080da321p-15,
    0x1.7fd3586e1dc36p-21, -0x1.8d37df4ae41f3p-18, -0x1.4f8a115316eb1p-21, 0x1.11d2c4c75e533p-20,
    0x1.1afa2d60d4048p-22, -0x1.4c0b11aec08afp-23, -0x1.47e88e32b035ep-24, 0x1.fdfb0b3351b0dp-27,
    0x1.e03ad77f5e906p-27, -0x1.6539b554097c0p-37, -0x1.129ec47f6a0a6p-30};

constexpr double kMagic = 0x1.8p52;  // adding it leaves the nearest integer in the low bits

// exp(y + dy) for -800 <= y <= 0 and tiny dy; correct through the subnormal range.
template <int N>
PREDGAP_INLINE Pack<N> exp_of_negative(const Pack<N>& y, const Pack<N>& dy) {
    constexpr double kInverseFactorial[13] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
    const Pack<N> magic = splat_to<N>(kMagic);
    const Pack<N> n = (y * splat_to<N>(0x1.71547652b82fep0) + magic) - magic;
    const Pack<N> r = ((y - n * splat_to<N>(0x1.62e42feep-1)) - n * splat_to<N>(0x1.a39ef35793c76p-33)) + dy;
    Pack<N> p = splat_to<N>(1.0 / 6227020800.0);
    for (const double c : kInverseFactorial) p = p * r + splat_to<N>(c);
    const Pack<N> half = (n * splat_to<N>(0.5) + magic) - magic;  // two factors: 2^n itself may be subnormal
    return p * power_of_two(half + magic) * power_of_two((n - half) + magic);
}

// P(Z >= a) for a >= 0, with full relative accuracy out to the smallest doubles.
template <int N>
PREDGAP_INLINE Pack<N> upper_tail(const Pack<N>& distance) {
    const Pack<N> a = min(distance, splat_to<N>(39.0));
    // a^2 rounded would cost a^2 ulps: square the leading bits exactly and correct.
    const Pack<N> lead = leading_bits(a);
    const Pack<N> bell =
        exp_of_negative(splat_to<N>(-0.5) * (lead * lead), splat_to<N>(-0.5) * ((a - lead) * (a + lead)));
    const Pack<N> inverse = splat_to<N>(1.0) / (a + splat_to<N>(4.0));
    const Pack<N> t = (a - splat_to<N>(4.0)) * inverse, square = t * t;
    // Even and odd powers apart: two chains half as long.
    Pack<N> even = splat_to<N>(kMills[kMillsDegree]), odd = splat_to<N>(kMills[kMillsDegree - 1]);
    for (int i = kMillsDegree - 2; i > 0; i -= 2) {
        even = even * square + splat_to<N>(kMills[i]);
        odd = odd * square + splat_to<N>(kMills[i - 1]);
    }
    even = even * square + splat_to<N>(kMills[0]);
    return bell * ((odd * t + even) * inverse);
}

// P(Z < z) and P(Z >= z): the smaller is computed, the larger is 1 minus it.
template <int N>
PREDGAP_INLINE void normal_tails(const Pack<N>& z, Pack<N>& below, Pack<N>& above) {
    const Pack<N> zero = splat_to<N>(0.0), one = splat_to<N>(1.0);
    const Pack<N> tail = upper_tail(where_less(z, zero, zero - z, z));
    below = where_less(z, zero, tail, one - tail);
    above = where_less(z, zero, one - tail, tail);
}

// (c - x) / scale, also where c - x is beyond the largest double.
PREDGAP_INLINE Lanes standardised(const Lanes& c, const Lanes& x, double scale) {
    const Lanes half = splat(0.5), largest = splat(0x1.fffffffffffffp1023);
    const Lanes difference = c - x, size = max(difference, x - c), found = difference / splat(scale);
    if (!any_less(largest, size)) return found;
    return where_less(largest, size, (c * half - x * half) / splat(0.5 * scale), found);
}

template <int N>
PREDGAP_INLINE void uniform_tails(const Pack<N>& c, const Pack<N>& x, double half_width, Pack<N>& below,
                                  Pack<N>& above) {
    const Pack<N> zero = splat_to<N>(0.0), one = splat_to<N>(1.0), half = splat_to<N>(0.5);
    // Near the edge of the support half_width - |c - x| cancels: put back what rounding c - x lost. Halves
    // do not overflow, and the support has no edge where they would be subnormal and rounded.
    const Pack<N> scale =
        where_less(splat_to<N>(0x1p1000), max(max(c, zero - c), max(x, zero - x)), half, one);
    const Pack<N> to = c * scale, from = x * scale;
    const Pack<N> width = max(splat_to<N>(half_width) * scale, splat_to<N>(0x1p-1074));
    const Pack<N> delta = to - from, virtual_from = to - delta;
    const Pack<N> lost = (to - (delta + virtual_from)) + (virtual_from - from);
    const Pack<N> distance = where_less(from, to, delta, zero - delta);
    const Pack<N> lost_away = where_less(from, to, lost, zero - lost);
    const Pack<N> tail = max((width - distance) - lost_away, zero) / width * half;
    below = where_less(to, from, tail, one - tail);
    above = where_less(to, from, one - tail, tail);
}

}  // namespace predgap::PREDGAP_ISA
