// Ends the process where the program has failed a check of itself.
#include "simd/checks.hpp"

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define PREDGAP_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PREDGAP_ADDRESS_SANITIZER
#endif
#endif

#ifdef PREDGAP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace predgap {

void unreachable_size(const char* where, std::int64_t size) {
    std::fprintf(stderr, "predgap: %s has no case for the size %lld\n", where, static_cast<long long>(size));
    std::abort();
}

void fail_index(std::int64_t index, std::int64_t size) {
    std::fprintf(stderr, "predgap: the index %lld is not within a buffer of %lld items\n",
                 static_cast<long long>(index), static_cast<long long>(size));
    std::abort();
}

void fail_room(std::int64_t asked, std::int64_t left) {
    std::fprintf(stderr, "predgap: %lld doubles were asked of scratch memory, and %lld are left\n",
                 static_cast<long long>(asked), static_cast<long long>(left));
    std::abort();
}

#ifdef PREDGAP_ADDRESS_SANITIZER
void allow_bytes(const void* begin, std::size_t n) { __asan_unpoison_memory_region(begin, n); }
void forbid_bytes(const void* begin, std::size_t n) { __asan_poison_memory_region(begin, n); }
#else
void allow_bytes(const void*, std::size_t) {}
void forbid_bytes(const void*, std::size_t) {}
#endif

}  // namespace predgap
