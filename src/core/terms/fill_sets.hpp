// Factors of pairs of sets of categories.
#pragma once

#include <algorithm>

#include "terms/set_factors.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// Factors of some sets with as many others, square by square.
class SetTile {
public:
    static constexpr std::int64_t kSize = SetSquare::kColumns, kFours = kSize / 4;

    PREDGAP_INLINE Four& at(std::int64_t row, std::int64_t v) { return factor_[row * kFours + v]; }
    // Makes it the same on both sides of its diagonal.
    void mirror() {
        double* factor = reinterpret_cast<double*>(factor_);
        for (std::int64_t i = 0; i < kSize; ++i)
            for (std::int64_t j = 0; j < i; ++j) factor[j * kSize + i] = factor[i * kSize + j];
    }
    void write(double* to, std::int64_t stride, std::int64_t n_rows) const {
        for (std::int64_t i = 0; i < n_rows; ++i)
            for (std::int64_t v = 0; v < kFours; ++v) fours(to + i * stride)[v] = factor_[i * kFours + v];
    }
    // Columns become rows.
    void write_mirrored(double* to, std::int64_t stride) const {
        for (std::int64_t v = 0; v < kFours; ++v)
            for (std::int64_t i = 0; i < kSize; i += 4) {
                Four block[4];
                for (int k = 0; k < 4; ++k) block[k] = factor_[(i + k) * kFours + v];
                transpose(block);
                for (int k = 0; k < 4; ++k) *fours(to + (4 * v + k) * stride + i) = block[k];
            }
    }

private:
    Four factor_[kSize * kFours] = {};
};

// tau is 1 or -1 on the side A of a set that x is not on, and 0 on the other. The covariance of two sides is
// P(A & A') P(neither) - P(A - A') P(A' - A), in which nothing cancels where one is part of the other: masses
// are all added up in the same order. Sixteen columns of the square, from the diagonal on, and their mirror.
void fill_set_square(const SetSquare& s, std::int64_t first) {
    constexpr std::int64_t kSize = SetTile::kSize, kFours = SetTile::kFours;
    for (std::int64_t v = 0; v < s.n_cells * kFours; ++v) fours(s.member)[v] = four(0.0);
    for (auto j = first; j < std::min(first + kSize, s.n); ++j)
        for (auto k = s.begin[j]; k < s.begin[j + 1]; ++k)
            s.member[s.cell[k] * kSize + j - first] = s.mass[s.cell[k]];
    SetTile covariances, moments;
    for (auto tile = first; tile < s.n; tile += kSize) {
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
                const auto column = first + 4 * v;
                const Four own = four(s.reach[i]) - both[v], other = *fours(s.reach + column) - both[v];
                const Four sign = four(s.sign[i]) * *fours(s.sign + column);
                moments.at(row, v) = sign * both[v];
                covariances.at(row, v) = sign * (both[v] * (four(s.rest[i]) - other) - own * other);
            }
        }
        const auto put = [&](SetTile& factors, double* square) {
            if (tile == first) factors.mirror();
            factors.write(square + tile * s.stride + first, s.stride, n_rows);
            if (tile > first) factors.write_mirrored(square + first * s.stride + tile, s.stride);
        };
        put(covariances, s.covariance);
        if (s.moment) put(moments, s.moment);
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
