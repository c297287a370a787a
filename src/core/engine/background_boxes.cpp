// Answers about all subsets at once, from the boxes of the row and each row of the table.
#include <bit>

#include "engine/background.hpp"
#include "engine/parallel.hpp"
#include "sampling/switch_boxes.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

namespace {

struct Scratch {
    RedrawnCopies copies;
    SwitchBoxes boxes;
    std::vector<double> change;  // of subsets
};

}  // namespace

// task(scratch, row, stop) for each output and each row of the table, or each step-th one, with their boxes.
template <class Task>
bool Background::each_pair(const Request& r, const Units& units, int64_t step, Task task) const {
    const auto d = engine_.model().n_features();
    const auto make = [&] { return Scratch{{engine_.model(), rows_}, SwitchBoxes(units), {}}; };
    const auto piece = [&](Scratch& scratch, int64_t row, const std::atomic<bool>& stop) {
        scratch.copies.load(r.x + row * d);
        for (const auto& forest : forest_)
            for (int64_t b = 0; b < rows_.n_rows && !stop; b += step) {
                scratch.boxes.gather(forest, scratch.copies.own().data(), rows_.cell.data() + b * d);
                task(scratch, row, stop);
            }
    };
    return run_pieces(r.n_rows, r.n_threads, make, piece, r.poll);
}

bool Background::mean_gap(const Request& r, const Units& units, const BoxWeights& weights,
                          double* value) const {
    std::fill_n(value, r.n_rows, 0.0);
    const auto task = [&](const Scratch& scratch, int64_t row, const std::atomic<bool>& stop) {
        const auto& boxes = scratch.boxes;
        for (int64_t u = 0; u < boxes.size() && !stop; ++u)
            value[row] += kernels().box_pairs(boxes.list(), u, weights);
    };
    const bool finished = each_pair(r, units, 1, task);
    for (int64_t row = 0; row < r.n_rows; ++row)
        value[row] = std::max(value[row], 0.0) / static_cast<double>(rows_.n_rows);
    return finished;
}

bool Background::shapley(const Request& r, const Units& units, const BoxWeights& gained, const double* lost,
                         double* value) const {
    const int64_t n_units = units.size();
    std::fill_n(value, r.n_rows * n_units, 0.0);
    const auto task = [&](const Scratch& scratch, int64_t row, const std::atomic<bool>& stop) {
        const auto& boxes = scratch.boxes;
        const auto list = boxes.list();
        const auto size = static_cast<std::size_t>(boxes.size());
        std::vector<double> to_switched(size), to_stayed(size),
            to_bit(64 * static_cast<std::size_t>(list.n_words));
        for (int64_t u = 0; u < boxes.size() && !stop; ++u)
            kernels().box_pair_values(list, u, gained, lost,
                                      {to_switched.data(), to_stayed.data(), to_bit.data()});
        for (int64_t i = 0; i < boxes.size() * list.n_words; ++i) {
            const auto u = i / list.n_words, first = 64 * (i % list.n_words);
            for (auto bits = list.switched[i]; bits; bits &= bits - 1)
                to_bit[first + std::countr_zero(bits)] += to_switched[u];
            for (auto bits = list.stayed[i]; bits; bits &= bits - 1)
                to_bit[first + std::countr_zero(bits)] -= to_stayed[u];
        }
        for (std::size_t i = 0; i < boxes.units().size(); ++i)
            value[row * n_units + boxes.units()[i]] += to_bit[i];
    };
    const bool finished = each_pair(r, units, 1, task);
    for (int64_t i = 0; i < r.n_rows * n_units; ++i) value[i] /= static_cast<double>(rows_.n_rows);
    return finished;
}

