// Races of candidates: points are added look by look until the order is settled.
#include "sampling/racing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace predgap {

using std::int32_t;
using std::int64_t;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Race::Race(std::span<Walker> outputs, const Units& units, const SampledCopies& copies,
           const SharedPoints& points, double clear, const std::atomic<bool>& stop)
    : outputs_(outputs),
      units_(units),
      copies_(copies),
      points_(points),
      clear_(clear),
      n_units_(units.size()),
      stop_(stop),
      taken_(static_cast<std::size_t>(n_units_), 0),
      open_(static_cast<std::size_t>(n_units_), 1),
      sum_(static_cast<std::size_t>(n_units_) * static_cast<std::size_t>(points.n_replicates)),
      batch_(Walker::batch(units.n_features())),
      change_(static_cast<std::size_t>(batch_)),
      more_(static_cast<std::size_t>(batch_ * n_units_)) {}

bool Race::crosses(int32_t u) const {
    return std::ranges::any_of(units_.members(u), [&](int32_t q) { return copies_.crosses(q); });
}

bool Race::can_cross(int32_t u) const {
    return std::ranges::any_of(units_.members(u), [&](int32_t q) { return copies_.can_cross(q); });
}

void Race::begin() {
    n_points_ = 0;
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (int32_t u = 0; u < n_units_; ++u) open_[u] = !taken_[u];
}

// Adds the points of a look. False if there is no such look, or if the race was stopped.
bool Race::add_look(std::size_t look) {
    if (look >= points_.look_end.size()) return false;
    const auto begin = look ? points_.look_end[look - 1] : 0, end = points_.look_end[look];
    const auto per_replicate = (end - begin) / points_.n_replicates;
    bool changes = false;
    for (int32_t u = 0; u < n_units_; ++u) changes = changes || (open_[u] && crosses(u));
    for (auto first = begin; changes && first < end && !stop_; first += batch_)
        add(first, std::min(batch_, end - first), begin, per_replicate);
    n_points_ += per_replicate;
    return !stop_;
}

void Race::add(int64_t first, int64_t n, int64_t look_begin, int64_t per_replicate) {
    for (auto& walker : outputs_) {
        walker.candidates(first, n, taken_.data(), open_.data(), change_.data(), more_.data());
        for (int64_t p = 0; p < n; ++p) {
            double* sum = sum_.data() + (first + p - look_begin) / per_replicate * n_units_;
            for (int32_t u = 0; u < n_units_; ++u) {
                const double more = more_[p * n_units_ + u];
                sum[u] += more * (2.0 * change_[p] + more);
            }
        }
    }
}

double Race::mean(int32_t u) const {
    double sum = 0.0;
    for (int r = 0; r < points_.n_replicates; ++r) sum += sum_[r * n_units_ + u];
    return n_points_ ? sum / static_cast<double>(n_points_ * points_.n_replicates) : 0.0;
}

// The t statistic of how far u is ahead of a rival whose mean is not larger. A tie is certain only where
// neither of the two can change cells.
double Race::ahead(int32_t u, int32_t rival) const {
    const auto difference = [&](int r) { return sum_[r * n_units_ + u] - sum_[r * n_units_ + rival]; };
    const double n = points_.n_replicates;
    double mean = 0.0, square = 0.0, size = 0.0;
    for (int r = 0; r < points_.n_replicates; ++r) {
        mean += difference(r) / n;
        size += (std::abs(sum_[r * n_units_ + u]) + std::abs(sum_[r * n_units_ + rival])) / n;
    }
    for (int r = 0; r < points_.n_replicates; ++r) {
        const double off = difference(r) - mean;
        square += off * off;
    }
    if (mean == 0.0 && square == 0.0) return can_cross(u) || can_cross(rival) ? 0.0 : kInfinity;
    // Points are so even that all replicates may agree, and be off by a share of one point.
    const double least = size / (static_cast<double>(n_points_) * (n + 1.0));
    return std::max(mean / std::max(std::sqrt(square / (n * (n - 1.0))), least), 0.0);
}

bool Race::is_settled(int32_t u, int32_t rival, double lead) const {
    return lead > clear_ || !(crosses(u) || crosses(rival));
}

int32_t Race::leader() const {
    int32_t best = -1;
    for (int32_t u = 0; u < n_units_; ++u)
        if (open_[u] && (best < 0 || mean(u) > mean(best))) best = u;
    return best;
}

// Runs one race among those not taken; returns the winner's lead.
double Race::step(int32_t& winner) {
    begin();
    winner = leader();
    double dropped = kInfinity, closest = kInfinity;
    for (std::size_t look = 0; add_look(look); ++look) {
        winner = leader();
        closest = kInfinity;
        bool settled = true;
        for (int32_t u = 0; u < n_units_; ++u) {
            if (!open_[u] || u == winner) continue;
            const double t = ahead(winner, u);
            settled = settled && is_settled(winner, u, t);
            open_[u] = t <= clear_;
            (open_[u] ? closest : dropped) = std::min(open_[u] ? closest : dropped, t);
        }
        if (settled) break;
    }
    return std::min(dropped, closest);
}

void Race::greedy(int32_t n_places, int32_t* order, double* score, double* lead) {
    for (int32_t place = 0; place < n_places && !stop_; ++place) {
        lead[place] = step(order[place]);
        score[order[place]] = mean(order[place]);
        taken_[order[place]] = 1;
    }
}

void Race::single(int32_t n_places, int32_t* order, double* score, double* lead) {
    begin();
    std::vector<int32_t> all(static_cast<std::size_t>(n_units_));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t look = 0; add_look(look); ++look) {
        std::sort(all.begin(), all.end(),
                  [&](int32_t a, int32_t b) { return mean(a) != mean(b) ? mean(a) > mean(b) : a < b; });
        bool settled = true;
        for (int32_t place = 0; place < n_places; ++place) {
            lead[place] = kInfinity;
            for (auto after = place + 1; after < n_units_; ++after) {
                const double t = ahead(all[place], all[after]);
                lead[place] = std::min(lead[place], t);
                settled = settled && is_settled(all[place], all[after], t);
            }
        }
        if (settled) break;
    }
    for (int32_t place = 0; place < n_places; ++place) {
        order[place] = all[place];
        score[order[place]] = mean(order[place]);
    }
}

}  // namespace predgap
