#include "rows/joint.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "constants.hpp"
#include "rows/search.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;
using std::uint8_t;

// ---- the table -------------------------------------------------------------------------------------------

Joint::Joint(const Routes& routes, const double* rows, int64_t n_rows)
    : routes_(routes), rows_(routes.model, rows, n_rows) {
    for (const auto& output : routes.model.output) forest_.emplace_back(output, routes.model.atoms);
    count_visits();
}

// Counts the visits of a few rows of the table, and takes the mean.
void Joint::count_visits() {
    constexpr int64_t kFew = 32;
    const auto d = routes_.model.n_features();
    const auto step = std::max<int64_t>(1, rows_.n_rows / kFew);
    double n_rows = 0.0;
    for (int64_t r = 0; r < rows_.n_rows; r += step, ++n_rows)
        for (const auto& forest : forest_)
            for (const auto root : forest.e.root) {
                const double n = forest.path_length(root, rows_.cell.data() + r * d);
                n_visits_ += n + 1.0;
                n_turned_ += n * (n + 1.0) / 2.0;
            }
    n_visits_ /= std::max(n_rows, 1.0);
    n_turned_ /= std::max(n_rows, 1.0);
}

Joint::RowPrice Joint::price(Question::Kind question, int32_t n_units, int32_t n) const {
    using namespace of_walks;
    const double d = routes_.model.n_features(), units = std::max(n_units, 1);
    const double rounds = question == Question::greedy || question == Question::search ? n : 1.0;
    double visits = n_visits_, cells = d;
    if (question == Question::curve) {
        visits += 2.0 * kTurns * n_turned_;  // each turn is walked from the root
        cells += n;
    } else if (question != Question::gap && question != Question::outcomes) {
        const double still_open = 1.0 - (rounds - 1.0) / (2.0 * units);  // of the units, the mean
        visits += kTurns * still_open * n_turned_;
        cells += units;
    }
    const double n_rows = static_cast<double>(rows_.n_rows);
    const double batch = static_cast<double>(Walker::batch(routes_.model.n_features()));
    return {n_rows * rounds * (kVisit * visits + kCell * cells),
            n_rows * d * sizeof(int32_t) + batch * (d * sizeof(Move) + 2.0 * units * sizeof(double))};
}

// ---- gaps, curves and moments of a row -------------------------------------------------------------------

JointRow::JointRow(const Joint& joint, const Units& units)
    : joint_(joint), units_(units), copies_(joint.routes().model, joint.rows()), boxes_(units) {
    for (const auto& forest : joint.forests()) walkers_.emplace_back(forest, units);
}

void JointRow::load(const RawRow& row, const std::atomic<bool>& stop) {
    stop_ = &stop;
    copies_.load(row.x);
    for (auto& walker : walkers_) walker.load(copies_);
}

// task(output, first, f(x') - f(x) at some rows of the table from the first on), for all outputs and all rows
// of the table.
template <class Task>
void JointRow::each_change(const uint8_t* subset, Task task) {
    const auto d = joint_.routes().model.n_features();
    const auto batch = Walker::batch(d), n_rows = joint_.rows().n_rows;
    const std::vector<uint8_t> none(static_cast<std::size_t>(d), 0);
    std::vector<double> change(static_cast<std::size_t>(batch)), more(static_cast<std::size_t>(batch * d));
    for (std::size_t k = 0; k < walkers_.size(); ++k)
        for (int64_t first = 0; first < n_rows && !stopped(); first += batch) {
            const auto n = std::min(batch, n_rows - first);
            walkers_[k].candidates(first, n, subset, none.data(), change.data(), more.data());
            task(static_cast<int64_t>(k), first, std::span(change).first(static_cast<std::size_t>(n)));
        }
}

Answer JointRow::gap(const uint8_t* subset, const Accuracy&, double& value) {
    value = 0.0;
    each_change(subset, [&](int64_t, int64_t, std::span<const double> changes) {
        for (const double change : changes) value += change * change;
    });
    value /= static_cast<double>(joint_.rows().n_rows);
    return {};
}

