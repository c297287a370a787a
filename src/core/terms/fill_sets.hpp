// Factors of pairs of sets of categories.
#pragma once

#include "terms/set_factors.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// tau is 1 or -1 on the side A of a set that x is not on, and 0 on the other. The covariance of two sides is
// P(A & A') P(neither) - P(A - A') P(A' - A), in which nothing cancels where one is part of the other: masses
// are all added up in the same order. Sixteen columns of the square, from the diagonal on, and their mirror.
void fill_set_square(const SetSquare& s, std::int64_t first) {
    constexpr std::int64_t kFours = SetSquare::kColumns / 4;
    Four* member = fours(s.member);
    for (std::int64_t v = 0; v < s.n_cells * kFours; ++v) member[v] = four(0.0);
    const auto end = first + SetSquare::kColumns < s.n ? first + SetSquare::kColumns : s.n;
    const auto each_cell = [&](std::int64_t set, auto visit) {
        for (std::int64_t w = 0; w < s.n_words; ++w)
            for (auto side = s.side[set * s.n_words + w]; side; side &= side - 1)
                visit(64 * w + __builtin_ctzll(side));
    };
    for (auto j = first; j < end; ++j)
        each_cell(j, [&](std::int64_t z) { s.member[z * SetSquare::kColumns + j - first] = 1.0; });
    for (auto i = first; i < s.n; ++i) {
        Four both[kFours];
        for (auto& own : both) own = four(0.0);
        each_cell(i, [&](std::int64_t z) {
            const Four mass = four(s.mass[z]);
            for (std::int64_t v = 0; v < kFours; ++v) both[v] += mass * member[z * kFours + v];
        });
        for (std::int64_t v = 0; v < kFours; ++v) {
            const auto column = first + 4 * v;
            const Four own = four(s.reach[i]) - both[v], other = *fours(s.reach + column) - both[v];
            const Four sign = four(s.sign[i]) * *fours(s.sign + column);
            const Four moment = sign * both[v];
            const Four covariance = sign * (both[v] * (four(s.rest[i]) - other) - own * other);
            for (std::int64_t j = column; j < column + 4 && j <= i; ++j) {
                const auto lane = static_cast<int>(j - column);
                s.covariance[i * s.stride + j] = s.covariance[j * s.stride + i] = covariance[lane];
                if (s.moment) s.moment[i * s.stride + j] = s.moment[j * s.stride + i] = moment[lane];
            }
        }
    }
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
