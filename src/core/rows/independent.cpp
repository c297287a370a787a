#include "rows/independent.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>

#include "rows/search.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Accuracy of_scores(Accuracy accuracy) {
    if (accuracy.kind == Method::bounded) accuracy.tolerance *= 0.5;
    return accuracy;
}

IndependentRow::IndependentRow(const Routes& routes, const NoiseLaws& laws)
    : routes_(routes),
      tables_(routes.model, laws),
      compilation_(routes.model),
      counts_(routes, tables_, compilation_, work_),
      memory_(routes.model.group.size()),
      pairs_(routes, tables_, work_) {}

void IndependentRow::load(const RawRow& row, const std::atomic<bool>& stop, Forecast* forecast) {
    tables_.load(row);
    stop_ = &stop;
    work_.begin(stop, routes_.limits);
    work_.add(nominal::kRow + nominal::kAtom * routes_.model.n_atoms());
    work_.hold(RowWork::Arrays::tables, tables_.bytes());
    forecast_ = forecast;
    planned_ = 0.0;
    pairs_.begin();
}

// Opens the features that move. What was counted of others is void.
void IndependentRow::open(const uint8_t* features) {
    tables_.open(features);
    compilation_.open(tables_, work_);
    counts_.forget();
}

void IndependentRow::plan(double nanoseconds) {
    if (!forecast_ || !(nanoseconds > 0.0)) return;
    forecast_->add(std::min(nanoseconds, kMostNanoseconds), planned_ == 0.0);
    planned_ += nanoseconds;
}

void IndependentRow::finish() {
    if (!forecast_) return;
    forecast_->add(std::max(work_.nanoseconds() - planned_, 0.0), planned_ == 0.0);
    forecast_ = nullptr;
}

std::vector<uint8_t> IndependentRow::features_of(const Units& units, const int32_t* some, int32_t n) const {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < n; ++i)
        for (const auto q : units.members(some[i])) features[static_cast<std::size_t>(q)] = 1;
    return features;
}

// ---- the way of an answer --------------------------------------------------------------------------------

// Gives up a row that has taken more than it may.
void IndependentRow::refuse_too_much() const {
    if (work_.is_too_much()) throw TooCostly{work_.nanoseconds(), work_.bytes()};
}

template <class FromTerms, class FromPairs>
Answer IndependentRow::answer(const Question& question, const Accuracy& accuracy, const FromTerms& from_terms,
                              const FromPairs& from_pairs) {
    auto way = way_ = choose(counts_, question, accuracy);
    for (int n_tries = 1;; ++n_tries) {
        refuse_too_much();
        if (way.may_refuse && !stopped()) refuse_too_costly(way);  // counts that were stopped are too small
        if (n_tries == 1) plan(way.nanoseconds);
        const auto [value, bound] = evaluate(question, accuracy, way, from_terms, from_pairs);
        refuse_too_much();
        const bool is_exact = way.method == Method::exact;
        const bool is_met = bound == 0.0 || way.method == Method::pruned ||
                            bound <= (is_exact ? rule::kExactShare : accuracy.tolerance) * value;
        if ((is_met && std::isfinite(bound)) || stopped()) return {is_exact ? 0.0 : bound, way.method};
        if (is_exact && std::isfinite(bound)) {  // too much was left out
            way.limit = 0.0;
        } else if (is_exact) {  // there are more entries than were counted on
            counts_.note_overflow();
            way = choose(counts_, question, accuracy);
        } else {
            const double share = value > 0.0 ? bound / (accuracy.tolerance * value) : kInfinity;
            way = choose_again(counts_, question, accuracy, way, share, n_tries);
        }
    }
}

