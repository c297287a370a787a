// Quadratic forms with categories: among other features, and alone.
#pragma once

#include "terms/pair_forms.hpp"
#include "terms/tiles.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Like tiles, with the factors of categorical slots looked up.
template <bool kProduct>
double form_with_sets(const Form& f, std::int32_t outside) {
    constexpr std::int32_t kMostSlots = 8;
    if (f.c.size > kMostSlots || f.c.stride % 4) return form_by_pairs<kProduct>(f, outside);
    const std::int64_t stride = f.c.stride, n_tiles = stride / 4;
    std::int32_t n_numeric = 0, n_sets = 0, summed = -1;  // summed: the numeric slot that is outside
    for (std::int32_t j = 0; j < f.c.size; ++j)
        n_numeric += f.atom[j * stride] < f.tables.model().n_thresholds();
    double *low = f.scratch, *high = low + n_numeric * stride, *below = high + n_numeric * stride;
    double* at = below + f.width * stride;  // a stride for each categorical slot
    n_numeric = 0;
    SetSlot sets[kMostSlots];
    for (std::int32_t j = 0; j < f.c.size; ++j) {
        const auto* atom = f.atom + j * stride;
        if (atom[0] >= f.tables.model().n_thresholds()) {
            auto& own = sets[n_sets++] = set_slot(f, j, j == outside);
            if (!own.is_filled()) return form_by_pairs<kProduct>(f, outside);
            own.column = at;
            at += stride;
            for (std::int64_t i = 0; i < stride; ++i)
                reinterpret_cast<std::int64_t*>(own.column)[i] = f.sets.column(atom[i] - own.first);
            continue;
        }
        if (j == outside) summed = n_numeric;
        const double* table = (j == outside ? f.tables.crossing : f.tables.tail).data();
        for (std::int64_t i = 0; i < stride; ++i) {
            low[n_numeric * stride + i] = table[2 * atom[i]];
            high[n_numeric * stride + i] = table[2 * atom[i] + 1];
        }
        ++n_numeric;
    }
    if (kProduct)
        for (std::int64_t i = 0; i < f.width * n_tiles; ++i) fours(below)[i] = four(0.0);
    Four total = four(0.0);
    for (std::int64_t s = 0; s < f.c.n_terms; ++s) {
        for (std::int64_t k = 0; kProduct && k < f.width; ++k) f.product[k * f.n_weights + s] = 0.0;
        for (auto v = s / 4; v < n_tiles; ++v) {
            Four z = v == s / 4 ? *fours(kDiagonal[s % 4]) : four(1.0);
            for (std::int32_t j = 0; j < n_numeric; ++j) {
                const Four a = min(four(low[j * stride + s]), *fours(low + j * stride + 4 * v));
                const Four b = min(four(high[j * stride + s]), *fours(high + j * stride + 4 * v));
                z *= j == summed ? a + b : a * b;
            }
            for (std::int32_t j = 0; j < n_sets; ++j) z *= sets[j].of_four(s, 4 * v);
            for (std::int64_t k = 0; k < f.width; ++k) {
                const double* w = f.weight + k * f.n_weights;
                Four column;
                for (int i = 0; i < 4; ++i) column[i] = w[4 * v + i];
                const Four with_column = z * column, row = four(w[s]);
                total += with_column * row;
                if (!kProduct) continue;
                f.product[k * f.n_weights + s] += sum(with_column);
                fours(below)[k * n_tiles + v] += z * row;
            }
        }
    }
    if (kProduct)
        for (std::int64_t k = 0; k < f.width; ++k)
            for (std::int64_t i = 0; i < f.c.n_terms; ++i)
                f.product[k * f.n_weights + i] += below[k * stride + i];
    return 2.0 * sum(total);
}

// A categorical feature alone: the sum of W tau as a function of its cell, and the probability of each cell.
class ByCells {
public:
    PREDGAP_INLINE explicit ByCells(const Form& f)
        : f_(f),
          feature_(f.tables.model().feature_of(f.atom[0])),
          n_cells_(f.tables.model().cells.count(feature_)),
          own_(static_cast<std::int32_t>(f.tables.x[feature_])),
          probability(f.scratch),
          value(probability + n_cells_) {
        const auto first = f.tables.model().cells.begin[feature_];
        const auto* noise = f.tables.laws().categories;
        for (std::int32_t cell = 0; cell < n_cells_; ++cell)
            probability[cell] = (cell == own_ ? noise->stay.data() : noise->mass.data())[first + cell];
        for (std::int64_t i = 0; i < n_cells_ * f.width; ++i) value[i] = 0.0;
        for (std::int32_t t = 0; t < f.c.n_terms; ++t)
            each_change(t, [&](std::int32_t cell, double tau) {
                for (std::int64_t k = 0; k < f.width; ++k)
                    value[k * n_cells_ + cell] += tau * f.weight[k * f.n_weights + t];
            });
    }

    // Subtracts from each output's values their mean.
    PREDGAP_INLINE void centre() {
        for (std::int64_t k = 0; k < f_.width; ++k) {
            const double centre = mean(k);
            for (std::int32_t cell = 0; cell < n_cells_; ++cell) value[k * n_cells_ + cell] -= centre;
        }
    }
    PREDGAP_INLINE double mean(std::int64_t k) const {
        double sum = 0.0;
        for (std::int32_t cell = 0; cell < n_cells_; ++cell)
            sum += probability[cell] * value[k * n_cells_ + cell];
        return sum;
    }
    PREDGAP_INLINE double mean_square() const {
        double total = 0.0;
        for (std::int64_t k = 0; k < f_.width; ++k)
            for (std::int32_t cell = 0; cell < n_cells_; ++cell) {
                const double v = value[k * n_cells_ + cell];
                total += probability[cell] * v * v;
            }
        return total;
    }
    // E[tau V] of a term's atom, where V is centred.
    PREDGAP_INLINE double product(std::int32_t t, std::int64_t k) const {
        double sum = 0.0;
        each_change(t, [&](std::int32_t cell, double tau) {
            sum += tau * probability[cell] * value[k * n_cells_ + cell];
        });
        return sum;
    }

private:
    // The cells where a term's atom has tau = 1 or -1; where x is, it is 0.
    template <class Visit>
    PREDGAP_INLINE void each_change(std::int32_t t, Visit visit) const {
        const auto& model = f_.tables.model();
        const auto* word = model.set_atoms.bits(f_.atom[t] - model.n_thresholds());
        const bool leaves = f_.tables.event[f_.atom[t]];  // x is in the set
        for (std::int32_t first = 0; first < n_cells_; first += 64) {
            const auto w = static_cast<std::size_t>(first / 64);
            auto set = leaves ? model.cells.full_word(feature_, w) & ~word[w] : word[w];
            for (; set; set &= set - 1) visit(first + __builtin_ctzll(set), leaves ? -1.0 : 1.0);
        }
    }

    const Form& f_;
    std::int32_t feature_;
    std::int64_t n_cells_;
    std::int32_t own_;
    double *probability, *value;  // (n_cells), (width, n_cells)
};

template <bool kProduct>
double form_by_cells(const Form& f) {
    ByCells by(f);
    by.centre();
    if (kProduct)
        for (std::int64_t k = 0; k < f.width; ++k)
            for (std::int32_t t = 0; t < f.c.n_terms; ++t) f.product[k * f.n_weights + t] = by.product(t, k);
    return by.mean_square();
}

double form_by_cells_outside(const Form& f, double* mean) {
    ByCells by(f);
    for (std::int64_t k = 0; k < f.width; ++k) mean[k] = by.mean(k);
    return by.mean_square();
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
