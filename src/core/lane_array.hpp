// Memory for lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "lanes.hpp"

namespace predgap {

// Uninitialised memory at the alignment that lanes need.
class LaneArray {
public:
    explicit LaneArray(std::int64_t n_items)
        : data_(static_cast<double*>(::operator new(bytes(n_items), kAlignment))) {}
    double* get() const { return data_.get(); }

private:
    static constexpr std::align_val_t kAlignment{64};
    static std::size_t bytes(std::int64_t n) { return static_cast<std::size_t>(n) * kLanes * sizeof(double); }
    struct Free {
        void operator()(double* p) const { ::operator delete(p, kAlignment); }
    };
    std::unique_ptr<double[], Free> data_;
};

}  // namespace predgap
