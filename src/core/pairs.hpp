// The pairs strategy: sums over pairs of reachable leaves. Slower than terms on shallow trees, but its cost
// does not explode with depth.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "ensemble.hpp"

namespace predgap {

// One row of a block: neighbouring items lie `stride` doubles apart.
struct RowTables {
    const double *x, *below, *above;
    std::int64_t stride;
    const CategoryNoise* categories;  // null if all features are numeric

    double value(std::int32_t q) const { return x[q * stride]; }
    double F(std::int64_t atom) const { return below[atom * stride]; }
    double S(std::int64_t atom) const { return above[atom * stride]; }
};

class Pairs {
public:
    struct Result {
        double gap;          // E[(sum of g_t)^2]
        double error_scale;  // see docs/development.md
    };

    Pairs(const EnsembleView& e, const Atoms& atoms) : e_(e), atoms_(atoms) {}

    // A walk's state, reused from subset to subset.
    class Scratch {
    public:
        const std::atomic<bool>* stop = nullptr;  // checked now and then; the result is then void

    private:
        friend class Pairs;
        struct Step {
            std::int32_t node, feature;
            std::int64_t lo, hi;
            double mass, probability;
            std::size_t sets_end;  // size of `sets` as the step needs it
            bool undo;
        };
        // Where the box lets a feature be: between two atoms, or, if it is categorical, in the cells that
        // begin at lo in `sets`; -1 for no limit.
        struct Interval {
            std::int32_t feature;
            std::int64_t lo, hi;
            double mass;
        };
        struct Leaf {
            double residual, probability;
            std::int64_t interval_begin, interval_end;
        };
        std::vector<Step> stack;
        std::vector<std::int64_t> lo, hi;
        std::vector<std::int32_t> first_above, depth, used;
        Bits sets;              // cells: of the leaves' boxes, then of the walk
        Bits kept;              // those of the leaves that are being collected
        std::size_t sets_base;  // where the walk's begin
        std::vector<double> mass, base;
        std::vector<Leaf> leaf;
        std::vector<Interval> interval;
        std::vector<std::int64_t> tree_leaf_begin;
        std::vector<double> mean;
        double error_scale;
        std::vector<std::uint64_t> touched;  // per tree: bits of the perturbed features it can feel
    };

    // perturbed[q]: the feature is in the subset, is a finite number, and the noise moves it.
    Result gap(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;

    double mean_change(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;

    // At the worst row: pairs of leaves visited, and what their boxes take.
    struct Work {
        double visits, bytes;
        bool fits() const { return bytes <= kMostBytes; }
        static constexpr double kMostBytes = 1 << 30;
    };
    Work work(const std::uint8_t* perturbed) const;

private:
    template <class Visit>
    void walk(Scratch& s, const RowTables& row, const std::uint8_t* perturbed, std::int32_t root,
              double probability, Visit visit) const;
    void start(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;
    void collect(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;
    struct Reach {
        double leaves, depth;  // at the worst row; depth counts perturbed splits
    };
    Reach reachable(std::int32_t root, const std::uint8_t* perturbed) const;
    double mass(const Scratch& s, const RowTables& row, std::int32_t q, std::int64_t lo,
                std::int64_t hi) const;
    static double mass(const RowTables& row, std::int32_t q, const std::uint64_t* cells);
    std::int32_t branch(Scratch& s, const RowTables& row, std::int32_t node, double probability) const;
    std::int32_t branch_on_set(Scratch& s, const RowTables& row, std::int32_t node, double probability) const;
    std::int64_t keep(Scratch& s, std::int32_t q) const;
    double bytes_per_interval() const;
    double reach(const Scratch& s, const RowTables& row, std::int32_t q) const;
    bool goes_left(std::int32_t node, const RowTables& row) const;
    std::size_t words() const { return (static_cast<std::size_t>(e_.n_features) + 63) / 64; }

    const EnsembleView& e_;
    const Atoms& atoms_;
};

}  // namespace predgap
