#include "engine/background.hpp"

#include <algorithm>
#include <numeric>

#include "engine/beam.hpp"
#include "engine/candidates.hpp"
#include "engine/parallel.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

Background::Background(const Engine& engine, const double* rows, int64_t n_rows)
    : engine_(engine), rows_(engine.model(), rows, n_rows) {
    for (const auto& output : engine.model().output) forest_.emplace_back(output, engine.model().atoms);
    count_visits();
}

// The mean over a few rows of the table.
void Background::count_visits() {
    constexpr int64_t kFew = 32;
    const auto d = engine_.model().n_features();
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

// task(walks, row), with the row in place.
template <class Task>
bool Background::each_row(const Request& r, const Units& units, const Cost& cost, Task task) const {
    const auto& model = engine_.model();
    const auto make = [&] {
        Walks walks{RedrawnCopies(model, rows_), {}};
        for (const auto& forest : forest_) walks.walkers.emplace_back(forest, units);
        return walks;
    };
    const auto piece = [&](Walks& walks, int64_t row, const std::atomic<bool>& stop) {
        walks.stop = &stop;
        walks.copies.load(r.x + row * model.n_features());
        for (auto& walker : walks.walkers) walker.load(walks.copies);
        if (r.forecast) r.forecast->add(cost.nanoseconds, true);
        task(walks, row);
    };
    constexpr double kShort = 20e6;  // nanoseconds: Ctrl-C is looked for between rows
    if (r.n_threads == 1 && cost.nanoseconds < kShort) return run_here(r.n_rows, make, piece, r.poll);
    return run_pieces(r.n_rows, r.n_threads, make, piece, r.poll);
}

// task(row, output, first, f(x') - f(x) at some rows of the table from the first on), for all outputs and all
// rows of the table.
template <class Task>
bool Background::each_change(const Request& r, PerRow<uint8_t> subset, Task task) const {
    const auto d = engine_.model().n_features();
    const Units units(d);
    const auto batch = Walker::batch(d);
    const std::vector<uint8_t> none(static_cast<std::size_t>(d), 0);
    return each_row(r, units, cost(Question::gap, d, 0), [&](Walks& walks, int64_t row) {
        std::vector<double> change(static_cast<std::size_t>(batch)),
            more(static_cast<std::size_t>(batch * d));
        for (std::size_t k = 0; k < walks.walkers.size(); ++k)
            for (int64_t first = 0; first < rows_.n_rows && !*walks.stop; first += batch) {
                const auto n = std::min(batch, rows_.n_rows - first);
                walks.walkers[k].candidates(first, n, subset.row(row, d), none.data(), change.data(),
                                            more.data());
                task(row, static_cast<int64_t>(k), first,
                     std::span(change).first(static_cast<std::size_t>(n)));
            }
    });
}

bool Background::gap(const Request& r, PerRow<uint8_t> subset, double* value) const {
    std::fill_n(value, r.n_rows, 0.0);
    const bool finished =
        each_change(r, subset, [&](int64_t row, int64_t, int64_t, std::span<const double> changes) {
            for (const double change : changes) value[row] += change * change;
        });
    for (int64_t row = 0; row < r.n_rows; ++row) value[row] /= static_cast<double>(rows_.n_rows);
    return finished;
}

bool Background::changes(const Request& r, PerRow<uint8_t> subset, double* changes) const {
    const int64_t n_outputs = engine_.model().n_outputs();
    return each_change(
        r, subset, [&](int64_t row, int64_t output, int64_t first, std::span<const double> some) {
            std::copy(some.begin(), some.end(), changes + (row * n_outputs + output) * rows_.n_rows + first);
        });
}

bool Background::mean_change(const Request& r, PerRow<uint8_t> subset, double* change) const {
    const int64_t n_outputs = engine_.model().n_outputs();
    std::fill_n(change, r.n_rows * n_outputs, 0.0);
    const bool finished =
        each_change(r, subset, [&](int64_t row, int64_t output, int64_t, std::span<const double> changes) {
            for (const double by : changes) change[row * n_outputs + output] += by;
        });
    for (int64_t i = 0; i < r.n_rows * n_outputs; ++i) change[i] /= static_cast<double>(rows_.n_rows);
    return finished;
}

// The mean of changes that come in batches, and sums of products of their distances from it, output by
// output.
struct Background::Spread {
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

bool Background::moments(const Request& r, PerRow<uint8_t> subset, double* change, double* covariance) const {
    const auto d = engine_.model().n_features();
    const int64_t n_outputs = engine_.model().n_outputs(), batch = Walker::batch(d);
    const Units units(d);
    const std::vector<uint8_t> none(static_cast<std::size_t>(d), 0);
    std::fill_n(change, r.n_rows * n_outputs, 0.0);
    std::fill_n(covariance, r.n_rows * n_outputs * n_outputs, 0.0);
    return each_row(r, units, cost(Question::gap, d, 0), [&](Walks& walks, int64_t row) {
        std::vector<double> changes(static_cast<std::size_t>(n_outputs * batch)),
            more(static_cast<std::size_t>(batch * d));
        double* found = covariance + row * n_outputs * n_outputs;
        Spread spread{n_outputs, change + row * n_outputs, found};
        for (int64_t first = 0; first < rows_.n_rows && !*walks.stop; first += batch) {
            const auto n = std::min(batch, rows_.n_rows - first);
            for (std::size_t k = 0; k < walks.walkers.size(); ++k)
                walks.walkers[k].candidates(first, n, subset.row(row, d), none.data(),
                                            changes.data() + static_cast<int64_t>(k) * batch, more.data());
            spread.add(changes, batch, n);
        }
        for (int64_t k = 0; k < n_outputs; ++k)
            for (auto l = k; l < n_outputs; ++l)
                found[k * n_outputs + l] = found[l * n_outputs + k] =
                    found[k * n_outputs + l] / static_cast<double>(rows_.n_rows);
    });
}

bool Background::curve(const Request& r, const Units& units, PerRow<int32_t> order, int32_t n_places,
                       double* value) const {
    const auto batch = Walker::batch(engine_.model().n_features());
    const auto n_rows = static_cast<double>(rows_.n_rows);
    const auto expected = cost(Question::curve, units.size(), n_places);
    return each_row(r, units, expected, [&](Walks& walks, int64_t row) {
        std::vector<double> more(static_cast<std::size_t>(batch * n_places));
        double* mean = value + row * n_places;
        std::fill_n(mean, n_places, 0.0);
        for (auto& walker : walks.walkers)
            for (int64_t first = 0; first < rows_.n_rows && !*walks.stop; first += batch) {
                const auto n = std::min(batch, rows_.n_rows - first);
                walker.prefixes(first, n, order.row(row, n_places), n_places, more.data());
                for (int64_t p = 0; p < n; ++p) {
                    double change = 0.0;
                    for (int64_t k = 0; k < n_places; ++k) {
                        change += more[static_cast<std::size_t>(p * n_places + k)];
                        mean[k] += change * change;
                    }
                }
            }
        for (int64_t k = 0; k < n_places; ++k) mean[k] /= n_rows;
    });
}

// What each unit would add to the gap of those that are taken, and the scales of the errors: of the gaps of
// single trees, times the number of trees.
void Background::read_gains(Walks& walks, Candidates& c) const {
    const auto n_units = static_cast<int64_t>(c.gain.size());
    const auto batch = Walker::batch(engine_.model().n_features());
    const auto n_rows = static_cast<double>(rows_.n_rows);
    std::vector<double> change(static_cast<std::size_t>(batch)),
        more(static_cast<std::size_t>(batch * n_units));
    std::vector<uint8_t> open(c.taken);
    for (auto& is_open : open) is_open = !is_open;
    c.base = c.base_error = 0.0;
    std::fill(c.gain.begin(), c.gain.end(), 0.0);
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    for (auto& walker : walks.walkers)
        for (int64_t first = 0; first < rows_.n_rows && !*walks.stop; first += batch) {
            const auto n = std::min(batch, rows_.n_rows - first);
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

bool Background::rank(const Request& r, const Units& units, bool greedy, int32_t n_places, int32_t* order,
                      double* score) const {
    const auto expected = cost(greedy ? Question::greedy : Question::single, units.size(), n_places);
    return each_row(r, units, expected, [&](Walks& walks, int64_t row) {
        Candidates candidates(engine_.model(), units);
        bool is_new = true;
        for (int32_t place = 0; place < n_places && !*walks.stop; ++place) {
            if ((greedy && is_new) || place == 0) read_gains(walks, candidates);
            const auto best = candidates.best();
            order[row * n_places + place] = best;
            score[row * units.size() + best] = candidates.gain[static_cast<std::size_t>(best)];
            candidates.leave_out(best);
            is_new = !candidates.is_idle[static_cast<std::size_t>(best)];
        }
    });
}

bool Background::search(const Request& r, const Units& units, const int32_t* chosen, int32_t m,
                        int32_t n_places, int32_t width, int32_t* order, double* value) const {
    auto expected = cost(Question::greedy, units.size(), n_places);
    expected.nanoseconds *= width;
    return each_row(r, units, expected, [&](Walks& walks, int64_t row) {
        struct Nothing {};
        Candidates candidates(engine_.model(), units);
        const auto gains = [&](const Beam<Nothing>::Entry& entry) {
            std::fill(candidates.taken.begin(), candidates.taken.end(), 0);
            for (const auto u : entry.order) candidates.taken[static_cast<std::size_t>(u)] = 1;
            read_gains(walks, candidates);
            return candidates.gain.data();
        };
        Beam<Nothing> beam({chosen + row * m, chosen + (row + 1) * m}, n_places, width, units.size());
        beam.run(
            {}, gains, [](const Nothing&, int32_t) { return Nothing{}; },
            [&] { return walks.stop->load(std::memory_order_relaxed); });
        beam.write(order + row * n_places, value + row * n_places);
    });
}

Cost Background::cost(Question question, int32_t n_units, int32_t n_places) const {
    constexpr double kVisit = 3.5, kCell = 3.0;  // nanoseconds
    constexpr double kTurns = 0.35;              // of the splits on a path
    const double d = engine_.model().n_features(), units = std::max(n_units, 1);
    const double rounds = question == Question::greedy ? n_places : 1.0;
    double visits = n_visits_, cells = d;
    if (question == Question::curve) {
        visits += 2.0 * kTurns * n_turned_;  // each turn is walked from the root
        cells += n_places;
    } else if (question != Question::gap) {
        const double still_open = 1.0 - (rounds - 1.0) / (2.0 * units);  // of the units, the mean
        visits += kTurns * still_open * n_turned_;
        cells += units;
    }
    const double n_rows = static_cast<double>(rows_.n_rows);
    const double batch = static_cast<double>(Walker::batch(engine_.model().n_features()));
    Cost cost;
    cost.nanoseconds = n_rows * rounds * (kVisit * visits + kCell * cells);
    cost.bytes = n_rows * d * sizeof(int32_t) + batch * (d * sizeof(Move) + 2.0 * units * sizeof(double));
    return cost;
}

}  // namespace predgap
