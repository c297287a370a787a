// Adds up the masses of the sets of categories, and the determinants of two sets.
#include "noise/category_noise.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

MassOf::MassOf(const double* mass, int32_t n_cells)
    : n_words_((static_cast<std::size_t>(n_cells) + 63) / 64), of_byte_(8 * n_words_ * 256, 0.0) {
    for (std::size_t cell = 0; cell < 64 * n_words_; ++cell) {
        double* table = of_byte_.data() + cell / 8 * 256;
        const int bit = 1 << cell % 8;
        const double own = cell < static_cast<std::size_t>(n_cells) ? mass[cell] : 0.0;
        for (int rest = 0; rest < bit; ++rest) table[bit + rest] = table[rest] + own;
    }
}

CategoryNoise::CategoryNoise(const Cells& cells, const SetAtoms& atoms, std::vector<double> cell_mass,
                             std::vector<double> cell_stay, const std::function<void()>& check)
    : mass(std::move(cell_mass)),
      stay(std::move(cell_stay)),
      total(static_cast<std::size_t>(cells.n_features()), 0.0),
      atoms_(atoms) {
    for (int32_t q = 0; q < cells.n_features(); ++q) {
        if (!cells.categorical(q)) continue;
        mass_of.try_emplace(q, mass.data() + cells.begin[q], cells.count(q));
        total[q] = mass_of.at(q).sum([](std::size_t) { return ~uint64_t{0}; });
    }
    for (int32_t s = 0; s < atoms.size(); ++s) {
        check();
        const auto& own = *of_set_.emplace_back(&mass_of.at(atoms.feature[s]));
        const auto* bits = atoms.bits(s);
        inside.push_back(own.sum([&](std::size_t w) { return bits[w]; }));
        outside.push_back(own.sum([&](std::size_t w) { return ~bits[w]; }));
    }
}

JointMass CategoryNoise::joint(int32_t s, int32_t t) const {
    const auto& own = *of_set_[s];
    const auto *a = atoms_.bits(s), *b = atoms_.bits(t);
    // The mass of a whole without a part. It is subtracted only where hardly anything cancels, else added up.
    const auto rest = [&](double whole, double part, auto word) {
        return part <= 0.5 * whole ? whole - part : own.sum(word);
    };
    const double both = own.sum([&](std::size_t w) { return a[w] & b[w]; });
    const double first = rest(inside[s], both, [&](std::size_t w) { return a[w] & ~b[w]; });
    const double second = rest(inside[t], both, [&](std::size_t w) { return b[w] & ~a[w]; });
    return {both, first, second, rest(outside[s], second, [&](std::size_t w) { return ~(a[w] | b[w]); })};
}

double CategoryNoise::determinant(int32_t s, int32_t t) const {
    const auto masses = joint(s, t);
    return masses[0] * masses[3] - masses[1] * masses[2];
}

}  // namespace predgap
