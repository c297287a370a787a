// The noise of categories: masses of sets of cells, alone and in pairs.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "model/cells.hpp"

namespace predgap {

// Masses of sets of one feature's cells, looked up by bytes.
class MassOf {
public:
    MassOf(const double* mass, std::int32_t n_cells);

    // word(w): 64 cells of the set; those past the last cell do not count.
    template <class Word>
    double sum(Word word) const {
        double total = 0.0;
        const double* table = of_byte_.data();
        for (std::size_t w = 0; w < n_words_; ++w) {
            auto set = word(w);
            if (set == 0) {
                table += 8 * 256;
                continue;
            }
            for (int byte = 0; byte < 8; byte += 2, set >>= 16, table += 512)
                total += table[set & 255] + table[256 + (set >> 8 & 255)];
        }
        return total;
    }

private:
    std::size_t n_words_;
    std::vector<double> of_byte_;  // (8 * words, 256) mass of each set of eight cells
};

// Masses of K & K', K - K', K' - K and of the rest.
using JointMass = std::array<double, 4>;

// The masses of cells and of the sets of the model. How much arrives in a cell does not depend on the cell
// where it comes from.
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
    std::vector<double> total;                         // (n_features) mass of all cells
    std::vector<double> inside, outside;               // (n_set_atoms) masses of K and of its complement

    // The masses of two set atoms of one feature, which are numbered from 0.
    JointMass joint(std::int32_t s, std::int32_t t) const;
    // mass(K & K') mass(neither) - mass(K - K') mass(K' - K): with their complements it is the same, up to
    // its sign.
    double determinant(std::int32_t s, std::int32_t t) const;

private:
    const SetAtoms& atoms_;
    std::vector<const MassOf*> of_set_;  // (n_set_atoms) that of its feature
};

}  // namespace predgap
