// The price of each way to an answer: how many things of each kind it consists of, at the speeds of
// constants.hpp, and the bytes that it needs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "constants.hpp"
#include "pairs/pairs.hpp"
#include "planner/question.hpp"
#include "terms/plan.hpp"
#include "terms/set_factors.hpp"

namespace predgap {

// The number of things of each kind.
class Workload {
public:
    Workload& add(Speed of, double n) {
        n_[static_cast<std::size_t>(of)] += n;
        return *this;
    }
    Workload& operator+=(const Workload& other) {
        for (std::size_t i = 0; i < kNSpeeds; ++i) n_[i] += other.n_[i];
        return *this;
    }
    Workload& operator*=(double times) {
        for (auto& n : n_) n *= times;
        return *this;
    }
    double nanoseconds() const {
        double sum = 0.0;
        for (std::size_t i = 0; i < kNSpeeds; ++i) sum += n_[i] * kSpeeds[i].nanoseconds;
        return sum;
    }
    const std::array<double, kNSpeeds>& counts() const { return n_; }

private:
    std::array<double, kNSpeeds> n_{};
};

struct Price {
    Workload work;
    double bytes = 0.0;
};

// The shared plan; `moving`: what it has on the features that move.
Price price_of_plan(const Plan& plan, const EvaluationCounts& moving, const Model& model,
                    const Question& question);
// Terms compiled for the row from so many entries.
Price price_of_compiling(double n_entries, double n_nodes, bool is_pruned, const EvaluationCounts& terms,
                         const Model& model, const Question& question);
// The compilation and the terms of a gap, but for pairs of terms, where all of these were counted. Many terms
// do not stay in the cache while they are found.
Workload work_of_counted_terms(double n_entries, double n_nodes, bool is_pruned,
                               const EvaluationCounts& terms, const Model& model);
// Pairs of leaves of one output. order: of curves and rankings the units that move, as they will come.
// counting: gets the walks that find this out.
Price price_of_pairs(const Pairs& pairs, const Question& question, const std::vector<std::int32_t>& order,
                     const RowTables& row, RowWork& counting);
Workload work_of_gap_by_pairs(const Pairs::Work& counted);

// The counts of the terms that so many entries make: as a rule, if n_moving features move; or if the plans of
// all rows have these on them.
EvaluationCounts typical_terms(double n_entries, double n_moving, bool is_pruned, const Model& model,
                               const Question& question);
EvaluationCounts terms_of_plan(double n_entries, const EvaluationCounts& plan);

double trees_of(const Model& model);
// The number of nodes that a walk of a row comes to, if hardly a feature moves.
double least_nodes(const Model& model);
// The number of trees that a walk looks at in that time, if so many features move.
double trees_within(double nanoseconds, double n_moving, const Model& model);

}  // namespace predgap
