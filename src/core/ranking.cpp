#include "ranking.hpp"

#include <algorithm>
#include <array>
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

    int32_t largest() const {
        int32_t top = -1;
        for (int32_t q = 0; q < static_cast<int32_t>(gain.size()); ++q)
            if (!taken[q] && (top < 0 || gain[q] > gain[top])) top = q;
        return top;
    }

    // The first candidate whose gap is as good as the largest, up to the error that errors of this scale
    // make.
    template <class Scale>
    int32_t first_as_good(Scale scale) const {
        constexpr double kRelative = 1e-12;
        constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();
        const auto top = largest();
        for (int32_t q = 0; q < top; ++q) {
            const double bound = kRelative * (base + gain[top]) + kUlps * scale(q, top);
            if (!taken[q] && gain[top] - gain[q] <= bound) return q;
        }
        return top;
    }

    // Gaps that differ by less than the error bound are ties, and ties go to the lower index.
    int32_t best() const {
        return first_as_good([this](int32_t q, int32_t top) {
            return base_error + std::max(error_scale[q], error_scale[top]);
        });
    }

    // Could errors, whose scale is at most this, decide?
    bool in_doubt(double most) const {
        return first_as_good([most](int32_t, int32_t) { return most; }) != largest();
    }

    void take(int32_t q) {
        taken[q] = 1;
        base += gain[q];
        base_error += error_scale[q];
    }
};

// Sums of the outputs' gains.
void read_gains(std::span<const Output> outputs, int lane, Candidates& c) {
    std::fill(c.gain.begin(), c.gain.end(), 0.0);
    for (const auto& [w, pairs] : outputs)
        for (int32_t q = 0; q < w.plan().n_features; ++q)
            c.gain[q] += w.block().gain[int64_t{q} * kLanes + lane];
}

// Leaves reached at once, at most: (sum of |g|)^2 <= n * sum of g^2.
double error_factor(const Worker& w) { return w.plan().n_trees; }

void read_errors(std::span<const Output> outputs, int lane, Candidates& c) {
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    c.base_error = 0.0;
    for (const auto& [w, pairs] : outputs) {
        const auto* error_of = w.block().error_of;
        for (int32_t q = 0; q < w.plan().n_features; ++q)
            c.error_scale[q] += error_factor(w) * error_of[int64_t{q} * kLanes + lane];
        c.base_error += error_factor(w) * error_of[int64_t{w.plan().n_features} * kLanes + lane];
    }
}

// The error scale of a row if all features move: no subset has more.
double largest_error(std::span<const Output> outputs, int lane) {
    double sum = 0.0;
    for (const auto& [w, pairs] : outputs) {
        double own = 0.0;
        for (int32_t c = 0; c < w.plan().n_components; ++c)
            own += w.block().error_scale[int64_t{c} * kLanes + lane];
        sum += error_factor(w) * own * (1.0 + 1e-9);  // whatever order the parts are summed in
    }
    return sum;
}

// The best candidate of each lane. What each feature adds to the error is only asked where it could matter.
void choose(std::span<const Output> outputs, const std::array<double, kLanes>& most,
            std::vector<Candidates>& candidates, std::array<int32_t, kLanes>& best) {
    bool doubt = false;
    for (int lane = 0; lane < kLanes; ++lane) {
        read_gains(outputs, lane, candidates[lane]);
        best[lane] = candidates[lane].largest();
        doubt = doubt || candidates[lane].in_doubt(most[lane]);
    }
    if (!doubt) return;
    for (const auto& [w, pairs] : outputs) kernels().errors(w.plan(), w.block());
    for (int lane = 0; lane < kLanes; ++lane) {
        read_errors(outputs, lane, candidates[lane]);
        best[lane] = candidates[lane].best();
    }
}

void order_by_gain(Candidates& c, int32_t* order, double* score) {
    const auto d = static_cast<int32_t>(c.gain.size());
    for (int32_t place = 0; place < d; ++place) {
        order[place] = c.best();
        c.taken[order[place]] = 1;
    }
    std::transform(c.gain.begin(), c.gain.end(), score, [](double g) { return std::max(g, 0.0); });
}

void begin_gains(std::span<const Output> outputs) {
    for (const auto& [w, pairs] : outputs) {
        w.begin_row(true);
        kernels().begin_nested(w.plan(), w.block());
        kernels().gains(w.plan(), w.block());
    }
}

