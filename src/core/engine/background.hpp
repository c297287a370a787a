// Joint redraws: the features that move take the values of one row of a table together, each row alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/engine.hpp"

namespace predgap {

struct Candidates;

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
    // change: (n_rows, n_outputs).
    bool mean_change(const Request& r, PerRow<std::uint8_t> subset, double* change) const;
    // order, of units, and value: (n_rows, n_places).
    bool curve(const Request& r, const Units& units, PerRow<std::int32_t> order, std::int32_t n_places,
               double* value) const;
    // order: (n_rows, n_places), of units; score: (n_rows, n_units), written for the units that are ranked.
    bool rank(const Request& r, const Units& units, bool greedy, std::int32_t n_places, std::int32_t* order,
              double* score) const;

    // As Engine::search; exact.
    bool search(const Request& r, const Units& units, const std::int32_t* chosen, std::int32_t m,
                std::int32_t n_places, std::int32_t width, std::int32_t* order, double* value) const;

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
    void count_visits();
    void read_gains(Walks& walks, Candidates& candidates) const;

    const Engine& engine_;
    RowCells rows_;
    std::vector<Forest> forest_;  // one per output
    double n_visits_ = 0.0;       // of nodes, when a row of the table walks through all trees
    double n_turned_ = 0.0;       // ... and when it walks on from each split that it met
};

}  // namespace predgap
