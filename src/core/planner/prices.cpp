#include "planner/prices.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "terms/row_compilation.hpp"

namespace predgap {

using std::int32_t;

namespace {

double width_of(const Model& model) { return static_cast<double>(model.group[0].width); }

double nodes_of(const Model& model) {
    double sum = 0.0;
    for (const auto& group : model.group) sum += static_cast<double>(group.node.size());
    return sum;
}

double n_subsets(const Question& question) { return std::ldexp(1.0, question.n_places); }

// An answer for all subsets takes as many times a gap as this: most components do not change from one subset
// to the next.
double times_of_gap(const Question& question) {
    return question.kind == Question::subsets ? 1.0 + typical::kOfSubsets * n_subsets(question) : 1.0;
}

double curves_of(const Question& question) {
    if (question.kind == Question::examine) return question.n_places;
    return question.kind == Question::curve ? 1.0 : 0.0;
}
double rankings_of(const Question& question) {
    return question.kind == Question::greedy || question.kind == Question::examine ? 1.0 : 0.0;
}

// The units that move and that some tree uses.
double moving_units(const Model& model, const Question& question) {
    std::vector<std::uint8_t> moves(static_cast<std::size_t>(question.units->size()), 0);
    for (const auto q : model.features)
        if (question.features[q]) moves[static_cast<std::size_t>(question.units->of(q))] = 1;
    return static_cast<double>(std::count(moves.begin(), moves.end(), 1));
}

// The part of what a ranking of all units computes again that is done for the first places: at each place, of
// the candidates that are left.
double share_of_places(const Model& model, const Question& question) {
    if (question.kind != Question::greedy || question.n_places >= question.units->size()) return 1.0;
    const double n = std::max(moving_units(model, question), 1.0);
    const double left = n - std::min<double>(question.n_places, n);
    return 1.0 - left * left / (n * n);
}

// Counts the work of the kernels on the terms of a row, wherever these come from. An examination answers one
// question after the other.
Workload evaluation(const EvaluationCounts& n, const Model& model, const Question& question) {
    const double width = width_of(model), curves = curves_of(question), rankings = rankings_of(question);
    const double gained = rankings * share_of_places(model, question);
    const double of_outputs = 1.0 + typical::kOutputOfForm * (width - 1.0);
    const double again = n.components * (1.0 + n.components / typical::kUncachedComponents);
    Workload work;
    work.add(Speed::term, n.terms * of_outputs)
        .add(Speed::pair, n.pairs * of_outputs)
        .add(Speed::component, n.components)
        .add(Speed::set, n.sets);
    work *= std::max(curves + rankings, 1.0);
    return work.add(Speed::pair_again, curves * n.pairs_again * width)
        .add(Speed::component_again, curves * again)
        .add(Speed::set_again, curves * n.sets_again)
        .add(Speed::pair_gained, gained * n.pairs_again * width)
        .add(Speed::component_gained, gained * again)
        .add(Speed::set_gained, gained * n.sets_again);
}

}  // namespace

double trees_of(const Model& model) {
    double sum = 0.0;
    for (const auto& group : model.group) sum += static_cast<double>(group.root.size());
    return sum;
}

// ---- the plan --------------------------------------------------------------------------------------------

Price price_of_plan(const Plan& plan, const EvaluationCounts& moving, const Model& model,
                    const Question& question) {
    const double share = moving.terms / std::max(plan.n_terms(), 1.0);
    const bool are_alone = !question.units || question.units->are_alone();
    const auto use = rankings_of(question) > 0.0 ? (are_alone ? Plan::Use::gains : Plan::Use::gains_of_units)
                     : curves_of(question) > 0.0 ? Plan::Use::curve
                                                 : Plan::Use::gaps;
    auto work = evaluation(moving, model, question);
    work.add(Speed::row, 1.0)
        .add(Speed::atom, model.n_atoms())
        .add(Speed::box, static_cast<double>(plan.n_boxes()))
        .add(Speed::plan_component, plan.n_components())
        .add(Speed::spread, plan.typical_spread() * share)
        .add(Speed::weight, plan.n_terms() * width_of(model));
    work *= times_of_gap(question);
    return {work, plan.bytes() + plan.row_bytes(use) + RowTables::bytes_of(model) +
                      KeptSets::bytes(model, question.features)};
}

// ---- compiled terms --------------------------------------------------------------------------------------

namespace {

// The cells of the moving category that has most; 0 if there is none.
double most_cells(const Model& model, const Question& question) {
    int32_t most = 0;
    for (const auto q : model.features)
        if (question.features[q]) most = std::max(most, model.cells.count(q));
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
                               const Question& question) {
    using namespace typical;
    const double block = is_pruned ? kBlockPruned : kBlockExact;
    EvaluationCounts n;
    n.terms = kTermsOfEntry * n_entries;
    n.components = std::min(small_sets(n_moving, 5), n.terms / kTermsOfComponent);
    // Most terms are of the sets of at most three features. Where many are of one, these are taken in blocks.
    const double crowd = n.terms / std::min(small_sets(n_moving, 3), n.terms / kTermsOfSmallSet + 1.0);
    n.pairs = kFeaturesOfTerm * 0.5 * n.terms * std::min(crowd, std::sqrt(block * crowd));
    const double cells = kCellOfEntry * most_cells(model, question) * n_entries;
    if (cells > 0.0) {
        n.sets = std::min(kSetsOfPairs * n.pairs, cells);
        n.pairs *= kNumbersAlone;
    }
    const double changes = std::max(n_moving - kSettled, 0.0) * kChangesOfFeature;
    n.pairs_again = changes * n.pairs;
    n.sets_again = changes * n.sets;
    return n;
}

EvaluationCounts terms_of_plan(double n_entries, const EvaluationCounts& plan) {
    using namespace typical;
    const double share = std::min(kTermsOfEntry * n_entries / std::max(plan.terms, 1.0), kMostOfPlan);
    // Fewer terms are fewer components, or, where these are crowded, fewer terms in each, and far fewer
    // pairs.
    const double of_components = 1.0 / (1.0 + plan.terms / std::max(kCrowdOfPlan * plan.components, 1.0));
    const double of_pairs = std::pow(share, kPairsPower - of_components);
    const double of_sets = std::pow(share, kSetsPower);  // some are over pairs, some over cells
    return {std::pow(share, of_components) * plan.components,
            share * plan.terms,
            of_pairs * plan.pairs,
            of_pairs * plan.pairs_again,
            of_sets * plan.sets,
            of_sets * plan.sets_again};
}

namespace {

Workload compiling(double n_entries, bool is_pruned, const EvaluationCounts& terms, const Model& model) {
    const double of_outputs = 1.0 + typical::kOutputOfEntry * (width_of(model) - 1.0);
    return Workload()
        .add(Speed::entry, n_entries * of_outputs)
        .add(Speed::limited_entry, is_pruned ? n_entries * of_outputs : 0.0)
        .add(Speed::new_term, terms.terms * of_outputs)
        .add(Speed::new_component, terms.components);
}

}  // namespace

Workload work_of_counted_terms(double n_entries, double n_nodes, bool is_pruned,
                               const EvaluationCounts& terms, const Model& model) {
    auto work = compiling(n_entries, is_pruned, terms, model);
    work += evaluation(terms, model, {Question::gap, nullptr});
    return work.add(Speed::row, 1.0)
        .add(Speed::atom, model.n_atoms())
        .add(Speed::walked_node, n_nodes)
        .add(Speed::new_term, terms.terms * (terms.terms / typical::kUncachedTerms));
}

Price price_of_compiling(double n_entries, double n_nodes, bool is_pruned, const EvaluationCounts& terms,
                         const Model& model, const Question& question) {
    using namespace typical;
    const double of_question = curves_of(question) > 0.0           ? kBytesOfCurve
                               : question.kind == Question::greedy ? kBytesOfGreedy
                                                                   : 1.0;
    auto work = evaluation(terms, model, question);
    work *= kScattered;
    work += compiling(n_entries, is_pruned, terms, model);
    work *= times_of_gap(question);
    work.add(Speed::row, 1.0)
        .add(Speed::atom, model.n_atoms())
        .add(Speed::node, n_nodes)
        .add(Speed::node_of_model, nodes_of(model));
    return {work, of_question * (kBytesOfEntry + kBytesOfOutput * width_of(model)) * n_entries +
                      RowTables::bytes_of(model) + RowCompilation::bytes_of(model) +
                      KeptSets::bytes(model, question.features)};
}

double least_nodes(const Model& model) {
    const double n_trees = trees_of(model);
    return n_trees * std::log2(1.0 + nodes_of(model) / std::max(n_trees, 1.0));
}

double trees_within(double nanoseconds, double n_moving, const Model& model) {
    const double share = n_moving / static_cast<double>(std::max<std::size_t>(model.features.size(), 1));
    return nanoseconds * trees_of(model) / std::max(typical::kLookedAtNode * share * nodes_of(model), 1.0);
}

// ---- pairs of leaves -------------------------------------------------------------------------------------

Workload work_of_gap_by_pairs(const Pairs::Work& counted) {
    return Workload()
        .add(Speed::gap_by_pairs, 1.0)
        .add(Speed::leaf, counted.leaves)
        .add(Speed::split, counted.splits);
}

Price price_of_pairs(const Pairs& pairs, const Question& question, const std::vector<int32_t>& order,
                     const RowTables& row, RowWork& counting) {
    std::vector<std::uint8_t> subset(question.features, question.features + row.model().n_features());
    Price price;
    const auto add = [&](double times) {
        const auto counted = pairs.work(subset.data(), row);
        counting.add(nominal::kWalkedNode * counted.walked);
        auto work = work_of_gap_by_pairs(counted);
        price.work += work *= times;
        price.bytes = std::max(price.bytes, counted.bytes + RowTables::bytes_of(row.model()));
    };
    if (question.kind == Question::gap || question.kind == Question::subsets) {
        add(question.kind == Question::gap ? 1.0 : n_subsets(question));
        return price;
    }
    // Curves and rankings ask for every prefix: look at a few.
    constexpr int kLooks = rule::kLooksAtPrefixes;
    const auto n = static_cast<double>(order.size());
    const bool is_examined = question.kind == Question::examine;
    const double places = is_examined ? n : std::min<double>(question.n_places, n);
    for (int look = 0; look < kLooks && places > 0; ++look) {
        const double size = std::floor(places * (look + 0.5) / kLooks) + 1.0;
        std::fill(subset.begin(), subset.end(), 0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(size) && i < order.size(); ++i)
            for (const auto q : question.units->members(order[i]))
                subset[static_cast<std::size_t>(q)] = question.features[q];
        add(places / kLooks * (curves_of(question) + rankings_of(question) * (n - size + 1.0)));
    }
    // The prefixes of a long answer may be far harder than these, so that long estimates are multiplied to
    // stay an upper bound.
    if (price.work.nanoseconds() > rule::kLongPairs) price.work *= rule::kUncertainPairs;
    return price;
}

}  // namespace predgap