// Evaluates once. The bound is infinite if there were too many entries.
template <class FromTerms, class FromPairs>
IndependentRow::Evaluated IndependentRow::evaluate(const Question& question, const Accuracy& accuracy,
                                                   const Way& way, const FromTerms& from_terms,
                                                   const FromPairs& from_pairs) {
    if (way.route == Route::pairs) return {from_pairs(), 0.0};
    if (way.route == Route::plan) {
        Placed terms(memory_, routes_.plan, tables_, work_);
        return from_terms(terms, way);
    }
    Placed terms(memory_, compilation_, {way.limit, rule::kMostEntries, question.likely, accuracy.cell_rule},
                 tables_, work_);
    return terms.is_complete() ? from_terms(terms, way) : Evaluated{0.0, kInfinity};
}

Way IndependentRow::way_to(const Question& question, const Accuracy& accuracy, bool closely) {
    const double before = work_.nanoseconds();
    open(question.features);
    if (question.kind == Question::single) return way_to_single(question, accuracy, closely);
    auto asked = question;
    auto promised = accuracy;
    Way coarse;
    std::vector<uint8_t> likely;
    if (question.kind == Question::greedy) {
        promised = of_scores(accuracy);
        if (needs_likely_units(counts_, question, accuracy))
            likely = likely_features(*question.units, question.n_places, &coarse);
        if (!likely.empty()) asked.likely = {likely.data(), question.units->of_features()};
    }
    auto way = choose(counts_, asked, promised);
    if (way.may_refuse && !stopped()) refuse_too_costly(way);  // as the answer does
    const bool is_sampled =
        asked.kind == Question::gap || asked.kind == Question::curve || asked.kind == Question::greedy;
    if (closely && is_sampled && routes_.plan.empty() && accuracy.kind != Method::pruned) {
        set_close_price(asked, promised, work_.nanoseconds() - before, way);
    } else {
        set_price(counts_, asked, way);
        way.work += coarse.work;
        way.nanoseconds += coarse.nanoseconds;
    }
    way.bytes = std::max(way.bytes, coarse.bytes);
    refuse_too_much();
    if (!stopped()) refuse_too_costly(way);
    return way;
}

// Main effects, whatever the accuracy; and the gap of each unit of several features.
Way IndependentRow::way_to_single(const Question& question, const Accuracy& accuracy, bool closely) {
    auto sum = compiled_way(counts_, question, {}, 0.0, Method::exact);
    for (int32_t u = 0; u < question.units->size(); ++u) {
        if (question.units->is_alone(u)) continue;
        const auto subset = features_of(*question.units, &u, 1);
        const auto own = way_to({Question::gap, subset.data()}, accuracy, closely);
        sum.work += own.work;
        sum.nanoseconds += own.nanoseconds;
        sum.bytes = std::max(sum.bytes, own.bytes);
        sum.method = std::max(sum.method, own.method);
    }
    return sum;
}

// ---- gaps and curves -------------------------------------------------------------------------------------

Answer IndependentRow::gap(const uint8_t* subset, const Accuracy& accuracy, double& value) {
    open(subset);
    return answer(
        {Question::gap, subset}, accuracy,
        [&](Placed& terms, const Way&) { return Evaluated{value = gap_of(terms), terms.bound()}; },
        [&] { return value = pairs_.gap(subset).gap; });
}

Answer IndependentRow::curve(const Units& units, const int32_t* order, int32_t n_places,
                             const Accuracy& accuracy, double* gaps) {
    const auto features = features_of(units, order, n_places);
    open(features.data());
    const Question question{.kind = Question::curve,
                            .features = features.data(),
                            .n_places = n_places,
                            .units = &units,
                            .order = order};
    return answer(
        question, accuracy,
        [&](Placed& terms, const Way&) {
            return Evaluated{curve_of(terms, units, order, n_places, gaps), terms.bound()};
        },
        [&] { return pairs_.curve(units, order, n_places, gaps); });
}

