// Both tails of the normal law, several at a time: branch-free, so that compilers vectorise the loop.
#pragma once

#include <bit>
#include <cstdint>

#include "lanes.hpp"

namespace predgap::PREDGAP_ISA {

// Q(a) = exp(-a^2/2) R(a), where R is smooth: (a + 4) R(a) is a polynomial in t = (a - 4) / (a + 4),
// interpolated at Chebyshev nodes for 0 <= a <= 40. Its error in double arithmetic is below 6e-16.
constexpr int kMillsDegree = 22;
constexpr double kMills[kMillsDegree + 1] = {
    0x1.82b4bb8c94dcep-1, -0x1.373e3a893c287p-1, 0x1.8c6dbf2cfc306p-2, -0x1.7dff2bff6887ep-3,
    0x1.eec4cc3e44934p-5, -0x1.ee276103553f4p-8, -0x1.c81719c9c6173p-9, 0x1.ab825f813220cp-10,
    0x1.17a4a6244ab27p-13, -0x1.e4a416c8b21ebp-13, -0x1.001100120093ap-19, 0x1.26cfa080da321p-15,
    0x1.7fd3586e1dc36p-21, -0x1.8d37df4ae41f3p-18, -0x1.4f8a115316eb1p-21, 0x1.11d2c4c75e533p-20,
    0x1.1afa2d60d4048p-22, -0x1.4c0b11aec08afp-23, -0x1.47e88e32b035ep-24, 0x1.fdfb0b3351b0dp-27,
    0x1.e03ad77f5e906p-27, -0x1.6539b554097c0p-37, -0x1.129ec47f6a0a6p-30};

constexpr double kMagic = 0x1.8p52;  // adding it leaves the nearest integer in the low bits

PREDGAP_INLINE double power_of_two(double shifted) {  // 2^n, where shifted = n + kMagic
    return std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
}

// exp(y + dy) for -800 <= y <= 0 and tiny dy; correct through the subnormal range.
PREDGAP_INLINE double exp_of_negative(double y, double dy) {
    const double n = (y * 0x1.71547652b82fep0 + kMagic) - kMagic;
    const double r = ((y - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33) + dy;
    double p = 1.0 / 6227020800.0;
    constexpr double kInverseFactorial[13] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
    for (int i = 0; i < 13; ++i) p = p * r + kInverseFactorial[i];
    const double half = (n * 0.5 + kMagic) - kMagic;  // two factors: 2^n itself may be subnormal
    return p * power_of_two(half + kMagic) * power_of_two((n - half) + kMagic);
}

// P(Z >= a) for a >= 0, with full relative accuracy out to the smallest doubles.
PREDGAP_INLINE double upper_tail(double a) {
    a = a < 39.0 ? a : 39.0;
    // a^2 rounded would cost a^2 ulps: square the leading bits exactly and correct.
    const double lead = std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & ~std::uint64_t{0x7ffffff});
    const double bell = exp_of_negative(-0.5 * (lead * lead), -0.5 * ((a - lead) * (a + lead)));
    const double inverse = 1.0 / (a + 4.0);
    const double t = (a - 4.0) * inverse;
    double p = kMills[kMillsDegree];
    for (int i = kMillsDegree - 1; i >= 0; --i) p = p * t + kMills[i];
    return bell * (p * inverse);
}

inline void normal_tails(const double* PREDGAP_RESTRICT z, double* PREDGAP_RESTRICT below,
                         double* PREDGAP_RESTRICT above, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const double tail = upper_tail(z[i] < 0.0 ? -z[i] : z[i]);
        const double rest = 1.0 - tail;
        below[i] = z[i] < 0.0 ? tail : rest;
        above[i] = z[i] < 0.0 ? rest : tail;
    }
}

}  // namespace predgap::PREDGAP_ISA
