#include "planner/cost.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace predgap {

using std::int32_t;

namespace {

// Nanoseconds, set by hand from the times that benchmarks/planner.py prints.
constexpr double kRow = 5000.0, kThreshold = 7.0;
constexpr double kPairsRow = 4000.0, kPairsLeaf = 280.0, kPairsSplit = 24.0;

// The forms of a subset take this share of those of a gap, for most components do not change.
constexpr double kOfSubsets = 0.03;
double n_subsets(const Job& job) { return std::ldexp(1.0, job.n_places); }

// The cells of the moving category that has most; 0 if there is none.
double most_cells(const Model& model, const Job& job) {
    int32_t most = 0;
    for (const auto q : model.features)
        if (job.features[q]) most = std::max(most, model.cells.count(q));
    return most;
}

}  // namespace

// ---- the plan --------------------------------------------------------------------------------------------

namespace {

// How often the work of a gap is done. Components are shared between the steps of curves and rankings, which
// come to many of them at random; those of vectors more rarely.
double times_of_gap(const Job& job, double n_components, double width) {
    const double steps = std::sqrt(std::max(job.n_places, 1)) * (1.0 + 0.25 * (width - 1.0));
    switch (job.question) {
        case Question::gap: return 1.0;
        case Question::subsets: return 1.0 + kOfSubsets * n_subsets(job);
        case Question::curve: return std::max(1.0, 0.7 * steps * (1.0 + n_components / 3.8e4));
        case Question::greedy:
        case Question::single: return std::max(1.0, 1.45 * steps * (1.0 + n_components / 1.4e4));
    }
    return 1.0;
}

}  // namespace

Cost plan_cost(const Plan& plan, const Plan::Counts& moving, const Model& model, const Job& job) {
    constexpr double kBox = 4.0, kComponent = 16.0, kEntry = 0.1, kMovingEntry = 2.0, kPair = 0.072;
    constexpr double kOutput = 0.7;
    const auto width = static_cast<double>(model.group[0].width);
    const double share = moving.terms / std::max(plan.n_terms(), 1.0);
    // Boxes and components of features that stay are told by their bits.
    const double looked_at = 0.5 + 0.5 * share;
    const double set_up =
        kRow + kThreshold * model.n_atoms() +
        (kBox * static_cast<double>(plan.n_boxes()) + kComponent * plan.n_components()) * looked_at;
    // Tables of categories do not stay in the cache between the steps of a large plan.
    const double again = job.question == Question::gap ? 1.0 : 1.0 + plan.n_entries() / 3e5;
    const double per_output = (kEntry + kMovingEntry * share) * plan.n_entries() + kPair * moving.pairs;
    const double of_gap =
        set_up + per_output * (1.0 + kOutput * (width - 1.0)) + plan.set_forms(job.features) * again;
    return {Route::plan, Method::exact, of_gap * times_of_gap(job, plan.n_components(), width),
            plan.bytes() + KeptSets::bytes(model, job.features), 0.0};
}

// ---- compiled terms --------------------------------------------------------------------------------------

namespace {

// Nanoseconds, for compiling and for what is asked.
struct Weights {
    double entry, pair, component;
};

Weights operator*(double times, const Weights& w) {
    return {times * w.entry, times * w.pair, times * w.component};
}

Weights weights_of(const Job& job) {
    constexpr Weights kGap{66.0, 0.04, 1150.0};
    switch (job.question) {
        case Question::gap:
        case Question::single: return kGap;
        case Question::curve: return {88.0, 0.044, 1500.0};
        case Question::greedy: return {105.0, 0.073, 3800.0};
        case Question::subsets: return (1.0 + kOfSubsets * n_subsets(job)) * kGap;
    }
    return kGap;
}

// Forms over cells, as many times those of a gap.
double of_cells(const Job& job) {
    switch (job.question) {
        case Question::gap:
        case Question::single: return 1.0;
        case Question::curve: return 1.3;
        case Question::greedy: return 4.5;
        case Question::subsets: return 1.0 + kOfSubsets * n_subsets(job);
    }
    return 1.0;
}

double nodes_of(const Model& model) {
    double sum = 0.0;
    for (const auto& group : model.group) sum += static_cast<double>(group.node.size());
    return sum;
}

// Of sets of d features: how many have at most so many members?
double small_sets(double d, int most) {
    double sum = 1.0, n = 1.0;
    for (int size = 1; size <= most && size <= d; ++size) sum += n *= (d - size + 1.0) / size;
    return sum;
}

// The terms of a row: of how many sets of features, and how many pairs of one set, times its features.
struct Terms {
    Terms(double n_entries, double d) {
        constexpr double kMerged = 0.42, kFeatures = 2.5;
        const double n = kMerged * n_entries;
        components = std::min(small_sets(d, 5), n / 6.0);
        // Most terms are of the sets of at most three features.
        pairs = kFeatures * 0.5 * n * n / std::min(small_sets(d, 3), n / 5.0 + 1.0);
    }
    double components, pairs;
};

}  // namespace

