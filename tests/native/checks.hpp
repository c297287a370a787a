// Random rows, and the comparison of what kernels compute with the definition.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "rows.hpp"

namespace predgap::test {

// The error that sums in double may have: so many times the rounding of the sum of the absolute values.
constexpr double kRounding = 0x1p-53, kRoundings = 16.0, kSmallest = 0x1p-1022;

// Compares numbers that were found with those that are defined; `scale` sums up absolute values.
inline void check_close(double found, Real defined, Real scale, const std::string& what) {
    const Real error = std::fabs(found - defined);
    const Real most = static_cast<Real>(kRoundings * kRounding) * scale + static_cast<Real>(kSmallest);
    INFO(what, ": ", found, ", by the definition ", static_cast<double>(defined), "; ",
         static_cast<double>(error / (kRounding * scale + kSmallest)), " roundings of the absolute sum");
    CHECK(error <= most);
}

inline bool are_same_bits(const std::vector<double>& a, const std::vector<double>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// Calls ask(kernels) with each instruction set: all numbers have the same bits. Returns them.
template <class Ask>
std::vector<double> everywhere(Ask ask) {
    std::vector<double> first;
    for (const auto* k : instruction_sets()) {
        use(*k);
        const std::vector<double> found = ask(*k);
        if (k == instruction_sets()[0]) first = found;
        INFO("kernels: ", std::string(k->name));
        CHECK(are_same_bits(found, first));
    }
    return first;
}

inline FeatureData number(Random& random, int n_thresholds) {
    FeatureData found;
    for (int z = 0; z <= n_thresholds; ++z) {
        const bool is_rare = random.chance(0.1);
        found.likely.push_back(std::exp(random.between(is_rare ? -60.0 : -3.0, 0.0)));
    }
    found.own = random.below(n_thresholds + 1);
    found.likely[static_cast<std::size_t>(found.own)] += 0.5;
    return found;
}

inline FeatureData category(Random& random, int n_levels, int n_sets) {
    FeatureData found;
    for (int z = 0; z < n_levels; ++z) found.likely.push_back(std::exp(random.between(-4.0, 0.0)));
    for (int s = 0; s < n_sets; ++s) {
        std::vector<int> set;
        while (set.empty() || static_cast<int>(set.size()) == n_levels) {
            set.clear();
            for (int z = 0; z < n_levels; ++z)
                if (random.chance(0.4)) set.push_back(z);
        }
        found.sets.push_back(set);
    }
    found.own = random.below(n_levels);
    found.moves = random.chance(0.5) ? 1.0 : 0.7;
    return found;
}

inline std::vector<Real> random_weight(Random& random, int width) {
    std::vector<Real> found;
    const bool is_zero = random.chance(0.05);
    for (int k = 0; k < width; ++k) found.push_back(is_zero ? 0.0 : random.between(-1.0, 1.0));
    return found;
}

// Adds so many random terms on some features, and all that these contain.
inline void add_terms(Random& random, const Row& row, const std::vector<int>& features, int n_terms,
                      int width, Terms& terms) {
    std::set<Atoms> own;
    while (static_cast<int>(own.size()) < n_terms) {
        Atoms atoms;
        for (const auto q : features) atoms.push_back(row.first_atom(q) + random.below(row.n_atoms(q)));
        std::sort(atoms.begin(), atoms.end());
        own.insert(atoms);
    }
    for (const auto& atoms : own)
        for (unsigned part = 0; part < 1u << atoms.size(); ++part) {
            Atoms some;
            for (std::size_t j = 0; j < atoms.size(); ++j)
                if (part >> j & 1) some.push_back(atoms[j]);
            terms.try_emplace(some, some.empty() ? std::vector<Real>(static_cast<std::size_t>(width), 0)
                                                 : random_weight(random, width));
        }
}

inline Noise absolute_for(const Row& row) {
    return row.has_categories() ? absolute_of_categories(row.noise) : absolute(row.noise);
}

inline void check_weights(const Row& row, const Terms& found, const Features& subset) {
    const auto defined = pushed(row.noise, row.terms(), subset);
    const auto scale = pushed(absolute(row.noise), absolute(row.terms()), subset);
    REQUIRE(found.size() == defined.size());
    for (const auto& [atoms, weight] : found)
        for (std::size_t k = 0; k < weight.size(); ++k)
            check_close(static_cast<double>(weight[k]), defined.at(atoms)[k], scale.at(atoms)[k],
                        "weight of a term of " + std::to_string(atoms.size()));
}

// The gap of all features, the form of each component, and the weights after all were pushed.
inline void check_gap(Row& row, CellRule rule = CellRule::cheapest) {
    Row::Gap found;
    everywhere([&](const Kernels& k) {
        found = row.gap(k, rule);
        std::vector<double> all{found.gap};
        for (const auto& [features, form] : found.form) all.push_back(form);
        for (const auto& [atoms, weight] : found.pushed) all.insert(all.end(), weight.begin(), weight.end());
        return all;
    });
    const auto all = row.all();
    const auto noise = absolute_for(row);
    check_weights(row, found.pushed, all);
    check_close(found.gap, gap(row.noise, row.terms(), all), gap(noise, absolute(row.terms()), all), "gap");
    const auto defined = pushed(row.noise, row.terms(), all);
    const auto scale = pushed(noise, absolute(row.terms()), all);
    const auto members = components(row.noise, defined, all), in_scale = components(noise, scale, all);
    REQUIRE(found.form.size() == members.size());
    for (const auto& [features, form_found] : found.form)
        check_close(form_found, form(row.noise, members.at(features)), form(noise, in_scale.at(features)),
                    "form of " + std::to_string(features.size()) + " features and " +
                        std::to_string(members.at(features).size()) + " terms");
}

inline void check_covariances(Row& row, CellRule rule = CellRule::cheapest) {
    const auto found = everywhere([&](const Kernels& k) { return row.covariances(k, rule); });
    const auto all = row.all();
    const auto noise = absolute_for(row);
    const auto defined = pushed(row.noise, row.terms(), all);
    const auto scale = pushed(noise, absolute(row.terms()), all);
    const auto width = defined.at({}).size();
    for (std::size_t k = 0; k < width; ++k)
        for (std::size_t l = 0; l < width; ++l) {
            Real sum = 0, of_scale = 0;
            for (const auto& [features, terms] : components(row.noise, defined, all))
                sum += form(row.noise, terms, k, l);
            for (const auto& [features, terms] : components(noise, scale, all))
                of_scale += form(noise, terms, k, l);
            check_close(found[k * width + l], sum, of_scale, "covariance");
        }
}

inline Units units_of(const std::vector<std::vector<int>>& members) {
    Buffer<std::int32_t> begin, member;
    begin.push(0);
    for (const auto& own : members) {
        for (const auto q : own) member.push(q);
        begin.push(static_cast<std::int32_t>(member.size()));
    }
    return Units(std::move(begin), std::move(member));
}
inline std::vector<std::vector<int>> singles(int n) {
    std::vector<std::vector<int>> found;
    for (int q = 0; q < n; ++q) found.push_back({q});
    return found;
}
// Cuts the features into random units, of one to three features.
inline std::vector<std::vector<int>> random_units(Random& random, int n) {
    std::vector<std::vector<int>> found;
    for (const auto q : random.shuffled(n)) {
        if (found.empty() || found.back().size() == 3 || random.chance(0.5)) found.emplace_back();
        found.back().push_back(q);
    }
    for (auto& own : found) std::sort(own.begin(), own.end());
    return found;
}
inline Features with(Features subset, const std::vector<int>& unit) {
    subset.insert(unit.begin(), unit.end());
    return subset;
}

inline void check_curve(Row& row, const std::vector<std::vector<int>>& members, const std::vector<int>& order,
                        CellRule rule = CellRule::cheapest) {
    const auto units = units_of(members);
    const auto found = everywhere([&](const Kernels& k) { return row.curve(k, units, order, rule); });
    const auto noise = absolute_for(row);
    Features subset;
    for (std::size_t i = 0; i < order.size(); ++i) {
        subset = with(subset, members[static_cast<std::size_t>(order[i])]);
        check_close(found[i], gap(row.noise, row.terms(), subset), gap(noise, absolute(row.terms()), subset),
                    "step " + std::to_string(i) + " of a curve");
    }
}

// The gains before each step are differences of gaps, with the same bits if their parts are kept; and the
// weights are those of the units that were added.
inline void check_gains(Row& row, const std::vector<std::vector<int>>& members, const std::vector<int>& order,
                        bool keeps_grams, CellRule rule = CellRule::cheapest) {
    const auto units = units_of(members);
    Row::Gains found;
    everywhere([&](const Kernels& k) {
        found = row.gains(k, units, order, keeps_grams, rule);
        const auto by_parts = row.gains(k, units, order, keeps_grams, rule, true);
        std::vector<double> all;
        for (std::size_t i = 0; i < order.size(); ++i)
            for (std::size_t j = i; j < order.size(); ++j) {
                const auto unit = static_cast<std::size_t>(order[j]);
                all.push_back(found.gain[i][unit]);
                CHECK(by_parts.gain[i][unit] == found.gain[i][unit]);
            }
        return all;
    });
    const auto noise = absolute_for(row);
    const auto terms = row.terms(), positive = absolute(terms);
    Features subset;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto before = gap(row.noise, terms, subset), scale_before = gap(noise, positive, subset);
        for (std::size_t j = i; j < order.size(); ++j) {
            const auto unit = static_cast<std::size_t>(order[j]);
            const auto more = with(subset, members[unit]);
            // The difference of the definitions has an error, too; long double has eleven more bits.
            const auto scale = gap(noise, positive, more) - scale_before + scale_before * 0x1p-11L;
            check_close(found.gain[i][unit], gap(row.noise, terms, more) - before, scale,
                        "gain before step " + std::to_string(i));
        }
        subset = with(subset, members[static_cast<std::size_t>(order[i])]);
    }
    check_weights(row, found.pushed, subset);
}

inline void check_subsets(Row& row, const std::vector<std::vector<int>>& members,
                          CellRule rule = CellRule::cheapest) {
    const auto units = units_of(members);
    const auto found = everywhere([&](const Kernels&) { return row.subset_gaps(units, rule); });
    const auto noise = absolute_for(row);
    for (std::size_t subset = 0; subset < found.size(); ++subset) {
        Features features;
        for (std::size_t u = 0; u < members.size(); ++u)
            if (subset >> u & 1) features = with(features, members[u]);
        check_close(found[subset], gap(row.noise, row.terms(), features),
                    gap(noise, absolute(row.terms()), features), "gap of subset " + std::to_string(subset));
    }
}

}  // namespace predgap::test
