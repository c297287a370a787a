// Scratch memory of kernels: an array that is handed out piece by piece.
//
// A layout is a function or a constructor that takes its pieces from a Memory: from an Arena to get them, or
// from a Room to count them. So the size of scratch memory follows from the code that uses it.
#pragma once

#include <cstdint>

#include "simd/buffer.hpp"
#include "simd/checks.hpp"

namespace predgap {

// The doubles that a piece of n items takes: a multiple of four, so that the next piece is aligned for Four.
// In checked builds a gap follows, which nothing may touch.
template <class T>
PREDGAP_INLINE constexpr std::int64_t doubles_of(std::int64_t n) {
    static_assert(sizeof(double) % sizeof(T) == 0);
    constexpr std::int64_t kGap = kIsChecked ? 8 : 0, kOfDouble = sizeof(double) / sizeof(T);
    return ((n + kOfDouble - 1) / kOfDouble + 3) / 4 * 4 + kGap;
}

// Counts the room that pieces take.
class Room {
public:
    template <class T>
    PREDGAP_INLINE constexpr T* take(std::int64_t n) {
        doubles_ += doubles_of<T>(n);
        return nullptr;
    }
    PREDGAP_INLINE constexpr std::int64_t doubles() const { return doubles_; }

private:
    std::int64_t doubles_ = 0;
};

// Hands out the pieces of a buffer. A copy begins where the original is: what the copy hands out may be used
// until the original hands out the same memory.
class Arena {
public:
    PREDGAP_INLINE explicit Arena(Buffer<double>& buffer) : next_(buffer.data()) {
#ifdef PREDGAP_CHECKED
        end_ = buffer.data() + buffer.size();
#endif
    }

    // The next n items, aligned for Four. Their values are arbitrary.
    template <class T>
    PREDGAP_INLINE T* take(std::int64_t n) {
        double* begin = next_;
        next_ += doubles_of<T>(n);
#ifdef PREDGAP_CHECKED
        if (n < 0 || next_ > end_) fail_room(doubles_of<T>(n), end_ - begin);
        const auto used = static_cast<std::size_t>(n) * sizeof(T);
        const auto all = static_cast<std::size_t>(next_ - begin) * sizeof(double);
        allow_bytes(begin, used);
        forbid_bytes(reinterpret_cast<const char*>(begin) + used, all - used);
#endif
        return reinterpret_cast<T*>(begin);
    }

private:
    double* next_;
#ifdef PREDGAP_CHECKED
    double* end_;
#endif
};

}  // namespace predgap