Answer IndependentRow::subset_gaps(const Units& units, const int32_t* chosen, int32_t m, const double* share,
                                   const Accuracy& accuracy, double* gaps) {
    const auto features = features_of(units, chosen, m);
    open(features.data());
    std::vector<double> weight(static_cast<std::size_t>(m) + 1);  // of each subset of a size
    double n_of_size = 1.0;
    for (int32_t size = 0; size <= m; n_of_size *= static_cast<double>(m - size) / (size + 1.0), ++size)
        weight[static_cast<std::size_t>(size)] = share[size] / n_of_size;
    return answer(
        {Question::subsets, features.data(), m, &units}, accuracy,
        [&](Placed& terms, const Way&) {
            subset_gaps_of(terms, subset_gaps_, units, chosen, m, gaps);
            double sum = 0.0;
            for (std::uint32_t s = 0; s < std::uint32_t{1} << m; ++s)
                sum += weight[static_cast<std::size_t>(std::popcount(s))] * gaps[s];
            return Evaluated{sum, terms.bound()};
        },
        [&] {
            pairs_.subset_gaps(units, chosen, m, gaps);
            return 0.0;
        });
}

void IndependentRow::moving_units(const Units& units, uint8_t* moving) {
    tables_.open(all_features().data());
    std::fill_n(moving, units.size(), uint8_t{0});
    const auto& model = routes_.model;
    const auto is_reached = [&](int32_t first, int32_t last) {
        return std::any_of(tables_.shift.data() + first, tables_.shift.data() + last,
                           [](double shift) { return shift != 0.0; });
    };
    for (const auto q : model.features)
        if (tables_.is_open[q] && (is_reached(model.atoms.begin[q], model.atoms.begin[q + 1]) ||
                                   is_reached(model.set_atoms.begin[q], model.set_atoms.begin[q + 1])))
            moving[units.of(q)] = 1;
}

void IndependentRow::mean_change(const uint8_t* subset, double* change) {
    tables_.open(subset);
    pairs_.mean_change(change);
    refuse_too_much();
}

// ---- rankings --------------------------------------------------------------------------------------------

// For a few places, terms with at most one unit outside the likely ones suffice: those of a coarse ranking,
// and two more.
std::vector<uint8_t> IndependentRow::likely_features(const Units& units, int32_t n_places, Way* price) {
    std::vector<uint8_t> is_used(n_features(), 0), likely(n_features(), 0);
    for (const auto q : routes_.model.features) is_used[static_cast<std::size_t>(q)] = 1;
    int32_t n_used = 0;
    for (int32_t u = 0; u < units.size(); ++u) n_used += any_of(units.members(u), is_used);
    const auto n = n_places + rule::kMorePlaces;
    if (n >= n_used || n_places == 0) return {};
    const Likely all;
    Placed terms(memory_, compilation_, {rule::kCoarse, rule::kMostCoarseEntries, all}, tables_, work_);
    refuse_too_much();
    if (!terms.is_complete()) return {};
    std::vector<int32_t> order(static_cast<std::size_t>(n));
    std::vector<double> score(static_cast<std::size_t>(units.size()));
    std::vector<uint8_t> proven(static_cast<std::size_t>(n));
    greedy_of(terms, units, {n, order.data(), score.data(), proven.data()});
    refuse_too_much();
    const Question coarse{Question::greedy, is_used.data(), n, &units};
    if (price) *price = compiled_way(counts_, coarse, terms.left_out(), rule::kCoarse, Method::pruned);
    for (const auto u : order)
        for (const auto q : units.members(u)) likely[static_cast<std::size_t>(q)] = 1;
    return likely;
}

Answer IndependentRow::greedy(const Units& units, const Places& places, const Accuracy& accuracy) {
    const auto all = all_features();
    Question question{Question::greedy, all.data(), places.n, &units};
    open(all.data());
    std::vector<uint8_t> likely;
    if (needs_likely_units(counts_, question, accuracy)) likely = likely_features(units, places.n, nullptr);
    if (!likely.empty()) question.likely = {likely.data(), units.of_features()};
    for (std::optional<Way> first;;) {
        bool are_complete = likely.empty();  // all candidates
        const auto found = answer(
            question, of_scores(accuracy),
            [&](Placed& terms, const Way& way) {
                const double value = greedy_of(terms, units, places);
                if (way.method == Method::pruned) std::fill_n(places.proven, places.n, uint8_t{0});
                return Evaluated{value, terms.bound()};
            },
            [&] {
                are_complete = true;
                return pairs_.greedy(units, places);
            });
        if (!first) first = way_;
        way_ = *first;
        if (are_complete || stopped()) return found;
        // The candidates for a place are complete only while those before it are likely.
        are_complete = true;
        for (int32_t place = 0; place + 1 < places.n; ++place) {
            const auto taken = units.members(places.order[place]);
            are_complete = are_complete && likely[static_cast<std::size_t>(*taken.first)];
            for (const auto q : taken) likely[static_cast<std::size_t>(q)] = 1;
        }
        if (are_complete) return found;
    }
}

