// The pairs strategy: sums over pairs of reachable leaves. Slower than terms on shallow trees, but its cost
// does not explode with depth.
#pragma once

#include <atomic>
#include <cstdint>

#include "reached.hpp"

namespace predgap {

class Pairs {
public:
    struct Result {
        double gap;          // E[(sum of g_t)^2]
        double error_scale;  // see docs/development.md
    };
    struct Bounded {
        double gap, error;  // the exact gap is within the error
    };

    Pairs(const EnsembleView& e, const Atoms& atoms) : e_(e), atoms_(atoms), values_(e) {}

    // A walk's state, reused from subset to subset.
    struct Scratch {
        const std::atomic<bool>* stop = nullptr;  // checked now and then; the result is then void
        Reached reached;
    };

    // perturbed[q]: the feature is in the subset, is a finite number, and the noise moves it.
    Result gap(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;
    double mean_change(Scratch& s, const RowTables& row, const std::uint8_t* perturbed) const;
    // Without branches that provably change the gap by less than this share of it, all together. Where that
    // would take too long, as many are left out as it needs; the error says so.
    Bounded bounded(Scratch& s, const RowTables& row, const std::uint8_t* perturbed, double rtol) const;

    // Leaves that a row reaches and splits that eight of them meet, typically; and what it takes at most.
    struct Work {
        double leaves, splits, bytes;
    };
    Work work(const std::uint8_t* perturbed) const;

private:
    struct Reach {
        double leaves;        // of the tree
        double typical;       // that a row reaches, if it is as likely in one leaf as in another
        double worst, depth;  // at most; depth counts perturbed splits
    };
    Reach reachable(std::int32_t root, const std::uint8_t* perturbed) const;
    double bytes_per_interval() const;

    const EnsembleView& e_;
    const Atoms& atoms_;
    ValueRange values_;
};

}  // namespace predgap
