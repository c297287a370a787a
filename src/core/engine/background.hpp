// Joint redraws: the features that move take the values of one row of a table together, each row alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/engine.hpp"

namespace predgap {

struct Candidates;
struct BoxWeights;

// Nanoseconds of a row.
struct BoxCost {
    double mean_gap, shapley, subset_gaps;
};

// Answers about many rows, exact: means over the rows of the table.
class Background {
public:
    // rows: (n_rows, n_features), as in Request.
    Background(const Engine& engine, const double* rows, std::int64_t n_rows);
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;

    const Engine& engine() const { return engine_; }

    // All return false if stopped. value: (n_rows).
    bool gap(const Request& r, PerRow<std::uint8_t> subset, double* value) const;
    // Of each output at each row of the table, (n_rows, n_outputs, rows of the table).
    bool changes(const Request& r, PerRow<std::uint8_t> subset, double* changes) const;
    std::int64_t n_redrawn() const { return rows_.n_rows; }
    // change: (n_rows, n_outputs).
    bool mean_change(const Request& r, PerRow<std::uint8_t> subset, double* change) const;
    // change: (n_rows, n_outputs); covariance: (n_rows, n_outputs, n_outputs).
    bool moments(const Request& r, PerRow<std::uint8_t> subset, double* change, double* covariance) const;
    // order, of units, and value: (n_rows, n_places).
    bool curve(const Request& r, const Units& units, PerRow<std::int32_t> order, std::int32_t n_places,
               double* value) const;
    // order: (n_rows, n_places), of units; score: (n_rows, n_units), written for the units that are ranked.
    bool rank(const Request& r, const Units& units, bool greedy, std::int32_t n_places, std::int32_t* order,
              double* score) const;

    // As Engine::search; exact.
    bool search(const Request& r, const Units& units, const std::int32_t* chosen, std::int32_t m,
                std::int32_t n_places, std::int32_t width, std::int32_t* order, double* value) const;

    // Of all subsets at once, from boxes (see SwitchBoxes). chosen: (n_rows, m) units; value: (n_rows, 2^m),
    // where bit i of a subset's number says whether it has the row's unit i.
    bool subset_gaps(const Request& r, const Units& units, const std::int32_t* chosen, std::int32_t m,
                     double* value) const;
    // The mean gap of a random subset, value: (n_rows), from how likely a subset has p given units and lacks
    // n others; see BoxWeights.
    bool mean_gap(const Request& r, const Units& units, const BoxWeights& weights, double* value) const;
    // Shapley values of the gap, (n_rows, n_units); weights: what is gained for each of p units that a subset
    // must have if n others must be out, and what is lost for each of these.
    bool shapley(const Request& r, const Units& units, const BoxWeights& gained, const double* lost,
                 double* value) const;
    // The most features that two boxes can need.
    std::int32_t most_of_a_pair() const;
    // What these take for each row, from the boxes of a few rows of the table: cost (n_rows).
    bool box_costs(const Request& r, const Units& units, std::int32_t m, BoxCost* cost) const;

    // Of any row, from counts.
    Cost cost(Question question, std::int32_t n_units, std::int32_t n_places) const;

private:
    struct Walks {  // of one row
        RedrawnCopies copies;
        std::vector<Walker> walkers;  // one per output
        const std::atomic<bool>* stop = nullptr;
    };
    template <class Task>
    bool each_row(const Request& r, const Units& units, const Cost& cost, Task task) const;
    template <class Task>
    bool each_change(const Request& r, PerRow<std::uint8_t> subset, Task task) const;
    struct Spread;
    template <class Task>
    bool each_pair(const Request& r, const Units& units, std::int64_t step, Task task) const;
    void count_visits();
    void read_gains(Walks& walks, Candidates& candidates) const;

    const Engine& engine_;
    RowCells rows_;
    std::vector<Forest> forest_;  // one per output
    double n_visits_ = 0.0;       // of nodes, when a row of the table walks through all trees
    double n_turned_ = 0.0;       // ... and when it walks on from each split that it met
};

}  // namespace predgap