Answer IndependentRow::search(const Units& units, const int32_t* chosen, int32_t m, int32_t n_places,
                              int32_t width, const Accuracy& accuracy, int32_t* order, double* gaps) {
    const auto features = features_of(units, chosen, m);
    open(features.data());
    SearchOf search{units, {chosen, chosen + m}, n_places, width, order, gaps};
    return answer(
        {Question::greedy, features.data(), n_places, &units}, accuracy,
        [&](Placed& terms, const Way&) { return Evaluated{beam_of(terms, search), terms.bound()}; },
        [&] { return pairs_.beam(search); });
}

// The gap of some features, and the scale of its rounding error.
Answer IndependentRow::alone(const FeatureList& features, const Accuracy& accuracy, double& value,
                             double& error_scale) {
    std::vector<uint8_t> subset(n_features(), 0);
    for (const auto q : features) subset[static_cast<std::size_t>(q)] = 1;
    open(subset.data());
    return answer(
        {Question::gap, subset.data()}, accuracy,
        [&](Placed& terms, const Way&) {
            error_scale = error_scale_of(terms);
            return Evaluated{value = gap_of(terms), terms.bound()};
        },
        [&] {
            const auto found = pairs_.gap(subset.data());
            error_scale = found.error_scale;
            return value = found.gap;
        });
}

Answer IndependentRow::single(const Units& units, const Places& places, const Accuracy& accuracy) {
    const auto all = all_features();
    open(all.data());
    Candidates c(routes_.model, units);
    const auto is_open = open_units(tables_, units);
    const auto& effect = compilation_.main_effects();
    const auto& error = compilation_.main_error_scales();
    for (const auto q : routes_.model.features) {
        const auto u = static_cast<std::size_t>(units.of(q));
        c.gain[u] = effect[q];
        c.error_scale[u] = error[q];
    }
    Answer worst;
    std::vector<double> bound(c.gain.size(), 0.0);
    for (int32_t u = 0; u < units.size() && !stopped(); ++u) {
        const auto at = static_cast<std::size_t>(u);
        if (units.is_alone(u) || c.is_idle[at]) continue;
        const auto found = alone(units.members(u), accuracy, c.gain[at], c.error_scale[at]);
        bound[at] = found.bound;
        worst = {std::max(worst.bound, found.bound), std::max(worst.method, found.method)};
    }
    refuse_too_much();
    for (int32_t place = 0; place < places.n; ++place) {
        const auto best = c.best();
        const auto at = static_cast<std::size_t>(best);
        places.order[place] = best;
        places.score[best] = c.gain[at];
        places.proven[place] = c.proves(best, [&](std::size_t u) { return bound[u]; }, is_open);
        c.leave_out(best);
    }
    return worst;
}

// ---- how the noise spreads in the prediction -------------------------------------------------------------

