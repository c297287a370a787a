// A few doubles side by side: the one vector type of the kernels, Pack<4> or Pack<8>.
//
// The number of lanes is part of the algorithm, not of the machine: every instruction-set variant adds up the
// same partial sums in the same order, so all of them give the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __AVX__
#include <immintrin.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PREDGAP_INLINE inline __attribute__((always_inline))
#else
#define PREDGAP_INLINE inline
#endif

#ifdef PREDGAP_ISA  // kernels are compiled once per instruction set; each copy has its own functions

namespace predgap::PREDGAP_ISA {

// The widest vector has as many lanes as one register holds: compilers take wider vectors apart into single
// numbers.
#if defined(__AVX512F__)
constexpr int kWidest = 8;
#elif defined(__AVX__)
constexpr int kWidest = 4;
#elif defined(__GNUC__) || defined(__clang__)
constexpr int kWidest = 2;
#else
constexpr int kWidest = 1;
#endif

template <int N>
struct Register {
#if defined(__GNUC__) || defined(__clang__)
    typedef double Part __attribute__((vector_size(N * sizeof(double))));
    typedef std::int64_t Bits __attribute__((vector_size(N * sizeof(double))));
#else
    using Part = double;
    using Bits = std::int64_t;
#endif
};

template <int N>
struct alignas(N * sizeof(double)) Pack {
    static constexpr int kPart = N < kWidest ? N : kWidest;
    static constexpr int kParts = N / kPart;
    using Part = typename Register<kPart>::Part;
    using Bits = typename Register<kPart>::Bits;
    Part part[kParts];

    PREDGAP_INLINE double operator[](int i) const { return reinterpret_cast<const double*>(part)[i]; }
    PREDGAP_INLINE double& operator[](int i) { return reinterpret_cast<double*>(part)[i]; }
};

using Lanes = Pack<8>;
using Four = Pack<4>;

template <int N, class Op>
PREDGAP_INLINE Pack<N> each(const Pack<N>& a, const Pack<N>& b, Op op) {
    Pack<N> r;
    for (int i = 0; i < Pack<N>::kParts; ++i) r.part[i] = op(a.part[i], b.part[i]);
    return r;
}
template <int N>
PREDGAP_INLINE Pack<N> splat_to(double v) {
    Pack<N> r;
    for (auto& part : r.part) part = v - typename Pack<N>::Part{};
    return r;
}
PREDGAP_INLINE Lanes splat(double v) { return splat_to<8>(v); }
PREDGAP_INLINE Four four(double v) { return splat_to<4>(v); }
// Loads numbers that need not be aligned.
template <int N>
PREDGAP_INLINE Pack<N> load(const double* p) {
    Pack<N> r;
    std::memcpy(r.part, p, sizeof(r.part));
    return r;
}
template <int N>
PREDGAP_INLINE void store(const Pack<N>& a, double* p) {
    std::memcpy(p, a.part, sizeof(a.part));
}

template <int N>
PREDGAP_INLINE Pack<N> operator+(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p + q; });
}
template <int N>
PREDGAP_INLINE Pack<N> operator-(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p - q; });
}
template <int N>
PREDGAP_INLINE Pack<N> operator*(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p * q; });
}
template <int N>
PREDGAP_INLINE Pack<N> operator/(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p / q; });
}
template <int N>
PREDGAP_INLINE Pack<N>& operator+=(Pack<N>& a, const Pack<N>& b) {
    return a = a + b;
}
template <int N>
PREDGAP_INLINE Pack<N>& operator*=(Pack<N>& a, const Pack<N>& b) {
    return a = a * b;
}
template <int N>
PREDGAP_INLINE Pack<N> min(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p < q ? p : q; });
}
template <int N>
PREDGAP_INLINE Pack<N> max(const Pack<N>& a, const Pack<N>& b) {
    return each(a, b, [](auto p, auto q) { return p > q ? p : q; });
}
// The leading 26 of the 53 significant bits: their square is exact.
template <int N>
PREDGAP_INLINE Pack<N> leading_bits(const Pack<N>& a) {
    using Bits = typename Pack<N>::Bits;
    using Part = typename Pack<N>::Part;
    return each(a, a, [](auto p, auto) {
        return std::bit_cast<Part>(std::bit_cast<Bits>(p) & ~std::int64_t{0x7ffffff});
    });
}
// 2^n, where shifted = n + 1.5 * 2^52 holds n in its low bits.
template <int N>
PREDGAP_INLINE Pack<N> power_of_two(const Pack<N>& shifted) {
    using Bits = typename Pack<N>::Bits;
    using Part = typename Pack<N>::Part;
    return each(shifted, shifted,
                [](auto p, auto) { return std::bit_cast<Part>((std::bit_cast<Bits>(p) + 1023) << 52); });
}
// Takes a in the lanes where low < high, and b elsewhere.
template <int N>
PREDGAP_INLINE Pack<N> where_less(const Pack<N>& low, const Pack<N>& high, const Pack<N>& a,
                                  const Pack<N>& b) {
    Pack<N> r;
    for (int i = 0; i < Pack<N>::kParts; ++i) r.part[i] = low.part[i] < high.part[i] ? a.part[i] : b.part[i];
    return r;
}
// True if low < high holds in any lane.
PREDGAP_INLINE bool any_less(const Lanes& low, const Lanes& high) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask(low.part[0], high.part[0], _CMP_LT_OQ) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(low.part[0], high.part[0], _CMP_LT_OQ),
                                           _mm256_cmp_pd(low.part[1], high.part[1], _CMP_LT_OQ))) != 0;
