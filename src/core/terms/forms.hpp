// Quadratic forms of one component: sums over its terms s, t of W_s W_t times a factor for each feature.
//
// The factor of a feature in the subset is the covariance of its two atoms, min(F, F') min(S, S'); that of a
// feature outside, whose gain is asked for, is E[tau tau'], which is min(F, F') on one side of x, min(S, S')
// on the other, and 0 across. Of categories both come from RowTables.
#pragma once

#include "terms/blocks.hpp"
#include "terms/form.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

PREDGAP_INLINE double smaller(double a, double b) { return a < b ? a : b; }

// The factor of a numeric feature for two atoms.
PREDGAP_INLINE double factor(const RowTables& tables, std::int32_t s, std::int32_t t, bool outside) {
    const double* table = (outside ? tables.crossing : tables.tail).data();
    const double low = smaller(table[2 * s], table[2 * t]),
                 high = smaller(table[2 * s + 1], table[2 * t + 1]);
    return outside ? low + high : low * high;
}

// The factors of a categorical slot.
struct SetSlot {
    const double* factor;  // of the row's sets
    const SetFactors* sets;
    const std::int32_t* atom;  // (stride)
    std::int32_t first;        // set atom
    double* column;            // (stride) which factor is that with a term, as integers

    PREDGAP_INLINE double of(std::int32_t s, std::int32_t t) const {
        return factor[sets->row(atom[s] - first) + sets->column(atom[t] - first)];
    }
    PREDGAP_INLINE bool is_filled() const { return sets->is_filled(atom[0] - first); }
    // Of one term with four others.
    PREDGAP_INLINE Four of_four(std::int64_t s, std::int64_t t) const {
        const double* row = factor + sets->row(atom[s] - first);
        const auto* at = reinterpret_cast<const std::int64_t*>(column) + t;
        Four z;
        for (int i = 0; i < 4; ++i) z[i] = row[at[i]];
        return z;
    }
};

PREDGAP_INLINE SetSlot set_slot(const Form& f, std::int32_t slot, bool outside) {
    return {outside ? f.sets.moments() : f.sets.covariances(), &f.sets,
            f.atom + std::int64_t{slot} * f.c.stride, f.tables.model().n_thresholds(), nullptr};
}

// Looked up, or computed where there are too many sets.
double set_factor(const Form& f, std::int32_t slot, bool outside, std::int32_t s, std::int32_t t) {
    const auto sets = set_slot(f, slot, outside);
    if (sets.is_filled()) return sets.of(s, t);
    const auto pair = f.tables.set_pair(sets.atom[s] - sets.first, sets.atom[t] - sets.first);
    return outside ? pair.moment : pair.covariance;
}

// Any atoms, one pair after the other.
template <bool kProduct>
double form_by_pairs(const Form& f, std::int32_t outside) {
    const auto& c = f.c;
    const auto n_thresholds = f.tables.model().n_thresholds();
    double sum = 0.0;
    if (kProduct)
        for (std::int64_t k = 0; k < f.width; ++k)
            for (std::int32_t t = 0; t < c.n_terms; ++t) f.product[k * f.n_weights + t] = 0.0;
    for (std::int32_t s = 0; s < c.n_terms; ++s)
        for (auto t = s; t < c.n_terms; ++t) {
            double z = 1.0;
            for (std::int32_t j = 0; j < c.size; ++j) {
                const auto a = f.atom[std::int64_t{j} * c.stride + s],
                           b = f.atom[std::int64_t{j} * c.stride + t];
                if (a < n_thresholds)
                    z *= factor(f.tables, a, b, j == outside);
                else
                    z *= set_factor(f, j, j == outside, s, t);
            }
            sum += (s == t ? z : 2.0 * z) * f.dot(s, t);
            if (!kProduct) continue;
            for (std::int64_t k = 0; k < f.width; ++k) {
                const double* w = f.weight + k * f.n_weights;
                double* y = f.product + k * f.n_weights;
                y[s] += z * w[t];
                if (s != t) y[t] += z * w[s];
            }
        }
    return sum;
}

