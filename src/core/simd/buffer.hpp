// Memory of kernels: aligned, uninitialised, and kept from row to row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "simd/checks.hpp"
#include "simd/lanes.hpp"

namespace predgap {

// Allocates memory that is aligned for every vector. Where it is large it is on large pages, for it is used
// at random.
void* allocate_bytes(std::size_t n);
void free_bytes(void* p);

// Asks the processor to fetch items that are needed soon.
template <class T>
void prefetch_items(const T* items, std::size_t n) {
    constexpr std::size_t kLine = 64;
    const auto* bytes = reinterpret_cast<const char*>(items);
    for (std::size_t at = 0; at < n * sizeof(T); at += kLine) __builtin_prefetch(bytes + at);
}

// An array of plain items. Unlike those of std::vector, its accessors are always inlined: code that is
// compiled for a newer processor must not leave copies of them that the linker may choose for all.
//
// Where kernels use items beyond the last one, up to a whole vector, the size has room for them. In checked
// builds no room is kept that the size does not have: AddressSanitizer sees whoever uses it.
template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    Buffer() = default;
    explicit Buffer(std::int64_t n) { reset(n); }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    void swap(Buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(items_, other.items_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    // Makes the size n. The values of all items are then arbitrary.
    void reset(std::int64_t n) {
        if (kIsChecked ? n != capacity_ : n > capacity_) {
            data_.reset();
            items_ = nullptr;
            size_ = capacity_ = 0;  // there may be no memory
            data_.reset(allocate(n));
            items_ = data_.get();
            capacity_ = n;
        }
        resize(n);
    }
    void reset(std::int64_t n, T value) {
        reset(n);
        std::fill_n(data(), n, value);
    }
    void assign(const Buffer& other) {
        reset(other.size_);
        std::copy_n(other.data(), size_, data());
    }
    // Makes the size n, and keeps the items that are there; those that are new have arbitrary values.
    void grow(std::int64_t n) {
        if (n > capacity_) {
            const auto room = std::max(n, 2 * capacity_);
            std::unique_ptr<T[], Free> larger(allocate(room));
            std::copy_n(data(), size_, larger.get());
            data_ = std::move(larger);
            items_ = data_.get();
            capacity_ = room;
        }
        resize(n);
    }
    // Appends n items of one value.
    void grow_by(std::int64_t n, T value) {
        grow(size_ + n);
        std::fill_n(end() - n, n, value);
    }
    void push(const T& item) {
        const T copy = item;  // it may lie in the memory that grow() frees
        grow(size_ + 1);
        items_[size_ - 1] = copy;
    }
    void clear() { kIsChecked ? reset(0) : resize(0); }

    PREDGAP_INLINE T* data() { return items_; }
    PREDGAP_INLINE const T* data() const { return items_; }
    PREDGAP_INLINE std::int64_t size() const { return size_; }
    PREDGAP_INLINE T& operator[](std::int64_t i) {
        check(i);
        return items_[i];
    }
    PREDGAP_INLINE const T& operator[](std::int64_t i) const {
        check(i);
        return items_[i];
    }
    PREDGAP_INLINE T* begin() { return data(); }
    PREDGAP_INLINE T* end() { return data() + size_; }
    PREDGAP_INLINE const T* begin() const { return data(); }
    PREDGAP_INLINE const T* end() const { return data() + size_; }
    double bytes() const { return static_cast<double>(capacity_) * sizeof(T); }
    // The bytes of the items alone, without the room that rows before may have left.
    double used_bytes() const { return static_cast<double>(size_) * sizeof(T); }

private:
    PREDGAP_INLINE void check(std::int64_t i) const {
        if (kIsChecked && (i < 0 || i >= size_)) fail_index(i, size_);
    }
    void resize(std::int64_t n) {
        size_ = n;
        if constexpr (kIsChecked) {
            allow_bytes(items_, static_cast<std::size_t>(size_) * sizeof(T));
            forbid_bytes(items_ + size_, static_cast<std::size_t>(capacity_ - size_) * sizeof(T));
        }
    }
    static T* allocate(std::int64_t n) {
        return static_cast<T*>(allocate_bytes(static_cast<std::size_t>(n) * sizeof(T)));
    }
    struct Free {
        void operator()(T* p) const { free_bytes(p); }
    };
    std::unique_ptr<T[], Free> data_;
    T* items_ = nullptr;  // data_.get()
    std::int64_t size_ = 0, capacity_ = 0;
};

}  // namespace predgap
