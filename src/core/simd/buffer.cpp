// Allocates aligned memory, on large pages where that helps.
#include "simd/buffer.hpp"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace predgap {

namespace {

constexpr std::size_t kSmallPage = 64, kLargePage = std::size_t{2} << 20;

}  // namespace

void* allocate_bytes(std::size_t n) {
    const auto page = n >= kLargePage ? kLargePage : kSmallPage;
    const auto rounded = (n + page - 1) / page * page;
#ifdef _MSC_VER
    void* p = _aligned_malloc(rounded, page);
#else
    void* p = std::aligned_alloc(page, rounded);
#endif
    if (!p && rounded) throw std::bad_alloc();
#ifdef __linux__
    if (page == kLargePage) madvise(p, rounded, MADV_HUGEPAGE);  // a wish; nothing depends on it
#endif
    return p;
}

void free_bytes(void* p) {
#ifdef _MSC_VER
    _aligned_free(p);
#else
    std::free(p);
#endif
}

}  // namespace predgap
