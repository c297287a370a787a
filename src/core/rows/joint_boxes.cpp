// Answers about all subsets at once, from the boxes of the row and each row of the table.
#include <bit>

#include "rows/joint.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

// task(boxes) for each output and each row of the table, or each step-th one.
template <class Task>
void JointRow::each_box_list(int64_t step, Task task) {
    const auto d = joint_.routes().model.n_features();
    const auto& rows = joint_.rows();
    for (const auto& forest : joint_.forests())
        for (int64_t b = 0; b < rows.n_rows && !stopped(); b += step) {
            boxes_.gather(forest, copies_.own().data(), rows.cell.data() + b * d);
            task(boxes_);
        }
}

double JointRow::mean_gap(const BoxWeights& weights) {
    double sum = 0.0;
    each_box_list(1, [&](const SwitchBoxes& boxes) {
        for (int64_t u = 0; u < boxes.size() && !stopped(); ++u)
            sum += kernels().box_pairs(boxes.list(), u, weights);
    });
    return std::max(sum, 0.0) / static_cast<double>(joint_.rows().n_rows);
}

void JointRow::shapley(const BoxWeights& gained, const double* lost, double* value) {
    std::fill_n(value, units_.size(), 0.0);
    each_box_list(1, [&](const SwitchBoxes& boxes) {
        const auto list = boxes.list();
        const auto size = static_cast<std::size_t>(boxes.size());
        std::vector<double> to_switched(size), to_stayed(size),
            to_bit(64 * static_cast<std::size_t>(list.n_words));
        for (int64_t u = 0; u < boxes.size() && !stopped(); ++u)
            kernels().box_pair_values(list, u, gained, lost,
                                      {to_switched.data(), to_stayed.data(), to_bit.data()});
        for (int64_t i = 0; i < boxes.size() * list.n_words; ++i) {
            const auto u = i / list.n_words, first = 64 * (i % list.n_words);
            for (auto bits = list.switched[i]; bits; bits &= bits - 1)
                to_bit[first + std::countr_zero(bits)] += to_switched[u];
            for (auto bits = list.stayed[i]; bits; bits &= bits - 1)
                to_bit[first + std::countr_zero(bits)] -= to_stayed[u];
        }
        for (std::size_t i = 0; i < boxes.units().size(); ++i) value[boxes.units()[i]] += to_bit[i];
    });
    for (int64_t u = 0; u < units_.size(); ++u) value[u] /= static_cast<double>(joint_.rows().n_rows);
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

Answer JointRow::subset_gaps(const Units&, const int32_t* chosen, int32_t m, const double*, const Accuracy&,
                             double* gaps) {
    const auto n_subsets = int64_t{1} << m;
    std::fill_n(gaps, n_subsets, 0.0);
    change_.resize(static_cast<std::size_t>(n_subsets));
    each_box_list(1, [&](const SwitchBoxes& boxes) {
        add_up(boxes, chosen, m, change_);
        for (int64_t s = 0; s < n_subsets; ++s) gaps[s] += change_[s] * change_[s];
    });
    for (int64_t s = 0; s < n_subsets; ++s) gaps[s] /= static_cast<double>(joint_.rows().n_rows);
    return {};
}

int32_t Joint::most_of_a_pair() const {
    int32_t depth = 0;
    for (const auto& forest : forest_) depth = std::max(depth, forest.depth);
    return 2 * depth;
}

BoxCost JointRow::box_cost(int32_t m) {
    constexpr int64_t kFew = 8;  // rows of the table
    constexpr double kVisit = 6.0, kBox = 150.0, kPair = 1.7, kValues = 3.2, kSubset = 1.0;  // nanoseconds
    const auto n_rows = joint_.rows().n_rows, step = std::max<int64_t>(1, n_rows / kFew);
    const auto n_read = static_cast<double>((n_rows + step - 1) / step);
    const auto each = static_cast<double>(n_rows) / n_read;
    const auto walk = kVisit * joint_.n_visits() / static_cast<double>(joint_.forests().size());
    BoxCost cost{0.0, 0.0, 0.0};
    each_box_list(step, [&](const SwitchBoxes& boxes) {
        const auto n = static_cast<double>(boxes.size());
        const double pairs = boxes.list().n_words * n * (n + 1.0) / 2.0,
                     gather = walk + kBox * static_cast<double>(boxes.n_met());
        cost.mean_gap += each * (gather + kPair * pairs);
        cost.shapley += each * (gather + kValues * pairs);
        cost.subset_gaps += each * (2.0 * gather + kSubset * m * static_cast<double>(int64_t{1} << m));
    });
    return cost;
}

}  // namespace predgap
