// The squared gap by its definition: sums over pairs of terms, in long double. No kernel is used here.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace predgap::test {

using Real = long double;

// The moments of the atoms' tau, which is 1[x' in the event] - 1[x in the event].
struct Noise {
    std::vector<int> feature;                   // of each atom
    std::vector<Real> mean;                     // E tau
    std::vector<std::vector<Real>> covariance;  // of two atoms of one feature, else 0
    std::vector<std::vector<Real>> moment;      // E[tau tau'] of two atoms of one feature, else 0
};

using Atoms = std::vector<int>;                    // of a term: one for each feature, ascending
using Terms = std::map<Atoms, std::vector<Real>>;  // the weights of each term, one for each output
using Features = std::set<int>;

inline Features features_of(const Noise& noise, const Atoms& atoms) {
    Features found;
    for (const auto a : atoms) found.insert(noise.feature[a]);
    return found;
}

// W[t \ i] += W[t] e for all terms with feature i.
inline void push(const Noise& noise, Terms& terms, int feature) {
    for (auto& [atoms, weight] : Terms(terms))
        for (std::size_t j = 0; j < atoms.size(); ++j) {
            if (noise.feature[atoms[j]] != feature) continue;
            auto rest = atoms;
            rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
            for (std::size_t k = 0; k < weight.size(); ++k)
                terms[rest][k] += weight[k] * noise.mean[atoms[j]];
        }
}

inline Terms pushed(const Noise& noise, Terms terms, const Features& subset) {
    for (const auto q : subset) push(noise, terms, q);
    return terms;
}

// The terms of each component whose features are all in the subset.
using Components = std::map<Features, std::vector<Terms::const_iterator>>;
inline Components components(const Noise& noise, const Terms& terms, const Features& subset) {
    Components found;
    for (auto t = terms.begin(); t != terms.end(); ++t) {
        const auto own = features_of(noise, t->first);
        if (!own.empty() && std::includes(subset.begin(), subset.end(), own.begin(), own.end()))
            found[own].push_back(t);
    }
    return found;
}

// The covariance of two outputs that a component has: the sum over pairs of its terms, with pushed weights.
inline Real form(const Noise& noise, const Components::mapped_type& terms, std::size_t k, std::size_t l) {
    Real sum = 0;
    for (const auto& s : terms)
        for (const auto& t : terms) {
            Real product = s->second[k] * t->second[l];
            for (std::size_t j = 0; j < s->first.size(); ++j)
                product *= noise.covariance[s->first[j]][t->first[j]];
            sum += product;
        }
    return sum;
}
inline Real form(const Noise& noise, const Components::mapped_type& terms) {
    Real sum = 0;
    for (std::size_t k = 0; k < terms[0]->second.size(); ++k) sum += form(noise, terms, k, k);
    return sum;
}

// PG^2 of a subset: the squared means, and the forms of the components in it.
inline Real gap(const Noise& noise, const Terms& terms, const Features& subset) {
    const auto own = pushed(noise, terms, subset);
    Real sum = 0;
    for (const auto mean : own.at({})) sum += mean * mean;
    for (const auto& [features, members] : components(noise, own, subset)) sum += form(noise, members);
    return sum;
}

// The same with all summands positive. Errors of rounding are measured by the sums that it gives. Where
// categories are, kernels add up parts that cancel: E[tau tau'] and the product of the means.
inline Noise absolute(Noise noise) {
    const auto n = noise.mean.size();
    for (auto& e : noise.mean) e = std::fabs(e);
    for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) {
            auto &covariance = noise.covariance[a][b], &moment = noise.moment[a][b];
            covariance = std::fabs(covariance);
            moment = std::fabs(moment);
        }
    return noise;
}
inline Noise absolute_of_categories(const Noise& noise) {
    auto found = absolute(noise);
    for (std::size_t a = 0; a < found.mean.size(); ++a)
        for (std::size_t b = 0; b < found.mean.size(); ++b)
            if (noise.feature[a] == noise.feature[b])
                found.covariance[a][b] += found.moment[a][b] + found.mean[a] * found.mean[b];
    return found;
}
inline Terms absolute(Terms terms) {
    for (auto& [atoms, weight] : terms)
        for (auto& w : weight) w = std::fabs(w);
    return terms;
}

}  // namespace predgap::test
