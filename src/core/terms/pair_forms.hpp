// Quadratic forms of any component, one pair of terms after the other.
#pragma once

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
    std::int32_t* column;      // (stride) which factor is that with a term

    PREDGAP_INLINE bool is_filled() const { return sets->is_filled(atom[0] - first); }
    // Those of a term.
    PREDGAP_INLINE const double* row(std::int64_t s) const { return factor + sets->row(atom[s] - first); }
};

PREDGAP_INLINE SetSlot set_slot(const Form& f, std::int32_t slot, bool outside) {
    return {outside ? f.sets.moments() : f.sets.covariances(), &f.sets,
            f.atom + std::int64_t{slot} * f.c.stride, f.tables.model().n_thresholds(), nullptr};
}

// Are the factors of all its sets at hand?
PREDGAP_INLINE bool are_filled(const Form& f) {
    for (std::int32_t j = 0; j < f.c.size; ++j)
        if (const auto slot = set_slot(f, j, false); slot.atom[0] >= slot.first && !slot.is_filled())
            return false;
    return true;
}

// Looked up, or computed if the sets are too many, or not those of pairs of terms.
double set_factor(const Form& f, std::int32_t slot, bool outside, std::int32_t s, std::int32_t t) {
    const auto own = set_slot(f, slot, outside);
    const auto first = own.atom[s] - own.first, second = own.atom[t] - own.first;
    if (f.sets.is_filled(first) && f.sets.is_filled(second)) return own.row(s)[f.sets.column(second)];
    const auto pair = f.tables.set_pair(first, second);
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
    for (std::int32_t s = 0; s < c.n_terms && !f.stopped(); ++s)
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

// Of one or two terms on numeric features.
PREDGAP_INLINE Closed closed_factors(const Component& c, const std::int32_t* atom, const RowTables& tables,
                                     std::int32_t outside) {
    Closed k{1.0, 0.0, 0.0};
    if (c.n_terms == 1) {
        for (std::int32_t j = 0; j < c.size; ++j) k.first *= factor(tables, atom[j], atom[j], j == outside);
        return k;
    }
    k.second = 1.0;
    k.both = 2.0;
    for (std::int32_t j = 0; j < c.size; ++j, atom += 2) {
        k.first *= factor(tables, atom[0], atom[0], j == outside);
        k.second *= factor(tables, atom[1], atom[1], j == outside);
        k.both *= factor(tables, atom[0], atom[1], j == outside);
    }
    return k;
}

PREDGAP_INLINE double form_of_two(const Form& f, std::int32_t outside) {
    const auto k = closed_factors(f.c, f.atom, f.tables, outside);
    if (f.c.n_terms == 1) return k.first * f.dot(0, 0);
    return k.first * f.dot(0, 0) + k.second * f.dot(1, 1) + k.both * f.dot(0, 1);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
