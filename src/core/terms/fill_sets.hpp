// Determinants of pairs of sets of categories.
#pragma once

#include <algorithm>

#include "terms/kept_sets.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The determinants of some sets with as many others: one square of all of them.
class SetTile {
public:
    static constexpr std::int64_t kSize = SetSquare::kColumns, kFours = kSize / 4;

    PREDGAP_INLINE Four& at(std::int64_t row, std::int64_t v) { return determinant_[row * kFours + v]; }
    void write(double* to, std::int64_t stride, std::int64_t n_rows) const {
        for (std::int64_t i = 0; i < n_rows; ++i)
            for (std::int64_t v = 0; v < kFours; ++v)
                fours(to + i * stride)[v] = determinant_[i * kFours + v];
    }
    // Writes the mirror image of the square: columns become rows.
    void write_mirrored(double* to, std::int64_t stride) const {
        for (std::int64_t v = 0; v < kFours; ++v)
            for (std::int64_t i = 0; i < kSize; i += 4) {
                Four block[4];
                for (int k = 0; k < 4; ++k) block[k] = determinant_[(i + k) * kFours + v];
                transpose(block);
                for (int k = 0; k < 4; ++k) *fours(to + (4 * v + k) * stride + i) = block[k];
            }
    }

private:
    Four determinant_[kSize * kFours] = {};
};

// Fills sixteen columns of the square, up to the diagonal, and their mirror. Nothing cancels where one side
// is part of the other: masses are all added up in the same order. The smaller sides are taken, whose rest is
// not small; and two sets have the same bits in either order.
void fill_set_square(const SetSquare& s, std::int64_t first) {
    constexpr std::int64_t kSize = SetTile::kSize, kFours = SetTile::kFours;
    for (std::int64_t v = 0; v < s.n_cells * kFours; ++v) fours(s.member)[v] = four(0.0);
    for (auto j = first; j < std::min(first + kSize, s.n); ++j)
        for (auto k = s.begin[j]; k < s.begin[j + 1]; ++k)
            s.member[s.cell[k] * kSize + j - first] = s.mass[s.cell[k]];
    SetTile determinants;
    for (std::int64_t tile = 0; tile <= first; tile += kSize) {
        const auto n_rows = std::min(kSize, s.n - tile);
        for (std::int64_t row = 0; row < n_rows; ++row) {
            const auto i = tile + row;
            Four both[kFours];
            for (auto& own : both) own = four(0.0);
            for (auto k = s.begin[i]; k < s.begin[i + 1]; ++k) {
                const Four* in = fours(s.member + s.cell[k] * kSize);
                for (std::int64_t v = 0; v < kFours; ++v) both[v] += in[v];
            }
            for (std::int64_t v = 0; v < kFours; ++v) {
                const Four own = four(s.side[i]), other = *fours(s.side + first + 4 * v);
                const Four neither = four(s.total) - (own + other - both[v]);
                const Four sign = four(s.sign[i]) * *fours(s.sign + first + 4 * v);
                determinants.at(row, v) = sign * (both[v] * neither - (own - both[v]) * (other - both[v]));
            }
        }
        determinants.write(s.determinant + tile * s.stride + first, s.stride, n_rows);
        if (tile < first) determinants.write_mirrored(s.determinant + first * s.stride + tile, s.stride);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
