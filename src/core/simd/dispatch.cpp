// Chooses the kernels once, by what the processor and the operating system support.
#include <cstdlib>
#include <string_view>

#include "simd/kernels.hpp"

namespace predgap {

namespace baseline {
extern const Kernels kKernels;
}
#ifdef PREDGAP_X86_VARIANTS
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
#endif

static const Kernels& choose() {
#ifdef PREDGAP_X86_VARIANTS
    const char* asked = std::getenv("PREDGAP_ISA");
    const std::string_view limit = asked ? asked : "";
    if (limit == "baseline") return baseline::kKernels;
    if (limit != "avx2" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return avx512::kKernels;
    if (__builtin_cpu_supports("avx2")) return avx2::kKernels;
#endif
    return baseline::kKernels;
}

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace predgap