void JointRow::changes(const uint8_t* subset, double* changes) {
    each_change(subset, [&](int64_t output, int64_t first, std::span<const double> some) {
        std::copy(some.begin(), some.end(), changes + output * joint_.rows().n_rows + first);
    });
}

void JointRow::mean_change(const uint8_t* subset, double* change) {
    std::fill_n(change, walkers_.size(), 0.0);
    each_change(subset, [&](int64_t output, int64_t, std::span<const double> changes) {
        for (const double by : changes) change[output] += by;
    });
    for (std::size_t k = 0; k < walkers_.size(); ++k) change[k] /= static_cast<double>(joint_.rows().n_rows);
}

namespace {

// The mean of changes that come in batches, and sums of products of their distances from it, output by
// output.
struct Spread {
    int64_t n_outputs;
    double *mean, *product;  // (n_outputs), (n_outputs, n_outputs)
    double n = 0.0;          // changes so far

    // changes: (n_outputs, stride), the first n_more of each. The sums of the batch are taken around its own
    // mean, and the distance between the means is added.
    void add(const std::vector<double>& changes, int64_t stride, int64_t n_more) {
        const double more = static_cast<double>(n_more), all = n + more;
        std::vector<double> batch_mean(static_cast<std::size_t>(n_outputs));
        const auto at = [&](int64_t k) { return changes.data() + k * stride; };
        for (int64_t k = 0; k < n_outputs; ++k)
            batch_mean[k] = std::accumulate(at(k), at(k) + n_more, 0.0) / more;
        for (int64_t k = 0; k < n_outputs; ++k)
            for (auto l = k; l < n_outputs; ++l) {
                double sum = 0.0;
                for (int64_t p = 0; p < n_more; ++p)
                    sum += (at(k)[p] - batch_mean[k]) * (at(l)[p] - batch_mean[l]);
                const double apart = (batch_mean[k] - mean[k]) * (batch_mean[l] - mean[l]);
                product[k * n_outputs + l] += sum + apart * (n * more / all);
            }
        for (int64_t k = 0; k < n_outputs; ++k) mean[k] += (batch_mean[k] - mean[k]) * (more / all);
        n = all;
    }
};

}  // namespace

Answer JointRow::moments(const uint8_t* subset, const Accuracy&, double* change, double* covariance) {
    const auto d = joint_.routes().model.n_features();
    const auto n_outputs = static_cast<int64_t>(walkers_.size()), batch = Walker::batch(d),
               n_rows = joint_.rows().n_rows;
    const std::vector<uint8_t> none(static_cast<std::size_t>(d), 0);
    std::fill_n(change, n_outputs, 0.0);
    std::fill_n(covariance, n_outputs * n_outputs, 0.0);
    std::vector<double> changes(static_cast<std::size_t>(n_outputs * batch)),
        more(static_cast<std::size_t>(batch * d));
    Spread spread{n_outputs, change, covariance};
    for (int64_t first = 0; first < n_rows && !stopped(); first += batch) {
        const auto n = std::min(batch, n_rows - first);
        for (std::size_t k = 0; k < walkers_.size(); ++k)
            walkers_[k].candidates(first, n, subset, none.data(),
                                   changes.data() + static_cast<int64_t>(k) * batch, more.data());
        spread.add(changes, batch, n);
    }
    for (int64_t k = 0; k < n_outputs; ++k)
        for (auto l = k; l < n_outputs; ++l)
            covariance[k * n_outputs + l] = covariance[l * n_outputs + k] =
                covariance[k * n_outputs + l] / static_cast<double>(n_rows);
    return {};
}

