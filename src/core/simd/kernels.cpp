// The vector kernels, gathered. Compiled once per instruction set, with PREDGAP_ISA naming the copy; nothing
// here allocates.
#include "simd/kernels.hpp"

#include "noise/fill_tables.hpp"
#include "pairs/joint_expectation.hpp"
#include "sampling/box_pairs.hpp"
#include "terms/curve.hpp"
#include "terms/fill_sets.hpp"
#include "terms/nested.hpp"
#include "terms/subset_forms.hpp"

namespace predgap::PREDGAP_ISA {

extern const Kernels kKernels;
const Kernels kKernels = {PREDGAP_ISA_NAME,
                          normal_tails_of_four,
                          fill_tables,
                          fill_set_square,
                          gap,
                          covariances,
                          curve,
                          begin,
                          add_unit,
                          gains,
                          subset_forms,
                          joint_expectation,
                          box_pairs,
                          box_pair_values};

}  // namespace predgap::PREDGAP_ISA