Answer IndependentRow::moments(const uint8_t* subset, const Accuracy& accuracy, double* change,
                               double* covariance) {
    open(subset);
    const auto n_outputs = static_cast<std::size_t>(routes_.model.n_outputs());
    const bool is_joint = routes_.model.group.size() < n_outputs;  // covariances are sums over terms
    std::fill_n(covariance, n_outputs * n_outputs, std::numeric_limits<double>::quiet_NaN());
    const auto squared_mean = [&] {
        double sum = 0.0;
        for (std::size_t k = 0; k < n_outputs; ++k) sum += change[k] * change[k];
        return sum;
    };
    const auto gap = [&] {
        double variance = 0.0;
        for (std::size_t k = 0; k < n_outputs; ++k) variance += covariance[k * (n_outputs + 1)];
        return squared_mean() + variance;
    };
    const Question question{
        .kind = Question::gap, .features = subset, .by_pairs = !is_joint, .is_whole_gap = false};
    return answer(
        question, accuracy,
        [&](Placed& terms, const Way&) {
            moments_of(terms, change, covariance);
            double bound = terms.bound();
            if (bound > 0.0) {  // of the variances, and of the means times the root of the gap
                const double of_mean = terms.left_out().mean_error, square = squared_mean();
                bound = std::max(bound + of_mean * (2.0 * std::sqrt(square) + of_mean),
                                 of_mean * std::sqrt(gap()));
            }
            return Evaluated{gap(), bound};
        },
        [&] {
            pairs_.moments(change, covariance);
            return gap();
        });
}

Answer IndependentRow::main_weights(const uint8_t* subset, const Accuracy& accuracy, double* weights) {
    open(subset);
    const Question question{
        .kind = Question::gap, .features = subset, .by_pairs = false, .is_whole_gap = false};
    return answer(
        question, accuracy,
        [&](Placed& terms, const Way&) { return Evaluated{main_weights_of(terms, weights), terms.bound()}; },
        [] { return 0.0; });
}

Answer IndependentRow::sensitivity(const Units& units, const Accuracy& accuracy, const Shares& shares) {
    const auto all = all_features();
    open(all.data());
    // The share of a pair is off by at most so many bounds of the gap; see docs/internals.md.
    constexpr double kBounds = 6.0;
    auto of_gap = accuracy;
    of_gap.tolerance /= kBounds;
    const Question question{
        .kind = Question::gap, .features = all.data(), .by_pairs = false, .is_whole_gap = false};
    auto found = answer(
        question, of_gap,
        [&](Placed& terms, const Way&) {
            const double variance = shares_of(terms, units, shares);
            const double root = std::sqrt(terms.left_out().square_error);
            const double by_squares = 2.0 * root * (2.0 * std::sqrt(variance) + root);
            return Evaluated{variance, std::min(terms.bound(), by_squares / kBounds)};
        },
        [] { return 0.0; });
    if (found.bound > 0.0) found.bound *= kBounds / shares.variance;
    return found;
}

// ---- the rows of a call ----------------------------------------------------------------------------------

Independent::Independent(const Routes& routes, LawArrays laws, std::vector<double> mass,
                         std::vector<double> stay, const std::function<void()>& check)
    : routes_(routes), laws_(std::move(laws)) {
    const auto& model = routes.model;
    if (!mass.empty())
        categories_ = std::make_unique<CategoryNoise>(model.cells, model.set_atoms, std::move(mass),
                                                      std::move(stay), check);
}

void Independent::check(const RowArrays& rows) const {
    for (const auto q : routes_.model.features)
        if (laws_.law[static_cast<std::size_t>(q)] == Law::table && !(rows.below && rows.above))
            throw std::invalid_argument("a table law needs its tables");
}

std::unique_ptr<IndependentRow> Independent::take_solver() const {
    {
        const std::lock_guard lock(mutex_);
        if (!waiting_.empty()) {
            auto solver = std::move(waiting_.back());
            waiting_.pop_back();
            return solver;
        }
    }
    return std::make_unique<IndependentRow>(routes_, NoiseLaws{&laws_, categories_.get()});
}

void Independent::give_back(std::unique_ptr<IndependentRow> solver) const {
    const auto took = solver->take_most_work();
    const std::lock_guard lock(mutex_);
    most_work_.nanoseconds = std::max(most_work_.nanoseconds, took.nanoseconds);
    most_work_.bytes = std::max(most_work_.bytes, took.bytes);
    if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(solver));
}

RowWork::Limits Independent::most_work() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(most_work_, {0.0, 0.0});
}

}  // namespace predgap
