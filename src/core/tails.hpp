// Both tails of the normal law, eight at a time and without branches.
#pragma once

#include "lanes.hpp"

namespace predgap::PREDGAP_ISA {

// Q(a) = exp(-a^2/2) R(a), where R is smooth: (a + 4) R(a) is a polynomial in t = (a - 4) / (a + 4),
// interpolated at Chebyshev nodes for 0 <= a <= 40. Its error in double arithmetic is below 6e-16.
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
PREDGAP_INLINE Lanes exp_of_negative(const Lanes& y, const Lanes& dy) {
    constexpr double kInverseFactorial[13] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
    const Lanes magic = splat(kMagic);
    const Lanes n = (y * splat(0x1.71547652b82fep0) + magic) - magic;
    const Lanes r = ((y - n * splat(0x1.62e42feep-1)) - n * splat(0x1.a39ef35793c76p-33)) + dy;
    Lanes p = splat(1.0 / 6227020800.0);
    for (const double c : kInverseFactorial) p = p * r + splat(c);
    const Lanes half = (n * splat(0.5) + magic) - magic;  // two factors: 2^n itself may be subnormal
    return p * power_of_two(half + magic) * power_of_two((n - half) + magic);
}

// P(Z >= a) for a >= 0, with full relative accuracy out to the smallest doubles.
PREDGAP_INLINE Lanes upper_tail(const Lanes& distance) {
    const Lanes a = min(distance, splat(39.0));
    // a^2 rounded would cost a^2 ulps: square the leading bits exactly and correct.
    const Lanes lead = leading_bits(a);
    const Lanes bell = exp_of_negative(splat(-0.5) * (lead * lead), splat(-0.5) * ((a - lead) * (a + lead)));
    const Lanes inverse = splat(1.0) / (a + splat(4.0));
    const Lanes t = (a - splat(4.0)) * inverse;
    Lanes p = splat(kMills[kMillsDegree]);
    for (int i = kMillsDegree - 1; i >= 0; --i) p = p * t + splat(kMills[i]);
    return bell * (p * inverse);
}

// P(Z < z) and P(Z >= z): the smaller is computed, the larger is 1 minus it.
PREDGAP_INLINE void normal_tails(const Lanes& z, Lanes& below, Lanes& above) {
    const Lanes negative = is_less(z, splat(0.0)), one = splat(1.0);
    const Lanes tail = upper_tail(select(negative, splat(0.0) - z, z));
    below = select(negative, tail, one - tail);
    above = select(negative, one - tail, tail);
}

}  // namespace predgap::PREDGAP_ISA
