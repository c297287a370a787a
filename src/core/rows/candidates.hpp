// The rule for near-ties that all rankings share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/model.hpp"
#include "model/units.hpp"

namespace predgap {

// The units that may take the next place: what each would add to the gap, and the scale of its rounding
// error.
//
// Idle units are those of which no tree uses a feature. They add exactly 0 and are all alike, so that only
// the first of them that is left is looked at. A row may have very many.
struct Candidates {
    double base = 0.0;        // the gap so far
    double base_error = 0.0;  // its error scale
    std::vector<double> gain, error_scale;
    std::vector<std::uint8_t> taken, is_idle;

    Candidates(const Model& model, const Units& units)
        : gain(static_cast<std::size_t>(units.size()), 0.0),
          error_scale(gain.size(), 0.0),
          taken(gain.size(), 0),
          is_idle(gain.size(), 1) {
        for (const auto q : model.features) is_idle[static_cast<std::size_t>(units.of(q))] = 0;
        for (std::size_t u = 0; u < gain.size(); ++u)
            if (!is_idle[u]) busy_.push_back(u);
        next_idle();
    }

    // visit(u) of all that are looked at, in ascending order, until it returns false.
    template <class Visit>
    void each(Visit visit) const {
        auto idle = first_idle_;  // comes between the others
        for (const auto u : busy_) {
            if (idle < u) {
                if (!visit(idle)) return;
                idle = gain.size();
            }
            if (!visit(u)) return;
        }
        if (idle < gain.size()) visit(idle);
    }

    std::int32_t largest() const {
        std::size_t top = gain.size();
        each([&](std::size_t u) {
            if (top == gain.size() || gain[u] > gain[top]) top = u;
            return true;
        });
        return static_cast<std::int32_t>(top);
    }

    // The first candidate whose gap is as good as the largest, up to errors of this scale.
    template <class Scale>
    std::int32_t first_as_good(Scale scale) const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto top = static_cast<std::size_t>(largest());
        auto first = top;
        each([&](std::size_t u) {
            if (u >= top) return false;
            const double bound = kRelative * (base + gain[top]) + kUlps * scale(u, top);
            if (gain[top] - gain[u] > bound) return true;
            first = u;
            return false;
        });
        return static_cast<std::int32_t>(first);
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
        bool is_proven = true;
        each([&](std::size_t other) {
            if (other == own || (!is_open[own] && !is_open[other])) return true;
            const double bound = bound_of(own) + bound_of(other);
            return is_proven = !(bound > 0.0 && gain[own] - gain[other] < bound);
        });
        return is_proven;
    }

    // It adds to the gap so far.
    void take(std::int32_t unit) {
        const auto at = static_cast<std::size_t>(unit);
        base += gain[at];
        base_error += error_scale[at];
        leave_out(unit);
    }

    void leave_out(std::int32_t unit) {
        const auto at = static_cast<std::size_t>(unit);
        taken[at] = 1;
        if (is_idle[at])
            next_idle();
        else
            busy_.erase(std::lower_bound(busy_.begin(), busy_.end(), at));
    }

    // Those that are not idle and not taken, ascending.
    const std::vector<std::size_t>& busy() const { return busy_; }

private:
    void next_idle() {
        while (first_idle_ < gain.size() && (taken[first_idle_] || !is_idle[first_idle_])) ++first_idle_;
    }

    std::vector<std::size_t> busy_;
    std::size_t first_idle_ = 0;
};

}  // namespace predgap
