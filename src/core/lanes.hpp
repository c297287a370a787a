// Eight rows side by side: the one vector type of the kernels.
//
// Every row owns a lane and lanes never mix, so a row's arithmetic is the same scalar sequence in every
// instruction-set variant, for any number of threads and whatever its neighbours are.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__GNUC__) || defined(__clang__)
#define PREDGAP_INLINE inline __attribute__((always_inline))
#else
#define PREDGAP_INLINE inline
#endif

namespace predgap {

constexpr int kLanes = 8;
using LaneBits = std::uint8_t;  // one bit per lane
constexpr LaneBits kAllLanes = 0xff;

}  // namespace predgap

#ifdef PREDGAP_ISA  // kernels are compiled once per instruction set; each copy has its own functions

namespace predgap::PREDGAP_ISA {

#if defined(__GNUC__) || defined(__clang__)

typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

PREDGAP_INLINE Lanes splat(double v) { return Lanes{v, v, v, v, v, v, v, v}; }
// The leading 26 of the 53 significant bits: their square is exact.
PREDGAP_INLINE Lanes leading_bits(const Lanes& a) {
    typedef std::int64_t Bits __attribute__((vector_size(kLanes * sizeof(double))));
    return (Lanes)((Bits)a & ~std::int64_t{0x7ffffff});
}
// 2^n, where shifted = n + 1.5 * 2^52 holds n in its low bits.
PREDGAP_INLINE Lanes power_of_two(const Lanes& shifted) {
    typedef std::int64_t Bits __attribute__((vector_size(kLanes * sizeof(double))));
    return (Lanes)(((Bits)shifted + 1023) << 52);
}
PREDGAP_INLINE Lanes min(const Lanes& a, const Lanes& b) { return a < b ? a : b; }
PREDGAP_INLINE Lanes max(const Lanes& a, const Lanes& b) { return a > b ? a : b; }
// Lanes where the condition holds, as 1.0 and 0.0.
PREDGAP_INLINE Lanes is_less(const Lanes& a, const Lanes& b) { return a < b ? splat(1.0) : splat(0.0); }
// a in the lanes where mask is 1.0, b where it is 0.0.
PREDGAP_INLINE Lanes select(const Lanes& mask, const Lanes& a, const Lanes& b) {
    return mask != splat(0.0) ? a : b;
}

#else

struct alignas(64) Lanes {
    double v[kLanes];
    double& operator[](int i) { return v[i]; }
    double operator[](int i) const { return v[i]; }
};

template <class Op>
PREDGAP_INLINE Lanes each(const Lanes& a, const Lanes& b, Op op) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = op(a.v[i], b.v[i]);
    return r;
}
PREDGAP_INLINE Lanes splat(double v) { return Lanes{{v, v, v, v, v, v, v, v}}; }
PREDGAP_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p + q; });
}
PREDGAP_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p - q; });
}
PREDGAP_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p * q; });
}
PREDGAP_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p / q; });
}
PREDGAP_INLINE Lanes leading_bits(const Lanes& a) {
    return each(a, a, [](double p, double) {
        return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) & ~std::uint64_t{0x7ffffff});
    });
}
PREDGAP_INLINE Lanes power_of_two(const Lanes& shifted) {
    return each(shifted, shifted, [](double p, double) {
        return std::bit_cast<double>((std::bit_cast<std::uint64_t>(p) + 1023) << 52);
    });
}
PREDGAP_INLINE Lanes& operator+=(Lanes& a, const Lanes& b) { return a = a + b; }
PREDGAP_INLINE Lanes& operator*=(Lanes& a, const Lanes& b) { return a = a * b; }
PREDGAP_INLINE Lanes min(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p < q ? p : q; });
}
PREDGAP_INLINE Lanes max(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p > q ? p : q; });
}
PREDGAP_INLINE Lanes is_less(const Lanes& a, const Lanes& b) {
    return each(a, b, [](double p, double q) { return p < q ? 1.0 : 0.0; });
}
PREDGAP_INLINE Lanes select(const Lanes& mask, const Lanes& a, const Lanes& b) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = mask.v[i] != 0.0 ? a.v[i] : b.v[i];
    return r;
}

#endif

PREDGAP_INLINE Lanes* lanes(double* p) { return reinterpret_cast<Lanes*>(p); }
PREDGAP_INLINE const Lanes* lanes(const double* p) { return reinterpret_cast<const Lanes*>(p); }

}  // namespace predgap::PREDGAP_ISA

#endif
