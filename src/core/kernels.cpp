// The vector kernels, gathered. Compiled once per instruction set, with PREDGAP_ISA naming the copy; nothing
// here allocates.
#include "kernels.hpp"

#include "forms.hpp"
#include "gains.hpp"
#include "meetings.hpp"
#include "nested.hpp"
#include "tables.hpp"
#include "weights.hpp"

namespace predgap::PREDGAP_ISA {

namespace {

void mean(const PlanView& p, Block& b, double* out) {
    centre_all(p, b);
    for (int i = 0; i < kLanes; ++i) out[i] = lanes(b.weight)[p.n_terms][i];
}

void gap(const PlanView& p, Block& b, double* out) {
    centre_all(p, b);
    const Lanes mean = lanes(b.weight)[p.n_terms];
    Lanes sum = mean * mean;
    for (std::int32_t c = 0; c < p.n_components && !stopped(b); ++c)
        if (b.active[c]) sum += component_gap(p, b, c);
    for (int i = 0; i < kLanes; ++i) out[i] = sum[i];
}

}  // namespace

extern const Kernels kKernels;
const Kernels kKernels = {PREDGAP_ISA_NAME, normal_tails_of, tables, begin_row, mean, gap, begin_nested, take,
                          nested_gap,       gains,           errors, meet};

}  // namespace predgap::PREDGAP_ISA
