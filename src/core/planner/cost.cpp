// Estimates the nanoseconds and the bytes of each route from counts, with speeds that were measured.
#include "planner/cost.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "terms/row_compilation.hpp"

namespace predgap {

using std::int32_t;

namespace {

// These are nanoseconds, set by hand from the times that benchmarks/planner.py prints.
constexpr double kRow = 5000.0, kThreshold = 3.0;

double width_of(const Model& model) { return static_cast<double>(model.group[0].width); }

double nodes_of(const Model& model) {
    double sum = 0.0;
    for (const auto& group : model.group) sum += static_cast<double>(group.node.size());
    return sum;
}

double n_subsets(const Job& job) { return std::ldexp(1.0, job.n_places); }

// An answer for all subsets takes as many times a gap as this: most components do not change from one subset
// to the next.
double times_of_gap(const Job& job) {
    constexpr double kOfSubsets = 0.03;
    return job.question == Question::subsets ? 1.0 + kOfSubsets * n_subsets(job) : 1.0;
}

// The nanoseconds that the kernels take for the terms of a row, wherever these come from.
double evaluation(const EvaluationCounts& n, const Model& model, const Job& job) {
    constexpr double kTerm = 6.0, kPair = 0.08, kComponent = 15.0, kSet = 1.1;
    constexpr double kOutput = 0.63;  // of one output, for each further one
    constexpr double kPairAgain = 0.108, kComponentAgain = 70.0, kSetAgain = 0.4;
    constexpr double kManyComponents = 1.2e4;             // do not stay in the cache
    constexpr double kGreedy = 2.7, kGreedyOfSets = 8.0;  // where a curve has gaps, gains of all candidates
    const double width = width_of(model);
    const double once = (kTerm * n.terms + kPair * n.pairs) * (1.0 + kOutput * (width - 1.0)) +
                        kComponent * n.components + kSet * n.sets;
    if (job.question != Question::curve && job.question != Question::greedy) return once;
    const double again = kPairAgain * n.pairs_again * width +
                         kComponentAgain * n.components * (1.0 + n.components / kManyComponents);
    const double sets_again = kSetAgain * n.sets_again;
    return once + (job.question == Question::greedy ? kGreedy * again + kGreedyOfSets * sets_again
                                                    : again + sets_again);
}

}  // namespace

double trees_of(const Model& model) {
    double sum = 0.0;
    for (const auto& group : model.group) sum += static_cast<double>(group.root.size());
    return sum;
}

// ---- the plan --------------------------------------------------------------------------------------------

Cost plan_cost(const Plan& plan, const EvaluationCounts& moving, const Model& model, const Job& job) {
    constexpr double kBox = 1.5, kComponent = 2.0, kSpread = 3.5;
    constexpr double kWeight = 1.0;  // to clear it
    const double share = moving.terms / std::max(plan.n_terms(), 1.0);
    const auto use = job.question == Question::curve        ? Plan::Use::curve
                     : job.question != Question::greedy     ? Plan::Use::gaps
                     : !job.units || job.units->are_alone() ? Plan::Use::gains
                                                            : Plan::Use::gains_of_units;
    const double set_up = kRow + kThreshold * model.n_atoms() + kBox * static_cast<double>(plan.n_boxes()) +
                          kComponent * plan.n_components() + kSpread * plan.typical_spread() * share +
                          kWeight * plan.n_terms() * width_of(model);
    return {Route::plan, Method::exact, (set_up + evaluation(moving, model, job)) * times_of_gap(job),
            plan.bytes() + plan.row_bytes(use) + RowTables::bytes_of(model) +
                KeptSets::bytes(model, job.features),
            0.0};
}

// ---- compiled terms --------------------------------------------------------------------------------------

namespace {

constexpr double kMerged = 0.42;               // terms of an entry
constexpr double kEntry = 24.0, kTerm = 75.0;  // to compile them
constexpr double kNode = 95.0;                 // where a walk comes
constexpr double kNodeOfModel = 2.0;           // whether a walk comes there or not

// The cells of the moving category that has most; 0 if there is none.
double most_cells(const Model& model, const Job& job) {
    int32_t most = 0;
    for (const auto q : model.features)
        if (job.features[q]) most = std::max(most, model.cells.count(q));
    return most;
}

// The number of sets of d features that have at most `most` members.
double small_sets(double d, int most) {
    double sum = 1.0, n = 1.0;
    for (int size = 1; size <= most && size <= d; ++size) sum += n *= (d - size + 1.0) / size;
    return sum;
}

}  // namespace

EvaluationCounts typical_terms(double n_entries, double n_moving, bool is_pruned, const Model& model,
                               const Job& job) {
    constexpr double kFeatures = 2.5;
    constexpr double kCellOfEntry = 1.1, kSetsOfTerms = 10.0;  // nanoseconds of forms with categories
    constexpr double kNumbersAlone = 0.25;            // of the pairs of terms, if there are categories
    const double block = is_pruned ? 170.0 : 1500.0;  // what is pruned is of many features
    EvaluationCounts n;
    n.terms = kMerged * n_entries;
    n.components = std::min(small_sets(n_moving, 5), n.terms / 6.0);
    // Most terms are of the sets of at most three features. Where many are of one, these are taken in blocks.
    const double crowd = n.terms / std::min(small_sets(n_moving, 3), n.terms / 5.0 + 1.0);
    n.pairs = kFeatures * 0.5 * n.terms * std::min(crowd, std::sqrt(block * crowd));
    const double cells = kCellOfEntry * most_cells(model, job) * n_entries;
    if (cells > 0.0) {
        n.sets = std::min(kSetsOfTerms * n.pairs, cells);
        n.pairs *= kNumbersAlone;
    }
    const double changes = std::max(n_moving - 3.0, 0.0) / 4.6;
    n.pairs_again = changes * n.pairs;
    n.sets_again = changes * n.sets;
    return n;
}

EvaluationCounts terms_of_plan(double n_entries, const EvaluationCounts& plan) {
    constexpr double kMost = 0.8;    // of the plan's terms: whatever x is, some are of other rows
    constexpr double kCrowd = 40.0;  // terms of a component
    const double share = std::min(kMerged * n_entries / std::max(plan.terms, 1.0), kMost);
    // Fewer terms are fewer components, or, where these are crowded, fewer terms in each, and far fewer
    // pairs.
    const double of_components = 1.0 / (1.0 + plan.terms / std::max(kCrowd * plan.components, 1.0));
    const double of_pairs = std::pow(share, 2.2 - of_components);
    const double of_sets = std::pow(share, 1.3);  // some are over pairs, some over cells
    return {std::pow(share, of_components) * plan.components,
            share * plan.terms,
            of_pairs * plan.pairs,
            of_pairs * plan.pairs_again,
            of_sets * plan.sets,
            of_sets * plan.sets_again};
}

Cost compiled_cost(double n_entries, double n_nodes, bool is_pruned, const EvaluationCounts& terms,
                   const Model& model, const Job& job) {
    constexpr double kLimit = 44.0;       // of an entry: to find a limit, and to bound what is left out
    constexpr double kComponent = 200.0;  // to lay it out
    constexpr double kScattered = 1.2;    // terms are laid out less well than those of a plan
    constexpr double kOutput = 0.06;
    constexpr double kEntryBytes = 68.0;  // with its terms, merged by half, and their state
    const double of_question = job.question == Question::curve    ? 1.3
                               : job.question == Question::greedy ? 1.1
                                                                  : 1.0;
    const double width = width_of(model);
    const double compiling = ((kEntry + (is_pruned ? kLimit : 0.0)) * n_entries + kTerm * terms.terms) *
                                 (1.0 + kOutput * (width - 1.0)) +
                             kComponent * terms.components;
    return {Route::compiled,
            Method::exact,
            kRow + kThreshold * model.n_atoms() + kNode * n_nodes + kNodeOfModel * nodes_of(model) +
                (compiling + kScattered * evaluation(terms, model, job)) * times_of_gap(job),
            of_question * (kEntryBytes + 12.0 * width) * n_entries + RowTables::bytes_of(model) +
                RowCompilation::bytes_of(model) + KeptSets::bytes(model, job.features),
            0.0,
            n_entries};
}

double least_nodes(const Model& model) {
    const double n_trees = trees_of(model);
    return n_trees * std::log2(1.0 + nodes_of(model) / std::max(n_trees, 1.0));
}

double entries_within(double nanoseconds) { return nanoseconds / (kEntry + kMerged * kTerm); }

double trees_within(double nanoseconds, double n_moving, const Model& model) {
    constexpr double kLookedAt = 150.0;  // of a node, if all features move
    const double share = n_moving / static_cast<double>(std::max<std::size_t>(model.features.size(), 1));
    return nanoseconds * trees_of(model) / std::max(kLookedAt * share * nodes_of(model), 1.0);
}

// ---- pairs of leaves -------------------------------------------------------------------------------------

double pairs_nanoseconds(const Pairs::Work& work) {
    constexpr double kGap = 4000.0, kLeaf = 280.0, kSplit = 27.0;
    return kGap + kLeaf * work.leaves + kSplit * work.splits;
}

Cost pairs_cost(const Pairs& pairs, const Job& job, const std::vector<int32_t>& order, const RowTables& row) {
    std::vector<std::uint8_t> subset(job.features, job.features + row.model().n_features());
    Cost cost{Route::pairs, Method::exact, 0.0, 0.0, 0.0};
    const auto add = [&](double times) {
        const auto work = pairs.work(subset.data(), row);
        cost.nanoseconds += times * pairs_nanoseconds(work);
        cost.bytes = std::max(cost.bytes, work.bytes + RowTables::bytes_of(row.model()));
    };
    if (job.question == Question::gap || job.question == Question::subsets) {
        add(job.question == Question::gap ? 1.0 : n_subsets(job));
        return cost;
    }
    // Curves and rankings ask for every prefix: look at a few.
    constexpr int kLooks = 6;
    const auto n = static_cast<double>(order.size()), places = std::min<double>(job.n_places, n);
    for (int look = 0; look < kLooks && places > 0; ++look) {
        const double size = std::floor(places * (look + 0.5) / kLooks) + 1.0;
        std::fill(subset.begin(), subset.end(), 0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size) && i < order.size(); ++i)
            for (const auto q : job.units->members(order[i]))
                subset[static_cast<std::size_t>(q)] = job.features[q];
        add(places / kLooks * (job.question == Question::greedy ? n - size + 1.0 : 1.0));
    }
    // The prefixes of a long answer may be far harder than these, so that long estimates are multiplied by 3
    // to stay an upper bound.
    constexpr double kLong = 10e9, kUncertain = 3.0;
    if (cost.nanoseconds > kLong) cost.nanoseconds *= kUncertain;
    return cost;
}

}  // namespace predgap
