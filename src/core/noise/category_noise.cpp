#include "noise/category_noise.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

MassOf::MassOf(const double* mass, int32_t n_cells) : mass_(mass) {
    for (int32_t first = 0; first < n_cells; first += 64) {
        const auto n = std::min(n_cells - first, 64);
        full_.push_back(n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1);
        whole_.push_back(std::accumulate(mass + first, mass + first + n, 0.0));
    }
}

CategoryNoise::CategoryNoise(const Cells& cells, const SetAtoms& atoms, std::vector<double> cell_mass,
                             std::vector<double> cell_stay, const std::function<void()>& check)
    : mass(std::move(cell_mass)), stay(std::move(cell_stay)), atoms_(atoms) {
    for (int32_t q = 0; q < cells.n_features(); ++q)
        if (cells.categorical(q)) mass_of.try_emplace(q, mass.data() + cells.begin[q], cells.count(q));
    for (int32_t s = 0; s < atoms.size(); ++s) {
        check();
        const auto& own = mass_of.at(atoms.feature[s]);
        const auto* bits = atoms.bits(s);
        inside.push_back(own.sum([&](std::size_t w) { return bits[w]; }));
        outside.push_back(own.sum([&](std::size_t w) { return ~bits[w]; }));
    }
    for (int32_t s = 0; s < atoms.size(); ++s) {
        check();
        const auto q = atoms.feature[s];
        const auto first = atoms.begin[q] - atoms.begin[0];
        const double n = atoms.begin[q + 1] - atoms.begin[q];
        const bool fits = n * (n + 1) / 2 <= kMostPairs;
        joint_begin_.push_back(fits ? static_cast<int64_t>(joint_.size()) - first : kNone);
        for (auto t = first; fits && t <= s; ++t) joint_.push_back(sum(s, t));
    }
}

JointMass CategoryNoise::sum(int32_t s, int32_t t) const {
    const auto& own = mass_of.at(atoms_.feature[s]);
    const auto *a = atoms_.bits(s), *b = atoms_.bits(t);
    return {own.sum([&](std::size_t w) { return a[w] & b[w]; }),
            own.sum([&](std::size_t w) { return a[w] & ~b[w]; }),
            own.sum([&](std::size_t w) { return b[w] & ~a[w]; }),
            own.sum([&](std::size_t w) { return ~(a[w] | b[w]); })};
}

}  // namespace predgap
