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
    RowTables::SetFactor factor;
    const SetFactors* sets;
    const std::int32_t* atom;  // (stride)
    std::int32_t first;        // set atom

    // The determinants of a term's set with the others, or null if they are not kept.
    PREDGAP_INLINE const double* row(std::int64_t s) const { return sets->row(atom[s] - first); }
    PREDGAP_INLINE std::int32_t column(std::int64_t t) const { return sets->column(atom[t] - first); }
};

PREDGAP_INLINE bool is_set_slot(const Form& f, std::int32_t slot) {
    return f.atom[slot * std::int64_t{f.c.stride}] >= f.tables.model().n_thresholds();
}
SetSlot set_slot(const Form& f, std::int32_t slot, bool outside) {
    const auto* atom = f.atom + std::int64_t{slot} * f.c.stride;
    const auto q = f.tables.model().feature_of(atom[0]);
    return {outside ? f.tables.moment(q) : f.tables.covariance(q), &f.sets, atom,
            f.tables.model().n_thresholds()};
}

// True if the determinants of all its sets are at hand.
PREDGAP_INLINE bool are_filled(const Form& f) {
    for (std::int32_t j = 0; j < f.c.size; ++j)
        if (is_set_slot(f, j) && !set_slot(f, j, false).row(0)) return false;
    return true;
}

// The factor of a categorical slot for two terms. It is looked up, or computed if the sets are too many, or
// not those of pairs of terms.
double set_factor(const Form& f, std::int32_t slot, bool outside, std::int32_t s, std::int32_t t) {
    const auto own = set_slot(f, slot, outside);
    const auto a = own.atom[s], b = own.atom[t];
    const double determinant = own.row(s) && own.row(t)
                                   ? own.row(s)[own.column(t)]
                                   : f.tables.laws().categories->determinant(a - own.first, b - own.first);
    return own.factor.of(determinant, f.tables.shift[a], f.tables.shift[b]);
}

// The form of a component with any atoms, one pair of terms after the other.
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

// The factors of a component of one or two terms on numeric features.
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