namespace {

// Bits of boxes as bits of the chosen units; -1 where a unit is not chosen.
class ChosenBits {
public:
    ChosenBits(const SwitchBoxes& boxes, const int32_t* chosen, int32_t m) {
        for (const auto unit : boxes.units()) {
            const auto at = std::find(chosen, chosen + m, unit) - chosen;
            bit_.push_back(at < m ? static_cast<int32_t>(at) : -1);
        }
    }
    // The mask of the chosen units; is any not chosen?
    std::pair<uint64_t, bool> of(const uint64_t* words, int32_t n_words) const {
        uint64_t mask = 0;
        bool others = false;
        for (int32_t w = 0; w < n_words; ++w)
            for (auto bits = words[w]; bits; bits &= bits - 1) {
                const auto bit = bit_[static_cast<std::size_t>(64 * w + std::countr_zero(bits))];
                bit < 0 ? others = true : mask |= uint64_t{1} << bit;
            }
        return {mask, others};
    }

private:
    std::vector<int32_t> bit_;
};

// Of all subsets of m units, the sum of the changes of the boxes that hold, change: (2^m).
void add_up(const SwitchBoxes& boxes, const int32_t* chosen, int32_t m, std::vector<double>& change) {
    const auto list = boxes.list();
    const ChosenBits bits(boxes, chosen, m);
    std::fill(change.begin(), change.end(), 0.0);
    for (int64_t u = 0; u < boxes.size(); ++u) {
        const auto [switched, never] = bits.of(list.switched + u * list.n_words, list.n_words);
        if (never) continue;
        const auto stayed = bits.of(list.stayed + u * list.n_words, list.n_words).first;
        // "has stayed" is 1 less "has switched": multiplied out, over all subsets of those that stay
        for (uint64_t some = stayed;; some = (some - 1) & stayed) {
            change[switched | some] += std::popcount(some) % 2 ? -list.change[u] : list.change[u];
            if (!some) break;
        }
    }
    // Sums over all subsets of each subset, unit by unit. No partial sum is larger than all changes together.
    for (std::size_t half = 1; half < change.size(); half *= 2)
        for (std::size_t first = 0; first < change.size(); first += 2 * half)
            for (std::size_t i = first; i < first + half; ++i) change[i + half] += change[i];
}

}  // namespace

bool Background::subset_gaps(const Request& r, const Units& units, const int32_t* chosen, int32_t m,
                             double* value) const {
    const auto n_subsets = int64_t{1} << m;
    std::fill_n(value, r.n_rows * n_subsets, 0.0);
    const auto task = [&](Scratch& scratch, int64_t row, const std::atomic<bool>&) {
        auto& change = scratch.change;
        change.resize(static_cast<std::size_t>(n_subsets));
        add_up(scratch.boxes, chosen + row * m, m, change);
        double* sum = value + row * n_subsets;
        for (int64_t s = 0; s < n_subsets; ++s) sum[s] += change[s] * change[s];
    };
    const bool finished = each_pair(r, units, 1, task);
    for (int64_t i = 0; i < r.n_rows * n_subsets; ++i) value[i] /= static_cast<double>(rows_.n_rows);
    return finished;
}

int32_t Background::most_of_a_pair() const {
    int32_t depth = 0;
    for (const auto& forest : forest_) depth = std::max(depth, forest.depth);
    return 2 * depth;
}

bool Background::box_costs(const Request& r, const Units& units, int32_t m, BoxCost* cost) const {
    constexpr int64_t kFew = 8;  // rows of the table
    constexpr double kVisit = 6.0, kBox = 150.0, kPair = 1.7, kValues = 3.2, kSubset = 1.0;  // nanoseconds
    const auto step = std::max<int64_t>(1, rows_.n_rows / kFew);
    const auto n_read = static_cast<double>((rows_.n_rows + step - 1) / step);
    const auto each = static_cast<double>(rows_.n_rows) / n_read;
    const auto walk = kVisit * n_visits_ / static_cast<double>(forest_.size());
    std::fill_n(cost, r.n_rows, BoxCost{0.0, 0.0, 0.0});
    return each_pair(r, units, step, [&](const Scratch& scratch, int64_t row, const std::atomic<bool>&) {
        const auto n = static_cast<double>(scratch.boxes.size());
        const double pairs = scratch.boxes.list().n_words * n * (n + 1.0) / 2.0,
                     gather = walk + kBox * static_cast<double>(scratch.boxes.n_met());
        cost[row].mean_gap += each * (gather + kPair * pairs);
        cost[row].shapley += each * (gather + kValues * pairs);
        cost[row].subset_gaps += each * (2.0 * gather + kSubset * m * static_cast<double>(int64_t{1} << m));
    });
}

}  // namespace predgap
