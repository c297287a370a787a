#include "ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace predgap {

namespace {

using std::int32_t;
using std::int64_t;

// Candidates of one row at one step: what each would add to the gap, and the scale of its rounding error.
struct Candidates {
    double base = 0;        // the gap so far
    double base_error = 0;  // its error scale
    std::vector<double> gain, error_scale;
    std::vector<std::uint8_t> taken;

    explicit Candidates(int32_t d) : gain(d), error_scale(d), taken(d) {}

    // Gaps that differ by less than the error bound are ties, and ties go to the lower index.
    int32_t best() const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto d = static_cast<int32_t>(gain.size());
        int32_t top = -1;
        for (int32_t q = 0; q < d; ++q)
            if (!taken[q] && (top < 0 || gain[q] > gain[top])) top = q;
        for (int32_t q = 0; q < top; ++q) {
            const double scale = base_error + std::max(error_scale[q], error_scale[top]);
            const double bound = kRelative * (base + gain[top]) + kUlps * scale;
            if (!taken[q] && gain[top] - gain[q] <= bound) return q;
        }
        return top;
    }

    void take(int32_t q) {
        taken[q] = 1;
        base += gain[q];
        base_error += error_scale[q];
    }
};

void read_gains(const Worker& w, const Block& b, int lane, Candidates& c) {
    const double n = w.plan().n_trees;  // leaves reached at once, at most: (sum of |g|)^2 <= n * sum of g^2
    for (int32_t q = 0; q < w.plan().n_features; ++q) {
        c.gain[q] = b.gain[int64_t{q} * kLanes + lane];
        c.error_scale[q] = n * b.error_of[int64_t{q} * kLanes + lane];
    }
    c.base_error = n * b.error_of[int64_t{w.plan().n_features} * kLanes + lane];
}

void order_by_gain(Candidates& c, int32_t* order, double* score) {
    const auto d = static_cast<int32_t>(c.gain.size());
    for (int32_t place = 0; place < d; ++place) {
        order[place] = c.best();
        c.taken[order[place]] = 1;
    }
    std::transform(c.gain.begin(), c.gain.end(), score, [](double g) { return std::max(g, 0.0); });
}

void begin_gains(Worker& w) {
    w.begin_row(true);
    kernels().begin_nested(w.plan(), w.block());
    kernels().gains(w.plan(), w.block());
}

}  // namespace

void greedy_by_terms(Worker& w, int32_t* order, double* score) {
    auto& b = w.block();
    const int64_t d = w.plan().n_features;
    std::vector<Candidates> candidates(kLanes, Candidates(static_cast<int32_t>(d)));
    begin_gains(w);
    for (int32_t step = 0; step < d && !*b.stop; ++step) {
        if (step > 0) kernels().gains(w.plan(), b);
        std::fill(b.fresh, b.fresh + d, LaneBits{0});
        for (int lane = 0; lane < kLanes; ++lane) {
            auto& c = candidates[lane];
            read_gains(w, b, lane, c);
            const auto q = c.best();
            b.fresh[q] |= static_cast<LaneBits>(1u << lane);
            order[w.row(lane) * d + step] = q;
            score[w.row(lane) * d + q] = c.gain[q];
            c.take(q);
        }
        if (step + 1 < d) kernels().take(w.plan(), b);
    }
}

void single_by_terms(Worker& w, int32_t* order, double* score) {
    begin_gains(w);
    for (int lane = 0; lane < w.n_rows(); ++lane) {
        Candidates c(w.plan().n_features);
        read_gains(w, w.block(), lane, c);
        const auto at = w.row(lane) * w.plan().n_features;
        order_by_gain(c, order + at, score + at);
    }
}

void greedy_by_pairs(Worker& w, const Pairs& pairs, int lane, int32_t* order, double* score) {
    const int64_t d = w.plan().n_features, at = w.row(lane) * d;
    const auto& stop = *w.block().stop;
    LaneSubset subset(w);
    Candidates c(static_cast<int32_t>(d));
    for (int32_t step = 0; step < d && !stop; ++step) {
        for (int32_t q = 0; q < d && !stop; ++q) {
            if (c.taken[q]) continue;
            subset.add(lane, q);
            const auto result = pairs.gap(w.pairs(), w.tables(lane), subset.added(lane));
            subset.remove(lane, q);
            c.gain[q] = result.gap - c.base;
            c.error_scale[q] = result.error_scale - c.base_error;
        }
        const auto q = c.best();
        order[at + step] = q;
        score[at + q] = c.gain[q];
        subset.add(lane, q);
        c.take(q);
    }
}

void single_by_pairs(Worker& w, const Pairs& pairs, int lane, int32_t* order, double* score) {
    const int64_t at = w.row(lane) * w.plan().n_features;
    LaneSubset subset(w);
    Candidates c(w.plan().n_features);
    for (int32_t q = 0; q < w.plan().n_features && !*w.block().stop; ++q) {
        subset.add(lane, q);
        const auto result = pairs.gap(w.pairs(), w.tables(lane), subset.added(lane));
        subset.remove(lane, q);
        c.gain[q] = result.gap;
        c.error_scale[q] = result.error_scale;
    }
    order_by_gain(c, order + at, score + at);
}

}  // namespace predgap
