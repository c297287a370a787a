// Eight rows side by side: the one vector type of the kernels.
//
// Every row owns a lane and lanes never mix, so a row's arithmetic is the same scalar sequence in every
// instruction-set variant, for any number of threads and whatever its neighbours are.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __AVX__
#include <immintrin.h>
#endif

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

// As many lanes as one register holds: compilers take wider vectors apart into single numbers.
#if defined(__AVX512F__)
constexpr int kPart = 8;
#elif defined(__AVX__)
constexpr int kPart = 4;
#elif defined(__GNUC__) || defined(__clang__)
constexpr int kPart = 2;
#else
constexpr int kPart = 1;
#endif
#if defined(__GNUC__) || defined(__clang__)
typedef double Part __attribute__((vector_size(kPart * sizeof(double))));
typedef std::int64_t PartBits __attribute__((vector_size(kPart * sizeof(double))));
#else
using Part = double;
using PartBits = std::int64_t;
#endif
constexpr int kParts = kLanes / kPart;

struct alignas(64) Lanes {
    Part part[kParts];
    PREDGAP_INLINE double operator[](int i) const { return reinterpret_cast<const double*>(part)[i]; }
    PREDGAP_INLINE double& operator[](int i) { return reinterpret_cast<double*>(part)[i]; }
};

template <class Op>
PREDGAP_INLINE Lanes each(const Lanes& a, const Lanes& b, Op op) {
    Lanes r;
    for (int i = 0; i < kParts; ++i) r.part[i] = op(a.part[i], b.part[i]);
    return r;
}
PREDGAP_INLINE Lanes splat(double v) {
    Lanes r;
    for (auto& part : r.part) part = v - Part{};
    return r;
}
PREDGAP_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p + q; });
}
PREDGAP_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p - q; });
}
PREDGAP_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p * q; });
}
PREDGAP_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p / q; });
}
PREDGAP_INLINE Lanes& operator+=(Lanes& a, const Lanes& b) { return a = a + b; }
PREDGAP_INLINE Lanes& operator*=(Lanes& a, const Lanes& b) { return a = a * b; }
PREDGAP_INLINE Lanes min(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p < q ? p : q; });
}
PREDGAP_INLINE Lanes max(const Lanes& a, const Lanes& b) {
    return each(a, b, [](Part p, Part q) { return p > q ? p : q; });
}
// The leading 26 of the 53 significant bits: their square is exact.
PREDGAP_INLINE Lanes leading_bits(const Lanes& a) {
    return each(a, a, [](Part p, Part) {
        return std::bit_cast<Part>(std::bit_cast<PartBits>(p) & ~std::int64_t{0x7ffffff});
    });
}
// 2^n, where shifted = n + 1.5 * 2^52 holds n in its low bits.
PREDGAP_INLINE Lanes power_of_two(const Lanes& shifted) {
    return each(shifted, shifted,
                [](Part p, Part) { return std::bit_cast<Part>((std::bit_cast<PartBits>(p) + 1023) << 52); });
}
// a in the lanes where low < high, b elsewhere.
PREDGAP_INLINE Lanes where_less(const Lanes& low, const Lanes& high, const Lanes& a, const Lanes& b) {
    Lanes r;
    for (int i = 0; i < kParts; ++i) r.part[i] = low.part[i] < high.part[i] ? a.part[i] : b.part[i];
    return r;
}
// Lanes where a < b, as 1.0 and 0.0.
PREDGAP_INLINE Lanes is_less(const Lanes& a, const Lanes& b) {
    return where_less(a, b, splat(1.0), splat(0.0));
}
// a in the lanes where mask is 1.0, b where it is 0.0.
PREDGAP_INLINE Lanes select(const Lanes& mask, const Lanes& a, const Lanes& b) {
    return where_less(splat(0.0), mask, a, b);
}
// Does low < high hold in any lane?
PREDGAP_INLINE bool any_less(const Lanes& low, const Lanes& high) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask(low.part[0], high.part[0], _CMP_LT_OQ) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(low.part[0], high.part[0], _CMP_LT_OQ),
                                           _mm256_cmp_pd(low.part[1], high.part[1], _CMP_LT_OQ))) != 0;
#else
    bool any = false;
    for (int i = 0; i < kLanes; ++i) any = any || low[i] < high[i];
    return any;
#endif
}

PREDGAP_INLINE Lanes* lanes(double* p) { return reinterpret_cast<Lanes*>(p); }
PREDGAP_INLINE const Lanes* lanes(const double* p) { return reinterpret_cast<const Lanes*>(p); }

}  // namespace predgap::PREDGAP_ISA

#endif
