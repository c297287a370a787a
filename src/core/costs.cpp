#include "costs.hpp"

#include <limits>
#include <numeric>

namespace predgap {

namespace {

using std::int32_t;

constexpr std::array<double, 7> kTerms{500.0, 6.0, 3.5, 1.9, 0.08, 0.3, 1.0};  // nanoseconds
constexpr std::array<double, 3> kPairs{9000.0, 280.0, 24.0};

double entries(const PlanView& p, const std::uint8_t* perturbed) {
    double sum = 0.0;
    for (int32_t box = 0; box < p.n_boxes; ++box) {
        double own = 1.0;
        for (auto i = p.box_literal_begin[box]; i < p.box_literal_begin[box + 1]; ++i) {
            const auto l = p.box_literal[i];
            if (perturbed[p.literal_feature[l]] && p.literal_numeric[l])
                own *= 1.0 + (p.literal_lo[l] >= 0) + (p.literal_hi[l] >= 0);
        }
        sum += own - 1.0;
    }
    return sum;
}

std::array<double, 7> count_terms(const PlanView& p, const std::uint8_t* perturbed) {
    double factors = 0.0, set_factors = 0.0, swept = 0.0;
    for (int32_t c = 0; c < p.n_components; ++c) {
        bool inside = true;
        for (auto i = p.component_feature_begin[c]; i < p.component_feature_begin[c + 1]; ++i)
            inside = inside && perturbed[p.component_feature[i]];
        if (!inside) continue;
        const double n = p.component_term_begin[c + 1] - p.component_term_begin[c];
        const double size = p.component_size[c];
        if (const auto q = p.component_cells[c])
            set_factors += 2.0 * size * n * (p.cell_begin[q] - p.cell_begin[q - 1]);
        else if (p.component_has_sets[c])
            set_factors += size * n * (1.0 + n);
        else if (p.component_levels[c] > 0 || size == 1)
            swept += size * n;
        else
            factors += size * n * (1.0 + n);
    }
    const double members = p.box_member_begin[p.n_boxes];
    return {1.0, 1.0 * p.n_atoms, members, entries(p, perturbed), factors, set_factors, swept};
}

template <std::size_t N>
double weighed(const std::array<double, N>& counts, const std::array<double, N>& nanoseconds) {
    return std::inner_product(counts.begin(), counts.end(), nanoseconds.begin(), 0.0);
}

}  // namespace

Counts count(const PlanView& p, bool has_plan, const Pairs& pairs, const std::uint8_t* perturbed) {
    const auto work = pairs.work(perturbed);
    Counts counts{{}, {1.0, work.leaves, work.splits}, work.bytes};
    if (has_plan) counts.terms = count_terms(p, perturbed);
    return counts;
}

Cost cost_of(const Counts& counts, bool has_plan) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double pairs = weighed(counts.pairs, kPairs);
    return {has_plan ? weighed(counts.terms, kTerms) : kInfinity,
            counts.pairs_bytes <= Counts::kMostBytes ? pairs : kInfinity, pairs, counts.pairs_bytes};
}

}  // namespace predgap
