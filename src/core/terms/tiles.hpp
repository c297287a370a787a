// Quadratic forms of components with more than two terms on numeric features: four by four terms at a time.
#pragma once

#include "terms/blocks.hpp"
#include "terms/form.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The factors of one term with four others. The first slot is left out where it is folded into the weights.
template <int kSlots, bool kFolded, bool kOutside>
PREDGAP_INLINE Four factors(const double* low, const double* high, std::int64_t stride, std::int64_t s,
                            const Four* low_of_four, const Four* high_of_four) {
    Four z;
    for (int j = kFolded; j < kSlots; ++j) {
        const Four a = min(four(low[j * stride + s]), low_of_four[j]);
        const Four b = min(four(high[j * stride + s]), high_of_four[j]);
        const Four both = kOutside && j == kSlots - 1 ? a + b : a * b;
        z = j == kFolded ? both : z * both;
    }
    return z;
}

// The factors of a tile on the diagonal: it counts half of a term with itself, and each pair once.
alignas(32) constexpr double kDiagonal[4][4] = {
    {0.5, 1, 1, 1}, {0, 0.5, 1, 1}, {0, 0, 0.5, 1}, {0, 0, 0, 0.5}};

PREDGAP_INLINE void gather_slot(const Form& f, const double* table, std::int32_t slot, std::int64_t to,
                                const TileTables& t) {
    const std::int64_t stride = f.c.stride, n = stride / 4;
    const auto* atom = f.atom + slot * stride;
    for (std::int64_t i = 0; i < n; ++i)
        look_up_pairs(table, atom + 4 * i, fours(t.low)[to * n + i], fours(t.high)[to * n + i]);
}

// Gathers the tables of the slots; that of the slot outside comes last.
template <int kSlots>
PREDGAP_INLINE void gather_slots(const Form& f, std::int32_t outside, const TileTables& t) {
    std::int32_t to = 0;
    for (std::int32_t j = 0; j < kSlots; ++j)
        if (j != outside) gather_slot(f, f.tables.tail.data(), j, to++, t);
    if (outside != kInside) gather_slot(f, f.tables.crossing.data(), outside, to, t);
}

// The tables of a component, gathered.
template <int kSlots>
struct GatheredTables : TileTables {
    std::int64_t stride, n;

    PREDGAP_INLINE GatheredTables(const Form& f, std::int32_t outside)
        : GatheredTables(f, outside, f.scratch) {}

private:
    PREDGAP_INLINE GatheredTables(const Form& f, std::int32_t outside, Arena memory)
        : TileTables(memory, kSlots, f.c.stride), stride(f.c.stride), n(stride / 4) {
        gather_slots<kSlots>(f, outside, *this);
    }
};

// The same with the weights, and with room for what is added up.
template <int kSlots>
struct Tiles : TileArrays {
    std::int64_t stride, n;

    PREDGAP_INLINE Tiles(const Form& f, std::int32_t outside, bool folded)
        : Tiles(f, outside, folded, f.scratch) {}

private:
    PREDGAP_INLINE Tiles(const Form& f, std::int32_t outside, bool folded, Arena memory)
        : TileArrays(memory, kSlots, f.c.stride, f.width), stride(f.c.stride), n(stride / 4) {
        gather_slots<kSlots>(f, outside, *this);
        for (std::int64_t k = 0; k < f.width; ++k)
            for (std::int64_t i = 0; i < stride; ++i)
                column[k * stride + i] = f.weight[k * f.n_weights + i] * (folded ? high[i] : 1.0);
    }
};

// The factors of four terms with four others; on the diagonal as kDiagonal says.
template <int kSlots, bool kFolded, bool kOutside>
PREDGAP_INLINE void tile(const Tiles<kSlots>& t, std::int64_t b, std::int64_t v, Four* z) {
    Four low[kSlots], high[kSlots];
    for (int j = kFolded; j < kSlots; ++j) {
        low[j] = *fours(t.low + j * t.stride + 4 * v);
        high[j] = *fours(t.high + j * t.stride + 4 * v);
    }
    for (int r = 0; r < 4; ++r)
        z[r] = factors<kSlots, kFolded, kOutside>(t.low, t.high, t.stride, 4 * b + r, low, high);
    if (v == b)
        for (int r = 0; r < 4; ++r) z[r] *= *fours(kDiagonal[r]);
}

