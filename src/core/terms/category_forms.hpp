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

    SetTiles(const Form& f, std::int32_t outside, double* at) : stride_(f.c.stride) {
        const auto take = [&](std::int64_t n) { return std::exchange(at, at + n); };
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
    double *weight = f.scratch, *below = weight + f.width * stride;  // below: what comes from terms before
    const SetTiles tiles(f, outside, below + f.width * stride);
    for (std::int64_t k = 0; k < f.width; ++k)
        std::copy_n(f.weight + k * f.n_weights, stride, weight + k * stride);
    if (kProduct)
        for (std::int64_t i = 0; i < f.width * n_tiles; ++i) fours(below)[i] = four(0.0);
    Four total = four(0.0);
    for (std::int64_t s = 0; s < f.c.n_terms && !f.stopped(); ++s) {
        if (f.width == 1) {
            const Four row = four(weight[s]);
            Four own = four(0.0);
            tiles.each_four(s, [&](std::int64_t v, const Four& z) {
                own += z * fours(weight)[v];
                if (kProduct) fours(below)[v] += z * row;
            });
            total += own * row;
            if (kProduct) f.product[s] = sum(own);
            continue;
        }
        for (std::int64_t k = 0; kProduct && k < f.width; ++k) f.product[k * f.n_weights + s] = 0.0;
        tiles.each_four(s, [&](std::int64_t v, const Four& z) {
            for (std::int64_t k = 0; k < f.width; ++k) {
                const Four with = z * fours(weight)[k * n_tiles + v], row = four(weight[k * stride + s]);
                total += with * row;
                if (!kProduct) continue;
                f.product[k * f.n_weights + s] += sum(with);
                fours(below)[k * n_tiles + v] += z * row;
            }
        });
    }
    for (std::int64_t k = 0; kProduct && k < f.width; ++k)
        for (std::int64_t i = 0; i < f.c.n_terms; ++i)
            f.product[k * f.n_weights + i] += below[k * stride + i];
    return 2.0 * sum(total);
}

// Can the forms of several versions of its weights share their factors?
PREDGAP_INLINE bool shares_set_factors(const Form& f) {
    return !f.grid && f.c.size <= SetTiles::kMostSlots && f.c.n_terms > 2 && are_filled(f);
}

// The forms of several versions of the weights, (width, n_weights), each factor computed once.
void set_forms_of_versions(const Form& f, double* found) {
    constexpr std::int64_t kMost = Versions::kMost;
    const SetTiles tiles(f, kInside, f.scratch);
    Four total[kMost];
    for (auto& of_version : total) of_version = four(0.0);
    for (std::int64_t s = 0; s < f.c.n_terms && !f.stopped(); ++s) {
        Four own[kMost];
        for (auto& of_version : own) of_version = four(0.0);
        tiles.each_four(s, [&](std::int64_t v, const Four& z) {
            for (std::int64_t k = 0; k < f.width; ++k) own[k] += z * fours(f.weight + k * f.n_weights)[v];
        });
        for (std::int64_t k = 0; k < f.width; ++k) total[k] += own[k] * four(f.weight[k * f.n_weights + s]);
    }
    for (std::int64_t k = 0; k < f.width; ++k) found[k] = 2.0 * sum(total[k]);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