// One or two terms on numeric features.
PREDGAP_INLINE double form_of_two(const Form& f, std::int32_t outside) {
    const auto& c = f.c;
    double first = f.dot(0, 0);
    if (c.n_terms == 1) {
        for (std::int32_t j = 0; j < c.size; ++j)
            first *= factor(f.tables, f.atom[j], f.atom[j], j == outside);
        return first;
    }
    double second = f.dot(1, 1), both = 2.0 * f.dot(0, 1);
    const auto* atom = f.atom;
    for (std::int32_t j = 0; j < c.size; ++j, atom += 2) {
        first *= factor(f.tables, atom[0], atom[0], j == outside);
        second *= factor(f.tables, atom[1], atom[1], j == outside);
        both *= factor(f.tables, atom[0], atom[1], j == outside);
    }
    return first + second + both;
}

// ---- four by four terms ----------------------------------------------------------------------------------

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

// On the diagonal a tile counts half of a term with itself, and each pair once.
alignas(32) constexpr double kDiagonal[4][4] = {
    {0.5, 1, 1, 1}, {0, 0.5, 1, 1}, {0, 0, 0.5, 1}, {0, 0, 0, 0.5}};

// The arrays of a component's tiles, in scratch.
template <int kSlots>
struct Tiles {
    std::int64_t stride, n;
    double *low, *high;  // (kSlots, stride) tables of the slots; that of the slot outside comes last
    double* column;      // (width, stride) weights, times S of the first slot where it is folded
    double* below;       // (width, stride) of products: what comes from the terms before
    double* sums;        // (width, 4, 4)

    PREDGAP_INLINE Tiles(const Form& f, std::int32_t outside, bool folded)
        : stride(f.c.stride),
          n(stride / 4),
          low(f.scratch),
          high(low + kSlots * stride),
          column(high + kSlots * stride),
          below(column + f.width * stride),
          sums(below + f.width * stride) {
        std::int32_t to = 0;
        for (std::int32_t j = 0; j < kSlots; ++j)
            if (j != outside) gather(f, f.tables.tail.data(), j, to++);
        if (outside != kInside) gather(f, f.tables.crossing.data(), outside, to);
        for (std::int64_t k = 0; k < f.width; ++k)
            for (std::int64_t i = 0; i < stride; ++i)
                column[k * stride + i] = f.weight[k * f.n_weights + i] * (folded ? high[i] : 1.0);
    }

private:
    PREDGAP_INLINE void gather(const Form& f, const double* table, std::int32_t slot, std::int32_t to) {
        const auto* atom = f.atom + slot * stride;
        for (std::int64_t i = 0; i < stride; ++i) {
            low[to * stride + i] = table[2 * atom[i]];
            high[to * stride + i] = table[2 * atom[i] + 1];
        }
    }
};