#else
    bool any = false;
    for (int i = 0; i < 8; ++i) any = any || low[i] < high[i];
    return any;
#endif
}
// Loads the numbers at four places of a table.
PREDGAP_INLINE Four look_up(const double* table, const std::int32_t* place) {
#if defined(__AVX__)
    Four r;
    r.part[0] = _mm256_setr_pd(table[place[0]], table[place[1]], table[place[2]], table[place[3]]);
    return r;
#else
    Four r;
    for (int i = 0; i < 4; ++i) r[i] = table[place[i]];
    return r;
#endif
}
// Loads the pairs at four places of a table: their first and their second numbers.
PREDGAP_INLINE void look_up_pairs(const double* table, const std::int32_t* place, Four& first, Four& second) {
#if defined(__AVX__)
    const auto two = [&](int i) {
        return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(table + 2 * place[i])),
                                    _mm_loadu_pd(table + 2 * place[i + 2]), 1);
    };
    const __m256d even = two(0), odd = two(1);
    first.part[0] = _mm256_unpacklo_pd(even, odd);
    second.part[0] = _mm256_unpackhi_pd(even, odd);
#else
    for (int i = 0; i < 4; ++i) {
        first[i] = table[2 * place[i]];
        second[i] = table[2 * place[i] + 1];
    }
#endif
}
// Writes eight pairs, one after the other: the other way round.
PREDGAP_INLINE void store_pairs(const Lanes& first, const Lanes& second, double* p) {
#if defined(__AVX512F__)
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                  high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_pd(p, _mm512_permutex2var_pd(first.part[0], low, second.part[0]));
    _mm512_storeu_pd(p + 8, _mm512_permutex2var_pd(first.part[0], high, second.part[0]));
#elif defined(__AVX__)
    for (int i = 0; i < 2; ++i) {
        const __m256d even = _mm256_unpacklo_pd(first.part[i], second.part[i]),
                      odd = _mm256_unpackhi_pd(first.part[i], second.part[i]);
        _mm256_storeu_pd(p + 8 * i, _mm256_permute2f128_pd(even, odd, 0x20));
        _mm256_storeu_pd(p + 8 * i + 4, _mm256_permute2f128_pd(even, odd, 0x31));
    }
#else
    for (int i = 0; i < 8; ++i) {
        p[2 * i] = first[i];
        p[2 * i + 1] = second[i];
    }
#endif
}
// Transposes four rows of four numbers: rows become columns.
PREDGAP_INLINE void transpose(Four* row) {
#if defined(__AVX__)
    const __m256d low01 = _mm256_unpacklo_pd(row[0].part[0], row[1].part[0]),
                  high01 = _mm256_unpackhi_pd(row[0].part[0], row[1].part[0]),
                  low23 = _mm256_unpacklo_pd(row[2].part[0], row[3].part[0]),
                  high23 = _mm256_unpackhi_pd(row[2].part[0], row[3].part[0]);
    row[0].part[0] = _mm256_permute2f128_pd(low01, low23, 0x20);
    row[1].part[0] = _mm256_permute2f128_pd(high01, high23, 0x20);
    row[2].part[0] = _mm256_permute2f128_pd(low01, low23, 0x31);
    row[3].part[0] = _mm256_permute2f128_pd(high01, high23, 0x31);
#else
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < i; ++j) {
            const double kept = row[i][j];
            row[i][j] = row[j][i];
            row[j][i] = kept;
        }
#endif
}
PREDGAP_INLINE double sum(const Four& a) { return (a[0] + a[2]) + (a[1] + a[3]); }

PREDGAP_INLINE Lanes* lanes(double* p) { return reinterpret_cast<Lanes*>(p); }
PREDGAP_INLINE const Lanes* lanes(const double* p) { return reinterpret_cast<const Lanes*>(p); }
PREDGAP_INLINE Four* fours(double* p) { return reinterpret_cast<Four*>(p); }
PREDGAP_INLINE const Four* fours(const double* p) { return reinterpret_cast<const Four*>(p); }

}  // namespace predgap::PREDGAP_ISA

#endif
