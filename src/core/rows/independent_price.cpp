// What an answer of a model without a plan takes, counted on the row itself: counts of entries do not tell
// how many terms meet in a component, which decides what deep forests take.
//
// Every n-th tree is compiled and answered with, and so are both halves of these trees. From one half to the
// whole an amount grows like a power, or like a sum over trees and pairs of trees; the price is the geometric
// mean of what both come to for all trees. What planning took is a part of the price. The way is the one that
// `choose` gave; it does not depend on any of this.
#include <algorithm>
#include <cmath>

#include "rows/independent.hpp"

namespace predgap {

using std::int32_t;
using std::uint8_t;

namespace {

// What some of the trees make, and what halves of them make on average.
struct Halves {
    double half, whole;

    // The sum for `times` as many trees, if it is one over trees and pairs of trees.
    double of_pairs(double times) const {
        return (4.0 * half - whole) * times + 2.0 * (whole - 2.0 * half) * times * times;
    }
    // The same for what grows like such a sum, or like a power, as where terms are taken in blocks: it is in
    // between.
    double grown(double times) const {
        if (!(half > 0.0) || !(whole > half)) return whole * times;
        const double power = whole * std::pow(times, std::log2(whole / half));
        return whole <= 2.0 * half || whole >= 4.0 * half ? power : std::sqrt(power * of_pairs(times));
    }
};

}  // namespace

// What an answer by terms of some trees took.
struct IndependentRow::Sampled {
    double n_entries = 0, n_nodes = 0, n_terms = 0, n_components = 0;
    double evaluation = 0;  // nanoseconds
    double value = 0;       // that a tolerance is relative to
    double bytes = 0;       // of terms and states, and of what does not grow with the trees
    double fixed_bytes = 0;
    bool is_complete = false;
};

struct IndependentRow::PriceOfTry {
    double nanoseconds, bytes;
    double value;  // that the tolerance is relative to, roughly; 0 if it is not known
};

// The price where all trees were compiled.
IndependentRow::PriceOfTry IndependentRow::price_of_whole(const Sampled& whole, const Way& way) const {
    EvaluationCounts terms;
    terms.terms = whole.n_terms;
    terms.components = whole.n_components;
    const auto compiled =
        work_of_counted_terms(whole.n_entries, whole.n_nodes, way.limit > 0.0, terms, routes_.model);
    return {compiled.nanoseconds() + whole.evaluation, whole.fixed_bytes + whole.bytes, whole.value};
}

// Compiles some of the trees and answers with their terms.
IndependentRow::Sampled IndependentRow::sample(const Question& question, const Way& way,
                                               const std::vector<int32_t>& order, SomeTrees some) {
    Sampled found;
    Placed terms(memory_, compilation_,
                 {way.limit, rule::kMostEntries, question.likely, CellRule::cheapest, some}, tables_, work_);
    if (!terms.is_complete() || stopped()) return found;
    const double before = work_.nanoseconds();
    if (question.kind == Question::greedy) {
        const auto& units = *question.units;
        const auto n = std::min(question.n_places, units.size());
        std::vector<int32_t> places(static_cast<std::size_t>(n));
        std::vector<double> score(static_cast<std::size_t>(units.size()));
        std::vector<uint8_t> proven(places.size());
        found.value = greedy_of(terms, units, {n, places.data(), score.data(), proven.data()});
    } else if (question.kind == Question::curve) {
        std::vector<double> gaps(order.size());
        const auto n = static_cast<int32_t>(order.size());
        found.value = curve_of(terms, *question.units, order.data(), n, gaps.data());
    } else {
        found.value = gap_of(terms);
    }
    found.evaluation = work_.nanoseconds() - before;
    found.n_entries = terms.left_out().n_entries;
    found.n_nodes = terms.left_out().n_nodes;
    found.bytes = work_.held(RowWork::Arrays::terms) + work_.held(RowWork::Arrays::states);
    found.fixed_bytes = work_.held() - found.bytes;
    for (const auto& state : terms.states()) {
        found.n_terms += state.terms->n_weights;
        found.n_components += state.terms->n_components();
    }
    found.is_complete = true;
    return found;
}

// The price of one try of an answer by compiled terms.
IndependentRow::PriceOfTry IndependentRow::price_of_try(const Question& question, const Way& way,
                                                        const std::vector<int32_t>& order) {
    const double n_trees = trees_of(routes_.model) / static_cast<double>(routes_.model.group.size());
    const double wanted =
        std::clamp(n_trees * rule::kSampledEntries / std::max(way.n_entries, 1.0), rule::kLeastTrees,
                   std::max(rule::kMostShareOfTrees * n_trees, rule::kMostTrees));
    const auto step = static_cast<std::size_t>(std::max(n_trees / wanted, 1.0));
    const auto whole = sample(question, way, order, {step, 0, 1});
    if (whole.is_complete && step == 1) return price_of_whole(whole, way);
    const auto first = sample(question, way, order, {step, 0, 2}),
               second = sample(question, way, order, {step, 1, 2});
    if (!whole.is_complete || !first.is_complete || !second.is_complete)
        return {way.nanoseconds, way.bytes, 0.0};
    const double times = n_trees / std::ceil(n_trees / static_cast<double>(step));
    const auto halves = [&](double Sampled::* n) { return Halves{0.5 * (first.*n + second.*n), whole.*n}; };
    EvaluationCounts terms;
    terms.terms = halves(&Sampled::n_terms).grown(times);
    terms.components = halves(&Sampled::n_components).grown(times);
    const auto compiled = work_of_counted_terms(times * whole.n_entries, times * whole.n_nodes,
                                                way.limit > 0.0, terms, routes_.model);
    return {compiled.nanoseconds() + halves(&Sampled::evaluation).grown(times),
            whole.fixed_bytes + std::max(halves(&Sampled::bytes).grown(times), whole.bytes),
            halves(&Sampled::value).of_pairs(times)};
}

// Adds up all tries: there is one more while the bound is too large, as in answer().
void IndependentRow::price_terms_closely(const Question& question, const Accuracy& accuracy, Way& way) {
    const auto order = counts_.likely_order(question);
    const bool is_exact = way.method == Method::exact;
    const double tolerance = is_exact ? rule::kExactShare : accuracy.tolerance;
    double sum = 0.0;
    auto next = way;
    for (int n_tries = 1;; ++n_tries) {
        const auto priced = price_of_try(question, next, order);
        way.nanoseconds = sum += priced.nanoseconds;
        way.bytes = n_tries > 1 ? std::max(way.bytes, priced.bytes) : priced.bytes;
        if (next.limit == 0.0 || !(priced.value > 0.0) || stopped()) return;
        const auto totals = counts_.count(next.limit, question, false);
        const double share = totals.bound / (tolerance * priced.value);
        if (!totals.complete || share <= rule::kSureRetry) return;
        if (is_exact) {
            next.limit = 0.0;
            continue;
        }
        next = choose_again(counts_, question, accuracy, next, share, n_tries);
        if (next.route == Route::compiled) continue;
        way.nanoseconds += next.nanoseconds;
        way.bytes = std::max(way.bytes, next.bytes);
        return;
    }
}

// Counts pairs of some of the leaves. Curves and rankings ask for every prefix, and a ranking for all
// candidates: a few are looked at.
void IndependentRow::price_pairs_closely(const Question& question, Way& way) {
    if (question.kind == Question::gap) {
        const double counted = typical::kOfCounted * pairs_.counted_nanoseconds(question.features);
        if (!stopped()) way.nanoseconds = counted;
        return;
    }
    constexpr std::size_t kLooks = rule::kLooksAtPrefixes;
    const auto order = counts_.likely_order(question);
    const bool is_greedy = question.kind == Question::greedy;
    const auto n = order.size(), places = std::min(static_cast<std::size_t>(question.n_places), n);
    double sum = 0.0;
    for (std::size_t look = 0; look < kLooks && places > 0; ++look) {
        const auto place = (2 * look + 1) * places / (2 * kLooks);
        // A ranking asks for all candidates, a curve for the next one.
        const auto last = is_greedy ? place + (2 * look + 1) * (n - place) / (2 * kLooks) : place;
        std::vector<uint8_t> subset(n_features(), 0);
        for (std::size_t i = 0; i <= place; ++i)
            for (const auto q : question.units->members(order[i < place ? i : last]))
                subset[static_cast<std::size_t>(q)] = question.features[q];
        sum += typical::kOfCounted * pairs_.counted_nanoseconds(subset.data()) *
               static_cast<double>(places * (is_greedy ? n - place : 1)) / kLooks;
    }
    if (!stopped()) way.nanoseconds = sum;
}

// counted: what planning took.
void IndependentRow::set_close_price(const Question& question, const Accuracy& accuracy, double counted,
                                     Way& way) {
    double planning = typical::kCold + typical::kOfCounted * counted;
    for (const auto q : routes_.model.features)
        if (tables_.is_open[q])
            planning +=
                typical::kOpenedAtom * (routes_.model.atoms.begin[q + 1] - routes_.model.atoms.begin[q]);
    set_price(counts_, question, way);  // it stays where the trials end early
    {
        const WorkApart trials(work_, {rule::kMostTrial, routes_.limits.bytes});
        if (way.route == Route::pairs)
            price_pairs_closely(question, way);
        else
            price_terms_closely(question, accuracy, way);
    }
    way.nanoseconds += planning;
}

}  // namespace predgap
