// Sampled gaps: the ensemble evaluated at many perturbed copies of one row.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"
#include "sampling/inverse_transform.hpp"

namespace predgap {

// Sums over one stretch of samples of D = f(x') - f(x).
struct PowerSums {
    double first, second, fourth;
};

// A row and a subset, reduced to the splits that can go either way. Samples are points of the unit cube, one
// coordinate per perturbed feature.
class Sampler {
public:
    Sampler(const EnsembleView& e, const Atoms& atoms) : e_(e), atoms_(atoms) {}

    // The features that are open in the row's tables move; column[q]: the coordinate of feature q.
    void reduce(const RowTables& row, const std::int32_t* column, std::int32_t n_columns);
    // Both functions end early if they are stopped; what they give is then void.
    PowerSums evaluate(const double* points, std::int64_t n_points, const std::atomic<bool>& stop);
    // Writes D at each of the points.
    void list(const double* points, std::int64_t n_points, const std::atomic<bool>& stop, double* changes);

private:
    static constexpr int kWays = 8;  // points walked side by side, so that their loads overlap

    struct Node {
        std::int32_t column, atom;  // right iff the point's cell on the column is past the atom
        const std::uint64_t* set;   // or, of a categorical feature, iff it is not in the set
        std::int32_t child[2];      // a leaf is its own child
    };
    struct Tree {
        std::int32_t root, depth;
    };

    // Calls take(point, D) for each point, with D = f(x') - f(x) at the point.
    template <class Take>
    void each_change(const double* points, std::int64_t n_points, const std::atomic<bool>& stop, Take take);
    template <bool kSets, class Take>
    void walk(const double* points, std::int64_t n_points, const std::atomic<bool>& stop, Take take);
    void locate(const double* points, std::int64_t n);
    std::int32_t copy(std::int32_t root, const RowTables& row, const std::int32_t* column, double base,
                      std::int32_t& depth);

    const EnsembleView& e_;
    const Atoms& atoms_;
    std::int32_t n_columns_ = 0;
    bool has_sets_ = false;            // true if a split that can go either way tests a set
    std::vector<Axis> axis_;           // (n_columns)
    std::vector<std::uint8_t> moves_;  // (n_columns) 1 if the row moves along it
    std::vector<Node> node_;
    std::vector<double> residual_;  // beside node_
    std::vector<Tree> tree_;
    std::vector<std::int32_t> cell_;  // (n_columns, kWays)
};

}  // namespace predgap
