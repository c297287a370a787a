// Quadratic forms of one component: sums over its terms s, t of W_s W_t times a factor for each feature.
//
// The factor of a feature in the subset is the covariance of its two atoms, min(F, F') min(S, S'); that of a
// feature outside, whose gain is asked for, is E[tau tau'], which is min(F, F') on one side of x, min(S, S')
// on the other, and 0 across. Of categories both come from RowTables.
#pragma once

#include "terms/category_forms.hpp"
#include "terms/grid_forms.hpp"
#include "terms/pair_forms.hpp"
#include "terms/tiles.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The form Q of a feature in the subset, by a sweep in the order of its thresholds; and the product G W.
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

// The form E[(sum of W tau)^2] of a feature outside the subset, by sweeps from x outwards; and the means.
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

// ---- any component ---------------------------------------------------------------------------------------

// The nanoseconds that the form of a component takes, by counts.
PREDGAP_INLINE double form_nanoseconds(const TermState& s, std::int32_t component) {
    constexpr double kSweptTerm = 2.0 / nominal::kSlotOfPair;
    const auto& c = s.terms->component[component];
    if (c.has_sets) return nominal::kComponent + s.sets->nanoseconds(component);
    const double n = c.n_terms;
    double pairs = c.size == 1 ? kSweptTerm * n : 0.5 * c.size * n * (n + 1.0);
    if (c.n_terms >= 2 * kLeastBlock && c.size > 1 && c.size <= kMostBlockSlots) {
        const auto n_thresholds = [&](std::int32_t slot) -> std::int64_t {
            if (slot >= c.size) return 1;
            const auto q = s.terms->feature[c.features + slot];
            const auto& begin = s.tables->model().atoms.begin;
            return begin[q + 1] - begin[q];
        };
        pairs = pairs_of_form(c, n_thresholds(1), n_thresholds(2));
    }
    return nominal::kComponent +
           nominal::kSlotOfPair * pairs * (1.0 + nominal::kOutput * (s.terms->width - 1));
}
PREDGAP_INLINE void count_form(const TermState& s, std::int32_t component) {
    s.work->add(form_nanoseconds(s, component));
}

// The form of a component of several features, all in the subset but for the one in slot `outside`, if any.
template <bool kProduct>
double form_of_several(const Form& f, std::int32_t outside) {
    if (f.grid) return form_by_cells<kProduct>(f, *f.grid, outside);
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
    return f.grid ? form_by_cells<kProduct>(f, *f.grid, kInside) : sweep<kProduct>(f);
}

PREDGAP_INLINE double main_form_outside(const Form& f, double* mean) {
    return f.grid ? form_by_cells_outside(f, *f.grid, mean) : sweep_outside(f, mean);
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
