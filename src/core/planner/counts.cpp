#include "planner/counts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

// The mean of -log2 of the probability that x' crosses a threshold of an open feature: how rarely it does.
double mean_rarity(const RowTables& tables) {
    constexpr int kMost = 100;
    const auto& model = tables.model();
    int64_t sum = 0, n = 0;
    for (const auto q : model.features) {
        if (!tables.is_open[q]) continue;
        for (auto a = model.atoms.begin[q]; a < model.atoms.begin[q + 1]; ++a, ++n)
            sum += std::min(-std::ilogb(std::max(tables.reach(a), 1e-300)), kMost);
    }
    return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(n, 1));
}

}  // namespace

void RowCounts::forget() {
    lively_terms_.reset();
    has_overflowed_ = false;
}

double RowCounts::n_moving(const Question& question) const {
    const auto& used = model().features;
    return static_cast<double>(
        std::count_if(used.begin(), used.end(), [&](int32_t q) { return question.features[q] != 0; }));
}

// ---- the plan --------------------------------------------------------------------------------------------

Price RowCounts::plan(const Question& question) {
    Price sum;
    EvaluationCounts terms;
    for (const auto& plan : routes_.plan) {
        const auto moving = plan->count(question.features);
        const auto own = price_of_plan(*plan, moving, model(), question);
        sum.work += own.work;
        sum.bytes += own.bytes;
        terms += moving;
    }
    const auto lively = features_likely_to_cross(question);
    const auto& used = model().features;
    if (std::all_of(used.begin(), used.end(),
                    [&](int32_t q) { return question.features[q] == lively[static_cast<std::size_t>(q)]; }))
        lively_terms_ = terms;
    return sum;
}

// Finds the features that can matter in a product with others; of the rest hardly a term is left.
std::vector<uint8_t> RowCounts::features_likely_to_cross(const Question& question) const {
    const auto& atoms = model().atoms;
    const auto may_cross = [&](int32_t q, int32_t atom) {
        return atoms.begin[q] <= atom && atom < atoms.begin[q + 1] &&
               tables_.reach(atom) >= rule::kNeverCrossed;
    };
    std::vector<uint8_t> lively(static_cast<std::size_t>(model().n_features()), 0);
    for (const auto q : model().features) {
        const auto above = tables_.first_above[q];
        lively[static_cast<std::size_t>(q)] =
            question.features[q] && tables_.is_open[q] &&
            (model().cells.categorical(q) || may_cross(q, above - 1) || may_cross(q, above));
    }
    return lively;
}

const EvaluationCounts& RowCounts::lively_terms(const Question& question) {
    if (lively_terms_) return *lively_terms_;
    const auto lively = features_likely_to_cross(question);
    lively_terms_.emplace();
    for (const auto& plan : routes_.plan) *lively_terms_ += plan->count(lively.data());
    return *lively_terms_;
}

// ---- compiled terms --------------------------------------------------------------------------------------

EvaluationCounts RowCounts::compiled_terms(double n_entries, bool is_pruned, const Question& question) {
    if (!routes_.plan.empty()) return terms_of_plan(n_entries, lively_terms(question));
    const auto lively = features_likely_to_cross(question);
    const double n_lively = std::accumulate(lively.begin(), lively.end(), 0.0);
    return typical_terms(n_entries, n_lively, is_pruned, model(), question);
}

double RowCounts::not_negligible(const RowCompilation::Totals& totals) const {
    const double narrow = std::min(mean_rarity(tables_) / typical::kRare, 1.0);
    const double of_node = totals.n_entries / std::max(totals.n_nodes, 1.0);
    const double left = 1.0 / (1.0 + narrow * narrow * of_node / typical::kMany);
    return totals.n_entries * std::max(typical::kLeastLeft, left);
}

RowCompilation::Totals RowCounts::look(double n_trees) {
    return compilation_.look(n_trees, rule::kMostEntries);
}

RowCompilation::Totals RowCounts::count(double limit, const Question& question, bool roughly) {
    return compilation_.count(limit, rule::kMostEntries, question.likely, roughly);
}

RowCompilation::Totals RowCounts::guess_limit(double target, const Question& question, double& limit) {
    RowCompilation::Totals totals;
    limit = compilation_.guess_limit(target, question.likely, totals);
    return totals;
}

RowCompilation::Totals RowCounts::find_limit(double target, const Question& question, double& limit) {
    RowCompilation::Totals totals;
    limit = compilation_.find_limit(target, rule::kMostEntries, question.likely, totals);
    return totals;
}

double RowCounts::target(const Question& question, double tolerance) {
    const auto& effect = compilation_.main_effects();
    double sum = 0.0;
    if (question.order) {  // in the mean of a curve a unit counts from its place on
        for (int32_t i = 0; i < question.n_places; ++i)
            for (const auto q : question.units->members(question.order[i]))
                sum += effect[q] * (question.n_places - i) / question.n_places;
        return rule::kAimOfOrder * tolerance * sum;
    }
    for (const auto q : model().features)
        if (question.likely ? question.likely.feature[q] : question.features[q]) sum += effect[q];
    return tolerance * (question.kind == Question::curve ? rule::kAimOfCurve : rule::kAimOfGap) * sum;
}

// ---- pairs of leaves -------------------------------------------------------------------------------------

std::vector<int32_t> RowCounts::likely_order(const Question& question) {
    std::vector<uint8_t> counts(static_cast<std::size_t>(model().n_features()), 0);
    for (const auto q : model().features) counts[static_cast<std::size_t>(q)] = question.features[q];
    std::vector<int32_t> order;
    for (int32_t i = 0; question.order && i < question.n_places; ++i)
        if (any_of(question.units->members(question.order[i]), counts)) order.push_back(question.order[i]);
    if (question.order || question.kind == Question::gap || question.kind == Question::subsets) return order;
    const auto& main_effect = compilation_.main_effects();
    std::vector<double> effect(static_cast<std::size_t>(question.units->size()), 0.0);
    for (int32_t u = 0; u < question.units->size(); ++u) {
        if (!any_of(question.units->members(u), counts)) continue;
        order.push_back(u);
        for (const auto q : question.units->members(u)) effect[static_cast<std::size_t>(u)] += main_effect[q];
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return effect[static_cast<std::size_t>(a)] > effect[static_cast<std::size_t>(b)];
    });
    return order;
}

Price RowCounts::pairs(const Question& question) {
    const auto order = likely_order(question);
    Price sum;
    for (const auto& pairs : routes_.pairs) {
        const auto own = price_of_pairs(pairs, question, order, tables_, work_);
        sum.work += own.work;
        sum.bytes = std::max(sum.bytes, own.bytes);
    }
    return sum;
}

}  // namespace predgap
