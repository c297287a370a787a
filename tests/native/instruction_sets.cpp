// The kernels that the tests call: those of one instruction set after the other, not those that the core
// would choose.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "rows.hpp"

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

namespace {

const Kernels* chosen = &baseline::kKernels;

std::vector<const Kernels*> runnable() {
    std::vector<const Kernels*> found{&baseline::kKernels};
#ifdef PREDGAP_X86_VARIANTS
    if (__builtin_cpu_supports("avx2")) found.push_back(&avx2::kKernels);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        found.push_back(&avx512::kKernels);
#endif
    const char* asked = std::getenv("PREDGAP_ISA");
    if (asked) std::erase_if(found, [&](const auto* k) { return std::string_view(k->name) != asked; });
    if (found.empty()) {
        std::fprintf(stderr, "PREDGAP_ISA=%s is none of the instruction sets that are built and run here\n",
                     asked);
        std::exit(2);
    }
    return found;
}

}  // namespace

const Kernels& kernels() { return *chosen; }

namespace test {

const std::vector<const Kernels*>& instruction_sets() {
    static const auto found = runnable();
    return found;
}
void use(const Kernels& kernels) { chosen = &kernels; }

TEST_CASE("an instruction set is there") {
    REQUIRE_FALSE(instruction_sets().empty());
    for (const auto* k : instruction_sets()) MESSAGE("kernels: ", std::string(k->name));
}

}  // namespace test
}  // namespace predgap
