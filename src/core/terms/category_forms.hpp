// Quadratic forms with categories, over pairs of terms.
#pragma once

#include <algorithm>
#include <utility>

#include "terms/pair_forms.hpp"
#include "terms/tiles.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The arrays of a component's terms, in scratch.
class SetTiles {
public:
    static constexpr std::int32_t kMostSlots = 8;

    SetTiles(const Form& f, std::int32_t outside) : stride_(f.c.stride) {
        double* at = f.scratch;
        const auto take = [&](std::int64_t n) { return std::exchange(at, at + n); };
        weight = take(f.width * stride_);
        below = take(f.width * stride_);
        for (std::int64_t k = 0; k < f.width; ++k)
            std::copy_n(f.weight + k * f.n_weights, stride_, weight + k * stride_);
        for (std::int32_t j = 0; j < f.c.size; ++j) {
            const auto* atom = f.atom + j * stride_;
            if (atom[0] >= f.tables.model().n_thresholds()) {
                auto& own = sets_[n_sets_++] = set_slot(f, j, j == outside);
                own.column = reinterpret_cast<std::int64_t*>(take(stride_));
                for (std::int64_t i = 0; i < stride_; ++i) own.column[i] = f.sets.column(atom[i] - own.first);
                continue;
            }
            if (j == outside) summed_ = n_numeric_;
            const double* table = (j == outside ? f.tables.crossing : f.tables.tail).data();
            double *low = low_[n_numeric_] = take(stride_), *high = high_[n_numeric_] = take(stride_);
            for (std::int64_t i = 0; i < stride_; ++i) {
                low[i] = table[2 * atom[i]];
                high[i] = table[2 * atom[i] + 1];
            }
            ++n_numeric_;
        }
    }

    // The factors of a term with those from the four of its own on: visit(four terms, factors).
    template <class Visit>
    PREDGAP_INLINE void each_four(std::int64_t s, Visit visit) const {
        Four low[kMostSlots], high[kMostSlots];
        const double* row[kMostSlots];
        for (std::int32_t j = 0; j < n_numeric_; ++j) {
            low[j] = four(low_[j][s]);
            high[j] = four(high_[j][s]);
        }
        for (std::int32_t j = 0; j < n_sets_; ++j) row[j] = sets_[j].row(s);
        for (auto v = s / 4; v < stride_ / 4; ++v) {
            Four z = v == s / 4 ? *fours(kDiagonal[s % 4]) : four(1.0);
            for (std::int32_t j = 0; j < n_numeric_; ++j) {
                const Four a = min(low[j], fours(low_[j])[v]), b = min(high[j], fours(high_[j])[v]);
                z *= j == summed_ ? a + b : a * b;
            }
            for (std::int32_t j = 0; j < n_sets_; ++j) {
                const auto* at = sets_[j].column + 4 * v;
                Four of_sets;
                for (int i = 0; i < 4; ++i) of_sets[i] = row[j][at[i]];
                z *= of_sets;
            }
            visit(v, z);
        }
    }

    double *weight, *below;  // (width, stride) below: of products, what comes from the terms before

private:
    std::int64_t stride_;
    std::int32_t n_numeric_ = 0, n_sets_ = 0, summed_ = -1;  // summed: the number that is outside
    double *low_[kMostSlots], *high_[kMostSlots];            // (stride)
    SetSlot sets_[kMostSlots];
};

// Like tiles, with the factors of categorical slots looked up.
template <bool kProduct>
double form_with_sets(const Form& f, std::int32_t outside) {
    if (f.c.size > SetTiles::kMostSlots || f.c.stride % 4 || !are_filled(f))
        return form_by_pairs<kProduct>(f, outside);
    const std::int64_t stride = f.c.stride, n_tiles = stride / 4;
    const SetTiles tiles(f, outside);
    if (kProduct)
        for (std::int64_t i = 0; i < f.width * n_tiles; ++i) fours(tiles.below)[i] = four(0.0);
    Four total = four(0.0);
    for (std::int64_t s = 0; s < f.c.n_terms && !f.stopped(); ++s) {
        if (f.width == 1) {
            const Four row = four(tiles.weight[s]);
            Four own = four(0.0);
            tiles.each_four(s, [&](std::int64_t v, const Four& z) {
                own += z * fours(tiles.weight)[v];
                if (kProduct) fours(tiles.below)[v] += z * row;
            });
            total += own * row;
            if (kProduct) f.product[s] = sum(own);
            continue;
        }
        for (std::int64_t k = 0; kProduct && k < f.width; ++k) f.product[k * f.n_weights + s] = 0.0;
        tiles.each_four(s, [&](std::int64_t v, const Four& z) {
            for (std::int64_t k = 0; k < f.width; ++k) {
                const Four with = z * fours(tiles.weight)[k * n_tiles + v],
                           row = four(tiles.weight[k * stride + s]);
                total += with * row;
                if (!kProduct) continue;
                f.product[k * f.n_weights + s] += sum(with);
                fours(tiles.below)[k * n_tiles + v] += z * row;
            }
        });
    }
    for (std::int64_t k = 0; kProduct && k < f.width; ++k)
        for (std::int64_t i = 0; i < f.c.n_terms; ++i)
            f.product[k * f.n_weights + i] += tiles.below[k * stride + i];
    return 2.0 * sum(total);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