Answer JointRow::curve(const Units&, const int32_t* order, int32_t n_places, const Accuracy&, double* gaps) {
    const auto batch = Walker::batch(joint_.routes().model.n_features()), n_rows = joint_.rows().n_rows;
    std::vector<double> more(static_cast<std::size_t>(batch * n_places));
    std::fill_n(gaps, n_places, 0.0);
    for (auto& walker : walkers_)
        for (int64_t first = 0; first < n_rows && !stopped(); first += batch) {
            const auto n = std::min(batch, n_rows - first);
            walker.prefixes(first, n, order, n_places, more.data());
            for (int64_t p = 0; p < n; ++p) {
                double change = 0.0;
                for (int64_t k = 0; k < n_places; ++k) {
                    change += more[static_cast<std::size_t>(p * n_places + k)];
                    gaps[k] += change * change;
                }
            }
        }
    for (int64_t k = 0; k < n_places; ++k) gaps[k] /= static_cast<double>(n_rows);
    return {};
}

// ---- rankings of a row -----------------------------------------------------------------------------------

// Reads what each unit would add to the gap of those that are taken, and the scales of the errors: those of
// the gaps of single trees, times the number of trees.
void JointRow::read_gains(Candidates& c) {
    const auto n_units = static_cast<int64_t>(c.gain.size());
    const auto batch = Walker::batch(joint_.routes().model.n_features());
    const auto n_of_table = joint_.rows().n_rows;
    const auto n_rows = static_cast<double>(n_of_table);
    std::vector<double> change(static_cast<std::size_t>(batch)),
        more(static_cast<std::size_t>(batch * n_units));
    std::vector<uint8_t> open(c.taken);
    for (auto& is_open : open) is_open = !is_open;
    c.base = c.base_error = 0.0;
    std::fill(c.gain.begin(), c.gain.end(), 0.0);
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    for (auto& walker : walkers_)
        for (int64_t first = 0; first < n_of_table && !stopped(); first += batch) {
            const auto n = std::min(batch, n_of_table - first);
            walker.candidates(first, n, c.taken.data(), open.data(), change.data(), more.data());
            for (int64_t p = 0; p < n; ++p) {
                c.base += change[p] * change[p];
                for (int64_t u = 0; u < n_units; ++u) {
                    const double by = more[p * n_units + u];
                    c.gain[u] += by * (2.0 * change[p] + by);
                }
            }
            const auto n_trees = static_cast<double>(walker.n_trees());
            c.base_error += n_trees * walker.taken_squares();
            for (int32_t u = 0; u < n_units; ++u) c.error_scale[u] += n_trees * walker.turned_squares(u);
        }
    c.base /= n_rows;
    c.base_error /= n_rows;
    for (int64_t u = 0; u < n_units; ++u) {
        c.gain[u] /= n_rows;
        c.error_scale[u] /= n_rows;
    }
}

Answer JointRow::ranked(bool greedy, const Places& places) {
    Candidates candidates(joint_.routes().model, units_);
    bool is_new = true;
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        if ((greedy && is_new) || place == 0) read_gains(candidates);
        const auto best = candidates.best();
        places.order[place] = best;
        places.score[best] = candidates.gain[static_cast<std::size_t>(best)];
        places.proven[place] = 1;
        candidates.leave_out(best);
        is_new = !candidates.is_idle[static_cast<std::size_t>(best)];
    }
    return {};
}

Answer JointRow::search(const Units&, const int32_t* chosen, int32_t m, int32_t n_places, int32_t width,
                        const Accuracy&, int32_t* order, double* gaps) {
    struct Nothing {};
    Candidates candidates(joint_.routes().model, units_);
    const auto gains = [&](const Beam<Nothing>::Entry& entry) {
        std::fill(candidates.taken.begin(), candidates.taken.end(), 0);
        for (const auto u : entry.order) candidates.taken[static_cast<std::size_t>(u)] = 1;
        read_gains(candidates);
        return candidates.gain.data();
    };
    Beam<Nothing> beam({chosen, chosen + m}, n_places, width, units_.size());
    beam.run({}, gains, [](const Nothing&, int32_t) { return Nothing{}; }, [&] { return stopped(); });
    beam.write(order, gaps);
    return {};
}

// ---- all subsets of a row, from its boxes ----------------------------------------------------------------

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
    // The mask of the chosen units, and whether any is not chosen.
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

// Adds up the changes of the boxes that hold, for all subsets of m units; change: (2^m).
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
    using namespace of_boxes;
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
