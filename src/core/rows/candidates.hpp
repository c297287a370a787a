// The rule for near-ties that all rankings share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace predgap {

// The units that may take the next place: what each would add to the gap, and the scale of its rounding
// error.
struct Candidates {
    double base = 0.0;        // the gap so far
    double base_error = 0.0;  // its error scale
    std::vector<double> gain, error_scale;
    std::vector<std::uint8_t> taken;

    explicit Candidates(std::int32_t n)
        : gain(static_cast<std::size_t>(n), 0.0), error_scale(gain.size(), 0.0), taken(gain.size(), 0) {}

    std::int32_t largest() const {
        std::size_t top = gain.size();
        for (std::size_t u = 0; u < gain.size(); ++u)
            if (!taken[u] && (top == gain.size() || gain[u] > gain[top])) top = u;
        return static_cast<std::int32_t>(top);
    }

    // The first candidate whose gap is as good as the largest, up to errors of this scale.
    template <class Scale>
    std::int32_t first_as_good(Scale scale) const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto top = static_cast<std::size_t>(largest());
        for (std::size_t u = 0; u < top; ++u) {
            const double bound = kRelative * (base + gain[top]) + kUlps * scale(u, top);
            if (!taken[u] && gain[top] - gain[u] <= bound) return static_cast<std::int32_t>(u);
        }
        return static_cast<std::int32_t>(top);
    }

    // Gaps that differ by less than their error bound are ties, and ties go to the lower index.
    std::int32_t best() const {
        return first_as_good([this](std::size_t u, std::size_t top) {
            return base_error + std::max(error_scale[u], error_scale[top]);
        });
    }

    // Could errors, whose scale is at most this, decide?
    bool in_doubt(double most) const {
        return first_as_good([most](std::size_t, std::size_t) { return most; }) != largest();
    }

    // Is the gap with a unit the largest, wherever the gaps are within their bounds? Units that cannot change
    // anything tie exactly.
    template <class Bound>
    bool proves(std::int32_t unit, Bound bound_of, const std::vector<std::uint8_t>& is_open) const {
        const auto own = static_cast<std::size_t>(unit);
        for (std::size_t other = 0; other < gain.size(); ++other) {
            if (taken[other] || other == own || (!is_open[own] && !is_open[other])) continue;
            const double bound = bound_of(own) + bound_of(other);
            if (bound > 0.0 && gain[own] - gain[other] < bound) return false;
        }
        return true;
    }

    void take(std::int32_t unit) {
        const auto at = static_cast<std::size_t>(unit);
        taken[at] = 1;
        base += gain[at];
        base_error += error_scale[at];
    }
};

}  // namespace predgap
