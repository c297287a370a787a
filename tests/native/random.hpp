// Random numbers that are the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace predgap::test {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        auto z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    double between(double low, double high) {
        return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
    }
    int below(int n) { return static_cast<int>(bits() % static_cast<std::uint64_t>(n)); }
    bool chance(double p) { return between(0.0, 1.0) < p; }
    std::vector<int> shuffled(int n) {
        std::vector<int> order;
        for (int i = 0; i < n; ++i) order.insert(order.begin() + below(i + 1), i);
        return order;
    }

private:
    std::uint64_t state_;
};

}  // namespace predgap::test
