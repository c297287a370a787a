#include "planner/cost.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace predgap {

using std::int32_t;

namespace {

// Nanoseconds, set by hand from the times that benchmarks/planner.py prints.
constexpr double kRow = 5000.0, kThreshold = 7.0, kBox = 15.0, kEntry = 1.2, kPair = 0.09;
constexpr double kNode = 40.0, kCompiledEntry = 95.0, kTermPair = 0.035;
constexpr double kNodeOfModel = 12.0;   // whether a walk comes there or not
constexpr double kSetsOfTerms = 240.0;  // terms with categories gather in few components, and take longer
constexpr double kCellOfEntry = 1.3;    // where forms are sums over cells: of each cell of a feature
constexpr double kNumbersAlone = 0.25;  // of the pairs of terms, if there are categories
constexpr double kPairsRow = 4000.0, kPairsLeaf = 280.0, kPairsSplit = 24.0;
constexpr double kEntryBytes = 52.0;  // with its terms, merged by half

// The forms of a subset take this share of those of a gap, for most components do not change.
constexpr double kOfSubsets = 0.03;
double n_subsets(const Job& job) { return std::ldexp(1.0, job.n_places); }

// A compiled entry also costs when it is evaluated, and more often in curves and rankings.
double evaluation(const Job& job) {
    switch (job.question) {
        case Question::gap: return 1.2;
        case Question::curve: return 1.6;
        case Question::greedy: return 2.2;
        case Question::single: return 1.0;
        case Question::subsets: return 1.2 + kOfSubsets * n_subsets(job);
    }
    return 1.0;
}

// Forms over cells, as many times those of a gap.
double of_cells(const Job& job) {
    constexpr double kOfCurve = 1.75, kOfGreedy = 4.5;
    if (job.question == Question::curve) return kOfCurve;
    return job.question == Question::greedy ? kOfGreedy : evaluation(job) / 1.2;
}

}  // namespace

namespace {

// The cells of the moving category that has most; 0 if there is none.
double most_cells(const Model& model, const Job& job) {
    int32_t most = 0;
    for (const auto q : model.features)
        if (job.features[q]) most = std::max(most, model.cells.count(q));
    return most;
}

}  // namespace

Cost plan_cost(const Plan& plan, const Model& model, const Job& job) {
    const double set_up = kRow + kThreshold * model.n_atoms() + kBox * static_cast<double>(plan.n_boxes()) +
                          kEntry * plan.n_entries();
    // Tables of categories do not stay in the cache between the steps of a large plan.
    const double again = job.question == Question::gap ? 1.0 : 1.0 + plan.n_entries() / 3e5;
    const double forms = kPair * plan.n_pairs(job.features) + plan.set_forms(job.features) * again;
    // Components are shared between the steps of curves and rankings, which come to many of them at random.
    const double root = std::sqrt(std::max(job.n_places, 1)), n = plan.n_components();
    const double times = job.question == Question::gap       ? 1.0
                         : job.question == Question::subsets ? 1.0 + kOfSubsets * n_subsets(job)
                         : job.question == Question::curve   ? std::max(1.0, 0.7 * root * (1.0 + n / 2e4))
                                                             : std::max(1.0, 1.5 * root * (1.0 + n / 3e4));
    return {Route::plan, Method::exact, (set_up + forms) * times, plan.bytes(), 0.0};
}

namespace {

// Pairs of terms of a component, times its features. Most terms are of the sets of at most three features.
double term_pairs(double n_entries, const Job& job, int32_t n_features) {
    constexpr double kMerged = 0.42, kTermsOfComponent = 5.0, kFeatures = 2.5;
    const double n_terms = kMerged * n_entries;
    const double d = static_cast<double>(std::count(job.features, job.features + n_features, 1));
    const double n_small_sets = 1.0 + d + d * (d - 1.0) / 2.0 + d * (d - 1.0) * (d - 2.0) / 6.0;
    const double n_components = std::min(n_small_sets, n_terms / kTermsOfComponent + 1.0);
    return kFeatures * 0.5 * n_terms * n_terms / n_components;
}

}  // namespace

Cost compiled_cost(double n_entries, double n_nodes, const Model& model, const Job& job) {
    const auto width = static_cast<double>(model.group[0].width);
    double n_nodes_of_model = 0.0;
    for (const auto& group : model.group) n_nodes_of_model += static_cast<double>(group.node.size());
    const double pairs = kTermPair * term_pairs(n_entries, job, model.n_features());
    const double cells = kCellOfEntry * most_cells(model, job) * n_entries;
    const double forms = evaluation(job) * (cells > 0.0 ? kNumbersAlone : 1.0) * pairs +
                         std::min(evaluation(job) * kSetsOfTerms * pairs, of_cells(job) * cells);
    return {Route::compiled, Method::exact,
            kRow + kThreshold * model.n_atoms() + kNode * n_nodes + kNodeOfModel * n_nodes_of_model + forms +
                kCompiledEntry * evaluation(job) * (1.0 + 0.2 * (width - 1.0)) * n_entries,
            (kEntryBytes + 12.0 * width) * n_entries, 0.0};
}

double entries_within(double nanoseconds, const Job& job) {
    return nanoseconds / (kCompiledEntry * evaluation(job));
}

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
