// Rankings of a block's rows, and the rule for near-ties that all of them share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pairs.hpp"
#include "worker.hpp"

namespace predgap {

// Which features each lane perturbs, as the bytes that the pairs strategy reads.
class LaneSubset {
public:
    explicit LaneSubset(Worker& w)
        : d_(w.plan().n_features), moves_(w.block().moves), bytes_(static_cast<std::size_t>(d_) * kLanes) {}

    // All features that move in this lane.
    const std::uint8_t* moving(int lane) {
        for (std::int32_t q = 0; q < d_; ++q) add(lane, q);
        return added(lane);
    }
    void add(int lane, std::int32_t q) { bytes_[lane * d_ + q] = (moves_[q] >> lane) & 1; }
    void remove(int lane, std::int32_t q) { bytes_[lane * d_ + q] = 0; }
    const std::uint8_t* added(int lane) const { return bytes_.data() + lane * d_; }

private:
    std::int64_t d_;
    const LaneBits* moves_;
    std::vector<std::uint8_t> bytes_;
};

// One output of the model: its rows and its leaf pairs. Rankings go by the sum of the outputs' gaps.
struct Output {
    Worker& worker;
    const Pairs& pairs;
};

// order and score are row-major (n_rows, n_features).
void greedy_by_terms(std::span<const Output> outputs, std::int32_t* order, double* score);
void single_by_terms(std::span<const Output> outputs, std::int32_t* order, double* score);
void greedy_by_pairs(std::span<const Output> outputs, int lane, std::int32_t* order, double* score);
void single_by_pairs(std::span<const Output> outputs, int lane, std::int32_t* order, double* score);

}  // namespace predgap