// Pairs of terms in the same block, of so many tiles. Terms are sorted by their first atom, so for s before t
// that slot's factor is F_s S_t: it is folded into the weights, but where the first feature is the one
// outside.
template <int kSlots, bool kFolded, bool kOutside, bool kProduct>
double form_by_tiles(const Form& f, std::int32_t outside, std::int64_t block) {
    const Tiles<kSlots> t(f, outside, kFolded);
    Four total = four(0.0);
    if (kProduct)
        for (std::int64_t v = 0; v < t.n; ++v) fours(t.below)[v] = four(0.0);
    for (std::int64_t b = 0; b < t.n; ++b) {
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

// The same for several outputs: factors are computed once for all of them.
template <int kSlots, bool kFolded, bool kOutside, bool kProduct>
double wide_form_by_tiles(const Form& f, std::int32_t outside, std::int64_t block) {
    const Tiles<kSlots> t(f, outside, kFolded);
    const auto width = f.width;
    Four total = four(0.0);
    if (kProduct)
        for (std::int64_t i = 0; i < width * t.n; ++i) fours(t.below)[i] = four(0.0);
    for (std::int64_t b = 0; b < t.n; ++b) {
        const auto row = [&](std::int64_t k, int r) {
            return four(f.weight[k * f.n_weights + 4 * b + r] * (kFolded ? t.low[4 * b + r] : 1.0));
        };
        if (kProduct)
            for (std::int64_t i = 0; i < 4 * width; ++i) fours(t.sums)[i] = four(0.0);
        const auto end = std::min(t.n, (b / block + 1) * block);
        for (auto v = b; v < end; ++v) {
            Four low[kSlots], high[kSlots], z[4];
            for (int j = kFolded; j < kSlots; ++j) {
                low[j] = *fours(t.low + j * t.stride + 4 * v);
                high[j] = *fours(t.high + j * t.stride + 4 * v);
            }
            for (int r = 0; r < 4; ++r) {
                z[r] = factors<kSlots, kFolded, kOutside>(t.low, t.high, t.stride, 4 * b + r, low, high);
                if (v == b) z[r] *= *fours(kDiagonal[r]);
            }
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

// ---- categories among others -----------------------------------------------------------------------------

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

// ---- one feature -----------------------------------------------------------------------------------------

// In the subset, in the order of the thresholds: Q, and G W.
template <bool kProduct>
double sweep(const Form& f) {
    double total = 0.0;
    for (std::int64_t k = 0; k < f.width; ++k) {
        const double* w = f.weight + k * f.n_weights;
        double* y = f.product + k * f.n_weights;
        double earlier = 0.0;
        for (std::int32_t t = 0; t < f.c.n_terms; ++t) {
            const double *tail = f.tables.tail.data() + 2 * f.atom[t], below = w[t] * tail[0];
            total += w[t] * tail[1] * (earlier + earlier + below);
            earlier += below;
            if (kProduct) y[t] = tail[1] * earlier;
        }
        if (!kProduct) continue;
        double later = 0.0;
        for (auto t = f.c.n_terms; t-- > 0;) {
            const double* tail = f.tables.tail.data() + 2 * f.atom[t];
            y[t] += tail[0] * later;
            later += w[t] * tail[1];
        }
    }
    return total;
}

// Outside the subset, from x outwards: E[(sum of W tau)^2] and the means.
double sweep_outside(const Form& f, double* mean) {
    const auto& tables = f.tables;
    std::int32_t above = 0;  // the first term whose threshold is above x
    while (above < f.c.n_terms && !tables.event[f.atom[above]]) ++above;
    double total = 0.0;
    for (std::int64_t k = 0; k < f.width; ++k) {
        const double* w = f.weight + k * f.n_weights;
        double low = 0.0, high = 0.0, nearer = 0.0;
        for (auto t = above; t-- > 0; nearer += w[t]) {
            const double crossed = w[t] * tables.tail[2 * f.atom[t]];
            total += crossed * (w[t] + nearer + nearer);
            low += crossed;
        }
        nearer = 0.0;
        for (auto t = above; t < f.c.n_terms; nearer += w[t], ++t) {
            const double crossed = w[t] * tables.tail[2 * f.atom[t] + 1];
            total += crossed * (w[t] + nearer + nearer);
            high += crossed;
        }
        mean[k] = low - high;
    }
    return total;
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

// ---- any component ---------------------------------------------------------------------------------------

// Of a component whose features are all in the subset but for the one in slot `outside`, if any.
template <bool kProduct>
double form_of_several(const Form& f, std::int32_t outside) {
    if (f.c.n_terms <= 2 && (kProduct || f.c.has_sets)) return form_by_pairs<kProduct>(f, outside);
    if (f.c.has_sets) return form_with_sets<kProduct>(f, outside);
    if (f.c.n_terms <= 2) return form_of_two(f, outside);
    switch (f.c.size) {
        case 2: return form_of_size<2, kProduct>(f, outside);
        case 3: return form_of_size<3, kProduct>(f, outside);
        case 4: return form_of_size<4, kProduct>(f, outside);
        case 5: return form_of_size<5, kProduct>(f, outside);
        case 6: return form_of_size<6, kProduct>(f, outside);
        case 7: return form_of_size<7, kProduct>(f, outside);
        case 8: return form_of_size<8, kProduct>(f, outside);
        default: return form_by_pairs<kProduct>(f, outside);
    }
}

template <bool kProduct>
PREDGAP_INLINE double form_inside(const Form& f) {
    if (f.c.size > 1) return form_of_several<kProduct>(f, kInside);
    return f.c.has_sets ? form_by_cells<kProduct>(f) : sweep<kProduct>(f);
}

PREDGAP_INLINE double main_form_outside(const Form& f, double* mean) {
    return f.c.has_sets ? form_by_cells_outside(f, mean) : sweep_outside(f, mean);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
