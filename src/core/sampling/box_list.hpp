// The boxes of two rows, as the kernels see them; see SwitchBoxes.
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

// The sums that Shapley values are made of: for each box, what each of its units that switched gets, and each
// that stayed; and for each bit, a correction for the units that both boxes of a pair have, which are counted
// twice.
struct BoxValues {
    double *to_switched, *to_stayed;  // (n)
    double* to_bit;                   // (64 n_words)
};

}  // namespace predgap