// The form over pairs of terms in the same block, of so many tiles. Terms are sorted by their first atom, so
// for s before t that slot's factor is F_s S_t: it is folded into the weights, but where the first feature is
// the one outside.
template <int kSlots, bool kFolded, bool kOutside, bool kProduct>
double form_by_tiles(const Form& f, std::int32_t outside, std::int64_t block) {
    const Tiles<kSlots> t(f, outside, kFolded);
    Four total = four(0.0);
    if (kProduct)
        for (std::int64_t v = 0; v < t.n; ++v) fours(t.below)[v] = four(0.0);
    for (std::int64_t b = 0; b < t.n && !f.stopped(); ++b) {
        const double* weight = f.weight + 4 * b;
        const auto row = [&](int r) { return weight[r] * (kFolded ? t.low[4 * b + r] : 1.0); };
        const Four row0 = four(row(0)), row1 = four(row(1)), row2 = four(row(2)), row3 = four(row(3));
        Four own0 = four(0.0), own1 = own0, own2 = own0, own3 = own0;
        const auto end = std::min(t.n, (b / block + 1) * block);
        for (auto v = b; v < end; ++v) {
            Four low[kSlots], high[kSlots];
            for (int j = kFolded; j < kSlots; ++j) {
                low[j] = *fours(t.low + j * t.stride + 4 * v);
                high[j] = *fours(t.high + j * t.stride + 4 * v);
            }
            const auto at = [&](int r) {
                return factors<kSlots, kFolded, kOutside>(t.low, t.high, t.stride, 4 * b + r, low, high);
            };
            Four z0 = at(0), z1 = at(1), z2 = at(2), z3 = at(3);
            if (v == b) {
                z0 *= *fours(kDiagonal[0]);
                z1 *= *fours(kDiagonal[1]);
                z2 *= *fours(kDiagonal[2]);
                z3 *= *fours(kDiagonal[3]);
            }
            const Four column = fours(t.column)[v];
            own0 += z0 * column;
            own1 += z1 * column;
            own2 += z2 * column;
            own3 += z3 * column;
            if (kProduct) fours(t.below)[v] += (z0 * row0 + z1 * row1) + (z2 * row2 + z3 * row3);
        }
        total += (own0 * row0 + own1 * row1) + (own2 * row2 + own3 * row3);
        if (!kProduct) continue;
        const Four own[4] = {own0, own1, own2, own3};
        for (int r = 0; r < 4; ++r) f.product[4 * b + r] = sum(own[r]) * (kFolded ? t.low[4 * b + r] : 1.0);
    }
    if (kProduct)
        for (std::int64_t i = 0; i < t.stride; ++i) f.product[i] += t.below[i] * (kFolded ? t.high[i] : 1.0);
    return 2.0 * sum(total);
}

// The form over pairs in the same block, for several outputs: factors are computed once for all of them.
template <int kSlots, bool kFolded, bool kOutside, bool kProduct>
double wide_form_by_tiles(const Form& f, std::int32_t outside, std::int64_t block) {
    const Tiles<kSlots> t(f, outside, kFolded);
    const auto width = f.width;
    Four total = four(0.0);
    if (kProduct)
        for (std::int64_t i = 0; i < width * t.n; ++i) fours(t.below)[i] = four(0.0);
    for (std::int64_t b = 0; b < t.n && !f.stopped(); ++b) {
        const auto row = [&](std::int64_t k, int r) {
            return four(f.weight[k * f.n_weights + 4 * b + r] * (kFolded ? t.low[4 * b + r] : 1.0));
        };
        if (kProduct)
            for (std::int64_t i = 0; i < 4 * width; ++i) fours(t.sums)[i] = four(0.0);
        const auto end = std::min(t.n, (b / block + 1) * block);
        for (auto v = b; v < end; ++v) {
            Four z[4];
            tile<kSlots, kFolded, kOutside>(t, b, v, z);
            for (std::int64_t k = 0; k < width; ++k) {
                const Four column = fours(t.column)[k * t.n + v];
                Four with_rows = four(0.0);
                for (int r = 0; r < 4; ++r) {
                    with_rows += z[r] * row(k, r);
                    if (kProduct) fours(t.sums)[4 * k + r] += z[r] * column;
                }
                total += with_rows * column;
                if (kProduct) fours(t.below)[k * t.n + v] += with_rows;
            }
        }
        if (!kProduct) continue;
        for (std::int64_t k = 0; k < width; ++k)
            for (int r = 0; r < 4; ++r)
                f.product[k * f.n_weights + 4 * b + r] =
                    sum(fours(t.sums)[4 * k + r]) * (kFolded ? t.low[4 * b + r] : 1.0);
    }
    if (kProduct)
        for (std::int64_t k = 0; k < width; ++k)
            for (std::int64_t i = 0; i < t.stride; ++i)
                f.product[k * f.n_weights + i] += t.below[k * t.stride + i] * (kFolded ? t.high[i] : 1.0);
    return 2.0 * sum(total);
}

template <int kSlots, bool kFolded, bool kOutside, bool kProduct>
PREDGAP_INLINE double form_by_any_tiles(const Form& f, std::int32_t outside) {
    const auto block = block_of(f);
    const auto n_tiles = block / 4;
    double total = f.width == 1
                       ? form_by_tiles<kSlots, kFolded, kOutside, kProduct>(f, outside, n_tiles)
                       : wide_form_by_tiles<kSlots, kFolded, kOutside, kProduct>(f, outside, n_tiles);
    if constexpr (kSlots == 2 || kSlots == 3)
        if (block < f.c.n_terms) total += between_blocks<kSlots, kProduct>(f, outside, block);
    return total;
}

template <int kSlots, bool kProduct>
PREDGAP_INLINE double form_of_size(const Form& f, std::int32_t outside) {
    if (outside == kInside) return form_by_any_tiles<kSlots, true, false, kProduct>(f, outside);
    if (outside == 0) return form_by_any_tiles<kSlots, false, true, false>(f, outside);
    return form_by_any_tiles<kSlots, true, true, false>(f, outside);  // products are of complete components
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