// The subsets of one row, one per output: what moves does not depend on the output.
class PairGaps {
public:
    PairGaps(std::span<const Output> outputs, int lane)
        : outputs_(outputs), subset_(outputs[0].worker), lane_(lane) {}

    void add(int32_t q) { subset_.add(lane_, q); }
    // The sum of the outputs' gaps with one feature more.
    Pairs::Result with(int32_t q) {
        subset_.add(lane_, q);
        Pairs::Result sum{0.0, 0.0};
        for (const auto& [w, pairs] : outputs_) {
            const auto result = pairs.gap(w.pairs(), w.tables(lane_), subset_.added(lane_));
            sum.gap += result.gap;
            sum.error_scale += result.error_scale;
        }
        subset_.remove(lane_, q);
        return sum;
    }

private:
    std::span<const Output> outputs_;
    LaneSubset subset_;
    int lane_;
};

}  // namespace

void greedy_by_terms(std::span<const Output> outputs, int32_t* order, double* score) {
    auto& first = outputs[0].worker;
    const auto& stop = *first.block().stop;
    const int64_t d = first.plan().n_features;
    std::vector<Candidates> candidates(kLanes, Candidates(static_cast<int32_t>(d)));
    std::vector<LaneBits> fresh(static_cast<std::size_t>(d));
    begin_gains(outputs);
    std::array<double, kLanes> most;
    for (int lane = 0; lane < kLanes; ++lane) most[lane] = largest_error(outputs, lane);
    std::array<int32_t, kLanes> best;
    for (int32_t step = 0; step < d && !stop; ++step) {
        if (step > 0)
            for (const auto& [w, pairs] : outputs) kernels().gains(w.plan(), w.block());
        std::fill(fresh.begin(), fresh.end(), LaneBits{0});
        choose(outputs, most, candidates, best);
        for (int lane = 0; lane < kLanes; ++lane) {
            auto& c = candidates[lane];
            const auto q = best[lane];
            fresh[q] |= static_cast<LaneBits>(1u << lane);
            order[first.row(lane) * d + step] = q;
            score[first.row(lane) * d + q] = c.gain[q];
            c.take(q);
        }
        if (step + 1 == d) break;
        for (const auto& [w, pairs] : outputs) {
            std::copy(fresh.begin(), fresh.end(), w.block().fresh);
            kernels().take(w.plan(), w.block());
        }
    }
}

void single_by_terms(std::span<const Output> outputs, int32_t* order, double* score) {
    auto& first = outputs[0].worker;
    begin_gains(outputs);
    for (const auto& [w, pairs] : outputs) kernels().errors(w.plan(), w.block());
    for (int lane = 0; lane < first.n_rows(); ++lane) {
        Candidates c(first.plan().n_features);
        read_gains(outputs, lane, c);
        read_errors(outputs, lane, c);
        const auto at = first.row(lane) * first.plan().n_features;
        order_by_gain(c, order + at, score + at);
    }
}

void greedy_by_pairs(std::span<const Output> outputs, int lane, int32_t* order, double* score) {
    auto& first = outputs[0].worker;
    const int64_t d = first.plan().n_features, at = first.row(lane) * d;
    const auto& stop = *first.block().stop;
    PairGaps gaps(outputs, lane);
    Candidates c(static_cast<int32_t>(d));
    for (int32_t step = 0; step < d && !stop; ++step) {
        for (int32_t q = 0; q < d && !stop; ++q) {
            if (c.taken[q]) continue;
            const auto result = gaps.with(q);
            c.gain[q] = result.gap - c.base;
            c.error_scale[q] = result.error_scale - c.base_error;
        }
        const auto q = c.best();
        order[at + step] = q;
        score[at + q] = c.gain[q];
        gaps.add(q);
        c.take(q);
    }
}

void single_by_pairs(std::span<const Output> outputs, int lane, int32_t* order, double* score) {
    auto& first = outputs[0].worker;
    const int64_t at = first.row(lane) * first.plan().n_features;
    PairGaps gaps(outputs, lane);
    Candidates c(first.plan().n_features);
    for (int32_t q = 0; q < first.plan().n_features && !*first.block().stop; ++q) {
        const auto result = gaps.with(q);
        c.gain[q] = result.gap;
        c.error_scale[q] = result.error_scale;
    }
    order_by_gain(c, order + at, score + at);
}

}  // namespace predgap
