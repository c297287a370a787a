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

#ifndef _MSC_VER
// Unlike std::aligned_alloc, it takes any size.
void* exactly(std::size_t n, std::size_t page) {
    void* p = nullptr;
    return n > 0 && posix_memalign(&p, page, n) == 0 ? p : nullptr;
}
#endif

}  // namespace

// In checked builds the size is not rounded: the first byte behind it is known to be out of bounds.
void* allocate_bytes(std::size_t n) {
    const auto page = n >= kLargePage && !kIsChecked ? kLargePage : kSmallPage;
    const auto rounded = kIsChecked ? n : (n + page - 1) / page * page;
#ifdef _MSC_VER
    void* p = _aligned_malloc(rounded, page);
#else
    void* p = kIsChecked ? exactly(rounded, page) : std::aligned_alloc(page, rounded);
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
