// A search for an order of units with a high sum of the gaps of its prefixes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace predgap {

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
