// How a feature may move, as the kernels know it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace predgap {

enum class Law : std::uint8_t { still, normal, uniform, table, category };

// Their names, by code; Python reads the codes from here.
constexpr std::array<const char*, 5> kLawNames{"still", "normal", "uniform", "table", "category"};

}  // namespace predgap
