// The laws by which features may move, as the kernels know them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace predgap {

// fixed: the same tails for all rows; table: tails that come with each row.
enum class Law : std::uint8_t { still, normal, uniform, fixed, table, category };

// Their names, by code; Python reads the codes from here.
constexpr std::array<const char*, 6> kLawNames{"still", "normal", "uniform", "fixed", "table", "category"};

// The laws of all features. With probability `stays` x' is x; else, with probability `moves`, it follows the
// law, and x' >= threshold where x plus the law's number is at least `at`, which may be infinite. A normal or
// uniform law does not take x' out of the range from `low` to `high`, or further out where x is outside.
struct LawArrays {
    std::vector<Law> law;
    std::vector<double> parameter;     // (n_features) scale or half-width
    std::vector<double> stays, moves;  // (n_features) not of tables and categories, which hold them already
    std::vector<double> low, high;     // (n_features) may be infinite
    std::vector<double> at;            // (n_thresholds)
    std::vector<double> fixed;         // (n_thresholds, 2) tails of features with Law::fixed
};

}  // namespace predgap
