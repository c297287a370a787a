// The rule for near-ties that all rankings share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace predgap {

// The features that may take the next place: what each would add to the gap, and the scale of its rounding
// error.
struct Candidates {
    double base = 0.0;        // the gap so far
    double base_error = 0.0;  // its error scale
    std::vector<double> gain, error_scale;
    std::vector<std::uint8_t> taken;

    explicit Candidates(std::size_t d) : gain(d, 0.0), error_scale(d, 0.0), taken(d, 0) {}

    std::int32_t largest() const {
        std::size_t top = gain.size();
        for (std::size_t q = 0; q < gain.size(); ++q)
            if (!taken[q] && (top == gain.size() || gain[q] > gain[top])) top = q;
        return static_cast<std::int32_t>(top);
    }

    // The first candidate whose gap is as good as the largest, up to errors of this scale.
    template <class Scale>
    std::int32_t first_as_good(Scale scale) const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto top = static_cast<std::size_t>(largest());
        for (std::size_t q = 0; q < top; ++q) {
            const double bound = kRelative * (base + gain[top]) + kUlps * scale(q, top);
            if (!taken[q] && gain[top] - gain[q] <= bound) return static_cast<std::int32_t>(q);
        }
        return static_cast<std::int32_t>(top);
    }

    // Gaps that differ by less than their error bound are ties, and ties go to the lower index.
    std::int32_t best() const {
        return first_as_good([this](std::size_t q, std::size_t top) {
            return base_error + std::max(error_scale[q], error_scale[top]);
        });
    }

    // Could errors, whose scale is at most this, decide?
    bool in_doubt(double most) const {
        return first_as_good([most](std::size_t, std::size_t) { return most; }) != largest();
    }

    // Is the gap with q the largest, wherever the gaps are within the bound? Features that cannot change
    // anything tie exactly.
    template <class Open>
    bool proves(std::int32_t q, double bound, const Open& is_open) const {
        for (std::size_t other = 0; other < gain.size(); ++other) {
            if (taken[other] || static_cast<std::int32_t>(other) == q) continue;
            if (!is_open[q] && !is_open[static_cast<std::int32_t>(other)]) continue;
            if (gain[static_cast<std::size_t>(q)] - gain[other] < 2.0 * bound) return false;
        }
        return true;
    }

    void take(std::int32_t q) {
        const auto at = static_cast<std::size_t>(q);
        taken[at] = 1;
        base += gain[at];
        base_error += error_scale[at];
    }
};

}  // namespace predgap
