// The choice of the unit for the next place of a ranking: the rule for near-ties that all rankings share, and
// a search for an order of units with a high sum of the gaps of its prefixes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/model.hpp"
#include "model/units.hpp"

namespace predgap {

// The units that may take the next place: what each would add to the gap, and the scale of its rounding
// error.
//
// Idle units cannot change anything, such as those of which no tree uses a feature. They add exactly 0 and
// are all alike, so that only the first of them that is left is looked at. A row may have very many.
struct Candidates {
    double base = 0.0;        // the gap so far
    double base_error = 0.0;  // its error scale
    std::vector<double> gain, error_scale;
    std::vector<std::uint8_t> taken, is_idle;

    // Those of which no tree uses a feature are idle; or those whose flag is not set.
    Candidates(const Model& model, const Units& units) : Candidates(used_units(model, units)) {}
    explicit Candidates(const std::vector<std::uint8_t>& is_busy)
        : gain(is_busy.size(), 0.0),
          error_scale(gain.size(), 0.0),
          taken(gain.size(), 0),
          is_idle(gain.size(), 1) {
        for (std::size_t u = 0; u < gain.size(); ++u) {
            if (!is_busy[u]) continue;
            is_idle[u] = 0;
            busy_.push_back(u);
        }
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

    // The first candidate whose gap is as good as the largest, that of `top`, up to errors of this scale.
    template <class Scale>
    std::int32_t first_as_good(std::int32_t top, Scale scale) const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto of_top = static_cast<std::size_t>(top);
        auto first = of_top;
        each([&](std::size_t u) {
            if (u >= of_top) return false;
            const double bound = kRelative * (base + gain[of_top]) + kUlps * scale(u, of_top);
            if (gain[of_top] - gain[u] > bound) return true;
            first = u;
            return false;
        });
        return static_cast<std::int32_t>(first);
    }

    // Gaps that differ by less than their error bound are ties, and ties go to the lower index.
    std::int32_t best() const { return best(largest()); }
    std::int32_t best(std::int32_t top) const {
        return first_as_good(top, [this](std::size_t u, std::size_t of_top) {
            return base_error + std::max(error_scale[u], error_scale[of_top]);
        });
    }

    // Whether errors, whose scale is at most this, could decide.
    bool in_doubt(std::int32_t top, double most) const {
        return first_as_good(top, [most](std::size_t, std::size_t) { return most; }) != top;
    }

    // Whether the gap with a unit is the largest, wherever the gaps are within their bounds. Units that
    // cannot change anything tie exactly.
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

    // The units that are not idle and not taken, ascending.
    const std::vector<std::size_t>& busy() const { return busy_; }

private:
    static std::vector<std::uint8_t> used_units(const Model& model, const Units& units) {
        std::vector<std::uint8_t> is_used(static_cast<std::size_t>(units.size()), 0);
        for (const auto q : model.features) is_used[static_cast<std::size_t>(units.of(q))] = 1;
        return is_used;
    }
    void next_idle() {
        while (first_idle_ < gain.size() && (taken[first_idle_] || !is_idle[first_idle_])) ++first_idle_;
    }

    std::vector<std::size_t> busy_;
    std::size_t first_idle_ = 0;
};

// Orders grow place by place; of each length the best are kept, and of orders of the same units the better
// one. State: what a subset needs so that gains can be asked for.
template <class State>
class Beam {
    static std::size_t word(std::int32_t unit) { return static_cast<std::size_t>(unit) / 64; }
    static std::uint64_t bit(std::int32_t unit) { return std::uint64_t{1} << (unit % 64); }

public:
    struct Entry {
        State state;
        std::vector<std::int32_t> order;
        std::vector<double> gaps;
        std::vector<std::uint64_t> taken;  // a bit for each unit
        double total = 0.0;

        double gap() const { return gaps.empty() ? 0.0 : gaps.back(); }
        bool has(std::int32_t unit) const { return taken[word(unit)] & bit(unit); }
    };

    Beam(std::span<const std::int32_t> chosen, std::int32_t n_places, std::int32_t width,
         std::int32_t n_units)
        : chosen_(chosen),
          n_places_(static_cast<std::size_t>(n_places)),
          width_(static_cast<std::size_t>(width)),
          n_units_(static_cast<std::size_t>(n_units)) {}

    // gains(entry) gives (n_units) what each unit would add to the gap; grown(state, unit) the state with it.
    // It ends early once stopped().
    template <class Gains, class Grown, class Stopped>
    void run(State first, Gains gains, Grown grown, Stopped stopped) {
        beam_.clear();
        beam_.push_back({std::move(first), {}, {}, std::vector<std::uint64_t>(n_units_ / 64 + 1, 0), 0.0});
        for (std::size_t place = 0; place < n_places_ && !stopped(); ++place) {
            const auto n_left = static_cast<double>(n_places_ - place - 1);
            std::vector<Entry> next;
            for (const auto& step : best_steps(gains, n_left)) next.push_back(taken(step, grown));
            beam_ = std::move(next);
        }
    }

    // The mean of the gaps.
    double write(std::int32_t* order, double* gaps) const {
        const auto& best = beam_.front();
        std::copy(best.order.begin(), best.order.end(), order);
        std::copy(best.gaps.begin(), best.gaps.end(), gaps);
        return best.total / static_cast<double>(std::max<std::size_t>(n_places_, 1));
    }

private:
    struct Step {
        std::size_t entry;
        std::int32_t unit;
        double gap, total;
        double promise;  // the total if the gap stayed as it is
    };

    template <class Gains>
    std::vector<Step> best_steps(Gains gains, double n_left) {
        std::map<std::vector<std::uint64_t>, Step> by_units;
        for (std::size_t e = 0; e < beam_.size(); ++e) {
            const auto& entry = beam_[e];
            const double* gain = gains(entry);
            auto units = entry.taken;
            for (const auto u : chosen_) {
                if (entry.has(u)) continue;
                const double gap = std::max(entry.gap() + gain[u], 0.0), total = entry.total + gap;
                units[word(u)] |= bit(u);
                const Step step{e, u, gap, total, total + n_left * gap};
                const auto [found, is_new] = by_units.try_emplace(units, step);
                if (!is_new && found->second.total < total) found->second = step;
                units[word(u)] &= ~bit(u);
            }
        }
        std::vector<Step> steps;
        for (const auto& [units, step] : by_units) steps.push_back(step);
        std::stable_sort(steps.begin(), steps.end(),
                         [](const Step& a, const Step& b) { return a.promise > b.promise; });
        if (steps.size() > width_) steps.resize(width_);
        return steps;
    }

    template <class Grown>
    Entry taken(const Step& step, Grown grown) const {
        const auto& from = beam_[step.entry];
        const bool is_last = from.order.size() + 1 == n_places_;
        Entry entry{is_last ? from.state : grown(from.state, step.unit), from.order, from.gaps, from.taken,
                    step.total};
        entry.order.push_back(step.unit);
        entry.gaps.push_back(step.gap);
        entry.taken[word(step.unit)] |= bit(step.unit);
        return entry;
    }

    std::span<const std::int32_t> chosen_;
    std::size_t n_places_, width_, n_units_;
    std::vector<Entry> beam_;
};

}  // namespace predgap
