// What a noise does to categories: masses of sets of cells, alone and in pairs.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "model/cells.hpp"

namespace predgap {

// Masses of sets of one feature's cells, by words: whole words are summed once.
class MassOf {
public:
    MassOf(const double* mass, std::int32_t n_cells);

    template <class Word>
    double sum(Word word) const {
        double total = 0.0;
        for (std::size_t w = 0; w < full_.size(); ++w) {
            auto set = word(w) & full_[w];
            if (set == full_[w]) {
                total += whole_[w];
                continue;
            }
            for (; set; set &= set - 1)
                total += mass_[w * 64 + static_cast<std::size_t>(std::countr_zero(set))];
        }
        return total;
    }

private:
    const double* mass_;
    Bits full_;
    std::vector<double> whole_;
};

// Masses of K & K', K - K', K' - K and of the rest.
using JointMass = std::array<double, 4>;

// How much arrives in a cell does not depend on where it comes from.
class CategoryNoise {
public:
    // check() is called now and then, and ends it by throwing.
    CategoryNoise(const Cells& cells, const SetAtoms& atoms, std::vector<double> cell_mass,
                  std::vector<double> cell_stay, const std::function<void()>& check);
    CategoryNoise(const CategoryNoise&) = delete;  // mass_of points into mass
    CategoryNoise& operator=(const CategoryNoise&) = delete;

    std::vector<double> mass;                          // (n_cells) P(x' in the cell) where x is in another
    std::vector<double> stay;                          // (n_cells) P(x' in the cell) where x is in it
    std::unordered_map<std::int32_t, MassOf> mass_of;  // of each categorical feature
    std::vector<double> inside, outside;               // (n_set_atoms) masses of K and of its complement

    // Of two set atoms of one feature, numbered from 0; looked up, or summed where there are too many pairs.
    JointMass joint(std::int32_t s, std::int32_t t) const {
        const auto begin = joint_begin_[static_cast<std::size_t>(s < t ? t : s)];
        if (begin == kNone) return sum(s, t);
        if (s >= t) return joint_[static_cast<std::size_t>(begin + t)];
        const auto& m = joint_[static_cast<std::size_t>(begin + s)];
        return {m[0], m[2], m[1], m[3]};
    }

private:
    JointMass sum(std::int32_t s, std::int32_t t) const;

    static constexpr double kMostPairs = 1 << 21;  // of one feature: 64 MB
    const SetAtoms& atoms_;
    std::vector<JointMass> joint_;  // of s and t, the later first
    std::vector<std::int64_t>
        joint_begin_;  // (n_set_atoms) that of s and t is at joint_begin_[s] + t; or none
    static constexpr std::int64_t kNone = INT64_MIN;
};

}  // namespace predgap
