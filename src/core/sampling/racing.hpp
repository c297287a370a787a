// Rankings from sampled gaps. All candidates for a place are evaluated at the same points, and those that are
// clearly behind drop out; more points are drawn until one is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/many_subsets.hpp"

namespace predgap {

// One row's ranking, by the sum of the outputs' gaps.
class Race {
public:
    // A lead beyond `clear` settles which of two units is ahead.
    Race(std::span<Walker> outputs, const Units& units, const SampledCopies& copies,
         const SharedPoints& points, double clear, const std::atomic<bool>& stop);

    // order (n_places); score (n_units) of the units that were ranked; lead (n_places): the smallest
    // t statistic of the difference to a rival, with n_replicates - 1 degrees of freedom.
    void greedy(std::int32_t n_places, std::int32_t* order, double* score, double* lead);
    void single(std::int32_t n_places, std::int32_t* order, double* score, double* lead);

private:
    bool crosses(std::int32_t u) const;
    bool can_cross(std::int32_t u) const;
    void begin();
    bool add_look(std::size_t look);
    void add(std::int64_t first, std::int64_t n, std::int64_t look_begin, std::int64_t per_replicate);
    double mean(std::int32_t u) const;
    double ahead(std::int32_t u, std::int32_t rival) const;
    bool is_settled(std::int32_t u, std::int32_t rival, double lead) const;
    std::int32_t leader() const;
    double step(std::int32_t& winner);

    std::span<Walker> outputs_;
    const Units& units_;
    const SampledCopies& copies_;
    const SharedPoints& points_;
    double clear_;
    std::int32_t n_units_;
    const std::atomic<bool>& stop_;
    std::vector<std::uint8_t> taken_, open_;
    std::int64_t n_points_ = 0;  // of each replicate so far
    std::vector<double> sum_;    // (n_replicates, n_units) of the gains
    std::int64_t batch_;
    std::vector<double> change_, more_;  // see Walker::candidates
};

}  // namespace predgap