Cost compiled_cost(double n_entries, double n_nodes, bool is_pruned, const Model& model, const Job& job) {
    constexpr double kNode = 55.0, kNodeOfModel = 12.0;  // of the model: whether a walk comes there or not
    constexpr double kLimit = 40.0;          // of an entry: to find a limit, and to bound what is left out
    constexpr double kManyComponents = 2e4;  // do not stay in the cache
    constexpr double kOutput = 0.27;
    constexpr double kCellOfEntry = 1.1;    // where forms are sums over cells: of each cell of a feature
    constexpr double kSetsOfTerms = 240.0;  // terms with categories gather in few components
    constexpr double kNumbersAlone = 0.25;  // of the pairs of terms, if there are categories
    constexpr double kEntryBytes = 52.0;    // with its terms, merged by half
    const auto width = static_cast<double>(model.group[0].width);
    const auto weight = weights_of(job);
    const Terms terms(n_entries, static_cast<double>(std::count(
                                     job.features, job.features + model.n_features(), std::uint8_t{1})));
    const double pairs = weight.pair * terms.pairs;
    const double cells = kCellOfEntry * most_cells(model, job) * n_entries;
    const double forms =
        (cells > 0.0 ? kNumbersAlone : 1.0) * pairs + std::min(kSetsOfTerms * pairs, of_cells(job) * cells);
    const double compiling =
        (weight.entry + (is_pruned ? kLimit : 0.0)) * (1.0 + kOutput * (width - 1.0)) * n_entries +
        weight.component * terms.components * terms.components / (terms.components + kManyComponents);
    return {Route::compiled,
            Method::exact,
            kRow + kThreshold * model.n_atoms() + kNode * n_nodes + kNodeOfModel * nodes_of(model) +
                compiling + forms,
            (kEntryBytes + 12.0 * width) * n_entries + KeptSets::bytes(model, job.features),
            0.0,
            n_entries};
}

Cost guess_compiled_cost(double n_terms, const Model& model, const Job& job) {
    constexpr double kEntriesOfTerm = 1.4, kNodesOfRow = 0.2;
    return compiled_cost(kEntriesOfTerm * n_terms, kNodesOfRow * nodes_of(model), false, model, job);
}

double entries_within(double nanoseconds, const Job& job) { return nanoseconds / weights_of(job).entry; }

// ---- pairs of leaves -------------------------------------------------------------------------------------

Cost pairs_cost(const Pairs& pairs, const Job& job, int32_t n_features) {
    std::vector<std::uint8_t> subset(job.features, job.features + n_features);
    Cost cost{Route::pairs, Method::exact, 0.0, 0.0, 0.0};
    const auto add = [&](double times) {
        const auto work = pairs.work(subset.data());
        cost.nanoseconds += times * (kPairsRow + kPairsLeaf * work.leaves + kPairsSplit * work.splits);
        cost.bytes = std::max(cost.bytes, work.bytes);
    };
    if (job.question == Question::gap || job.question == Question::subsets) {
        add(job.question == Question::gap ? 1.0 : n_subsets(job));
        return cost;
    }
    // Curves and rankings ask for every prefix: look at a few, as if units came by index.
    constexpr int kLooks = 6;
    std::vector<int32_t> moving;
    for (int32_t u = 0; u < job.units->size(); ++u)
        if (any_of(job.units->members(u), job.features)) moving.push_back(u);
    const auto n = static_cast<double>(moving.size()), places = std::min<double>(job.n_places, n);
    for (int look = 0; look < kLooks && places > 0; ++look) {
        const double size = std::floor(places * (look + 0.5) / kLooks) + 1.0;
        std::fill(subset.begin(), subset.end(), 0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size) && i < moving.size(); ++i)
            for (const auto q : job.units->members(moving[i]))
                subset[static_cast<std::size_t>(q)] = job.features[q];
        add(places / kLooks * (job.question == Question::greedy ? n - size + 1.0 : 1.0));
    }
    // The prefixes of a long answer may be far harder than those by index: what it takes holds in any case.
    constexpr double kLong = 10e9, kUncertain = 3.0;
    if (cost.nanoseconds > kLong) cost.nanoseconds *= kUncertain;
    return cost;
}

}  // namespace predgap
