// What the kernels see of the boxes of two rows; see SwitchBoxes.
#pragma once

#include <cstdint>

namespace predgap {

struct BoxList {
    const std::uint64_t *switched, *stayed;  // (n, n_words) bits of units; none in both
    const double* change;                    // (n)
    std::int32_t n_words;
};

// A number for each number p of units that must have switched and n that must have stayed, at p * stride + n;
// 0 where p is 0.
struct BoxWeights {
    const double* weight;
    std::int32_t stride;
};

// What Shapley values are added up from: for each box, what its units that switched and that stayed get; and
// for each bit, what it got too much or too little in this way.
struct BoxValues {
    double *to_switched, *to_stayed;  // (n)
    double* to_bit;                   // (64 n_words)
};

}  // namespace predgap
