// A noise that moves features together: those that move take the values of one row of a table, each row
// alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "planner/routes.hpp"
#include "rows/each_row.hpp"
#include "rows/from_terms.hpp"
#include "sampling/many_subsets.hpp"
#include "sampling/switch_boxes.hpp"

namespace predgap {

struct Candidates;
class Joint;

// Nanoseconds of a row.
struct BoxCost {
    double mean_gap, shapley, subset_gaps;
};

// One thread's answers, for one row after the other: exact means over the rows of the table. It has the
// methods of IndependentRow that need no independence.
class JointRow {
public:
    JointRow(const Joint& joint, const Units& units);

    void load(const RawRow& row, const std::atomic<bool>& stop);

    Answer gap(const std::uint8_t* subset, const Accuracy&, double& value);
    Answer curve(const Units&, const std::int32_t* order, std::int32_t n_places, const Accuracy&,
                 double* gaps);
    Answer greedy(const Units&, const Places& places, const Accuracy&) { return ranked(true, places); }
    Answer single(const Units&, const Places& places, const Accuracy&) { return ranked(false, places); }
    Answer search(const Units&, const std::int32_t* chosen, std::int32_t m, std::int32_t n_places,
                  std::int32_t width, const Accuracy&, std::int32_t* order, double* gaps);
    Answer moments(const std::uint8_t* subset, const Accuracy&, double* change, double* covariance);
    void mean_change(const std::uint8_t* subset, double* change);
    // f(x') - f(x) at each row of the table, (n_outputs, rows of the table).
    void changes(const std::uint8_t* subset, double* changes);

    // From boxes (see SwitchBoxes): the gaps of all subsets of m units, (2^m), where bit i of a subset's
    // number says whether it has unit i;
    Answer subset_gaps(const Units&, const std::int32_t* chosen, std::int32_t m, const double* share,
                       const Accuracy&, double* gaps);
    // the mean gap of a random subset, from how likely it has p given units and lacks n others (BoxWeights);
    double mean_gap(const BoxWeights& weights);
    // and Shapley values of the gap, (n_units), from what is gained for each of p units that a subset must
    // have if n others must be out, and what is lost for each of these.
    void shapley(const BoxWeights& gained, const double* lost, double* value);
    // The time that these take, from the boxes of a few rows of the table.
    BoxCost box_cost(std::int32_t m);

private:
    template <class Task>
    void each_change(const std::uint8_t* subset, Task task);
    template <class Task>
    void each_box_list(std::int64_t step, Task task);
    Answer ranked(bool greedy, const Places& places);
    void read_gains(Candidates& candidates);
    bool stopped() const { return stop_->load(std::memory_order_relaxed); }

    const Joint& joint_;
    const Units& units_;
    const std::atomic<bool>* stop_ = nullptr;
    RedrawnCopies copies_;
    std::vector<Walker> walkers_;  // one per output
    SwitchBoxes boxes_;
    std::vector<double> change_;  // of subsets
};

class Joint {
public:
    using Row = JointRow;

    // rows: (n_rows, n_features), as in RowArrays.
    Joint(const Routes& routes, const double* rows, std::int64_t n_rows);
    Joint(const Joint&) = delete;
    Joint& operator=(const Joint&) = delete;

    const Routes& routes() const { return routes_; }
    void check(const RowArrays&) const {}
    const RowCells& rows() const { return rows_; }
    const std::vector<Forest>& forests() const { return forest_; }  // one per output

    // task(row, r), with row r in place. False if stopped; throws TooCostly, for all rows cost the same.
    template <class Task>
    bool each_row(const RowArrays& rows, const Running& how, const Asked& asked, Task task) const {
        constexpr double kShort = 20e6;  // nanoseconds: Ctrl-C is looked for between rows
        const bool is_of_boxes = asked.kind == Question::subsets;
        const auto expected = price(asked.kind, asked.units->size(), asked.n);
        const bool is_costly = expected.nanoseconds > kMostNanoseconds || expected.bytes > kMostBytes;
        if (is_costly && !is_of_boxes && rows.n > 0) throw TooCostly{expected.nanoseconds, expected.bytes, 0};
        const auto make = [&] { return JointRow(*this, *asked.units); };
        const auto piece = [&](JointRow& row, std::int64_t r, const std::atomic<bool>& stop) {
            row.load(rows.row(routes_.model, r), stop);
            if (!is_of_boxes) how.forecast.add(expected.nanoseconds, true);
            task(row, r);
        };
        return run_rows(rows.n, how, !is_of_boxes && expected.nanoseconds < kShort, make, piece);
    }

    // The price of any row, from counts.
    struct RowPrice {
        double nanoseconds, bytes;
    };
    RowPrice price(Question::Kind question, std::int32_t n_units, std::int32_t n) const;
    // Nodes that a row of the table visits when it walks through all trees.
    double n_visits() const { return n_visits_; }
    // The most units that two boxes can need.
    std::int32_t most_of_a_pair() const;

private:
    void count_visits();

    const Routes& routes_;
    RowCells rows_;
    std::vector<Forest> forest_;
    double n_visits_ = 0.0;
    double n_turned_ = 0.0;  // visits when it walks on from each split that it met
};

}  // namespace predgap
