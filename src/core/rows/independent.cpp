#include "rows/independent.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "rows/search.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotRanked = std::numeric_limits<double>::quiet_NaN();  // the score of a unit

}  // namespace

Accuracy of_scores(Accuracy accuracy) {
    if (accuracy.kind == Method::bounded) accuracy.tolerance *= 0.5;
    return accuracy;
}

IndependentRow::IndependentRow(const Routes& routes, const NoiseLaws& laws)
    : routes_(routes),
      tables_(routes.model, laws),
      compilation_(routes.model),
      plan_scratch_(routes.plan.size()),
      states_(routes.model.group.size()),
      subset_(n_features()) {}

void IndependentRow::load(const RawRow& row, const std::atomic<bool>& stop, Forecast* forecast) {
    tables_.load(row);
    stop_ = &stop;
    work_.begin(stop, routes_.limits);
    work_.add(nominal::kRow + nominal::kAtom * routes_.model.n_atoms());
    work_.hold(RowWork::Arrays::tables, tables_.bytes());
    forecast_ = forecast;
    planned_ = 0.0;
    pairs_.work = &work_;
    forget_compilation();
    likely_ = {};
}

void IndependentRow::forget_compilation() {
    is_compilation_loaded_ = has_main_effects_ = exact_overflows_ = false;
    lively_terms_.reset();
}

void IndependentRow::load_compilation() {
    if (!is_compilation_loaded_) compilation_.load(tables_, work_);
    is_compilation_loaded_ = true;
}

void IndependentRow::find_main_effects() {
    if (has_main_effects_) return;
    load_compilation();
    compilation_.find_main_effects();
    has_main_effects_ = true;
}

void IndependentRow::set_subset(const FeatureList& features, uint8_t flag) {
    for (const auto q : features) subset_[static_cast<std::size_t>(q)] = flag;
}

// ---- terms in place --------------------------------------------------------------------------------------

// Returns the bound of what is left out; infinite if even so there is too much.
double IndependentRow::prepare(const Cost& cost, const Units* ranked, double most_entries, int32_t n_steps) {
    uses_plan_ = cost.route == Route::plan;
    left_out_ = {};
    if (uses_plan_) {
        prepare_plan(ranked, n_steps);
        return 0.0;
    }
    find_main_effects();
    const auto totals = compilation_.compile(cost.limit, most_entries, states_, likely_);
    if (!totals.complete) return kInfinity;
    for (std::size_t g = 0; g < states_.size(); ++g)
        states_[g].prepare(compilation_.terms(g), tables_, work_, ranked, cell_rule_, n_steps);
    hold_states();
    left_out_ = totals;  // nothing, at a limit of 0
    return left_out_.bound;
}

void IndependentRow::prepare_plan(const Units* ranked, int32_t n_steps) {
    double spread = 0.0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const auto& plan = *routes_.plan[g];
        plan.spread(tables_, plan_scratch_[g], states_[g].weight);
        spread += plan_scratch_[g].used_bytes();
        work_.add(nominal::kPushedTerm * plan.typical_spread());
        states_[g].prepare(plan.terms(), tables_, work_, ranked, CellRule::cheapest, n_steps);
    }
    work_.hold(RowWork::Arrays::boxes, spread);
    hold_states();
}

void IndependentRow::hold_states() {
    double bytes = 0.0;
    for (const auto& state : states_) bytes += state.bytes();
    work_.hold(RowWork::Arrays::states, bytes);
}

// Gives up a row that has taken more than it may.
void IndependentRow::refuse_too_much() const {
    if (work_.is_too_much()) throw TooCostly{work_.nanoseconds(), work_.bytes()};
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

Answer IndependentRow::answer(const Job& job, const Accuracy& accuracy, const Evaluate& evaluate) {
    cell_rule_ = accuracy.cell_rule;
    auto cost = routes_.plan_is_cheap && !accuracy.is_forced ? Cost{Route::plan} : first_try(job, accuracy);
    plan(cost.nanoseconds);
    for (int n_tries = 1;; ++n_tries) {
        double bound = 0.0;
        refuse_too_much();
        const double value = evaluate(cost, bound);
        refuse_too_much();
        const bool is_exact = cost.method == Method::exact;
        const bool is_met = bound == 0.0 || cost.method == Method::pruned ||
                            bound <= (is_exact ? kExactShare : accuracy.tolerance) * value;
        if ((is_met && std::isfinite(bound)) || stopped()) return {is_exact ? 0.0 : bound, cost.method};
        if (is_exact && std::isfinite(bound)) {  // too much was left out
            cost.limit = 0.0;
            continue;
        }
        if (is_exact) {  // there are more entries than were counted on
            exact_overflows_ = true;
            cost = first_try(job, accuracy);
            continue;
        }
        const double share = value > 0.0 ? bound / (accuracy.tolerance * value) : kInfinity;
        cost = next_try(job, accuracy, cost, share, n_tries);
    }
}

// ---- gaps and curves -------------------------------------------------------------------------------------

double IndependentRow::gap_by_terms() {
    double sum = 0.0;
    for (auto& state : states_) sum += kernels().gap(state);
    return std::max(sum, 0.0);
}

Pairs::Result IndependentRow::gap_by_pairs(const uint8_t* subset) {
    tables_.open(subset);
    Pairs::Result sum{0.0, 0.0};
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs.gap(pairs_, tables_);
        sum.gap += own.gap;
        sum.error_scale += own.error_scale;
    }
    return sum;
}

Answer IndependentRow::gap(const uint8_t* subset, const Accuracy& accuracy, double& value) {
    tables_.open(subset);
    forget_compilation();
    return answer({Question::gap, subset, 0, nullptr}, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) return value = gap_by_pairs(subset).gap;
        bound = prepare(cost, nullptr);
        return value = std::isfinite(bound) ? gap_by_terms() : 0.0;
    });
}

// The places of an order that have a feature of the trees; at the others the gap stays as it is.
std::vector<int32_t> IndependentRow::used_places(const Units& units, const int32_t* order,
                                                 int32_t n_places) const {
    std::vector<uint8_t> is_used(n_features(), 0);
    for (const auto q : routes_.model.features) is_used[static_cast<std::size_t>(q)] = 1;
    std::vector<int32_t> used;
    for (int32_t i = 0; i < n_places; ++i)
        if (any_of(units.members(order[i]), is_used)) used.push_back(i);
    return used;
}

namespace {

// All gaps from those of the used places; returns their mean.
double fill_places(const std::vector<int32_t>& used, const std::vector<double>& found, int32_t n_places,
                   double* gaps) {
    double total = 0.0, gap = 0.0;
    std::size_t next = 0;
    for (int32_t i = 0; i < n_places; ++i) {
        if (next < used.size() && used[next] == i) gap = found[next++];
        total += gaps[i] = gap;
    }
    return total / std::max(n_places, 1);
}

}  // namespace

double IndependentRow::curve_by_terms(const Units& units, const int32_t* order, int32_t n_places,
                                      double* gaps) {
    const auto used = used_places(units, order, n_places);
    std::vector<int32_t> steps;
    for (const auto i : used) steps.push_back(order[i]);
    std::vector<double> found(used.size(), 0.0);
    for (auto& state : states_) {
        state.prepare_curve();
        hold_states();
        kernels().curve(state, units, steps.data(), static_cast<int32_t>(steps.size()), found.data());
    }
    for (auto& gap : found) gap = std::max(gap, 0.0);
    return fill_places(used, found, n_places, gaps);
}

double IndependentRow::curve_by_pairs(const Units& units, const int32_t* order, int32_t n_places,
                                      double* gaps) {
    const auto used = used_places(units, order, n_places);
    std::vector<double> found;
    std::fill(subset_.begin(), subset_.end(), 0);
    for (const auto i : used) {
        set_subset(units.members(order[i]), 1);
        found.push_back(stopped() ? 0.0 : gap_by_pairs(subset_.data()).gap);
    }
    return fill_places(used, found, n_places, gaps);
}

Answer IndependentRow::curve(const Units& units, const int32_t* order, int32_t n_places,
                             const Accuracy& accuracy, double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < n_places; ++i)
        for (const auto q : units.members(order[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    const Job job{.question = Question::curve,
                  .features = features.data(),
                  .n_places = n_places,
                  .units = &units,
                  .order = order};
    return answer(job, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) return curve_by_pairs(units, order, n_places, gaps);
        bound = prepare(cost, nullptr, kMostEntries, n_places);
        return std::isfinite(bound) ? curve_by_terms(units, order, n_places, gaps) : 0.0;
    });
}

// ---- all subsets -----------------------------------------------------------------------------------------

void IndependentRow::subsets_by_terms(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    const auto n = int64_t{1} << m;
    std::fill_n(gaps, n, 0.0);
    for (auto& state : states_) subset_gaps_.add(state, units, chosen, m, gaps);
    for (int64_t i = 0; i < n; ++i) gaps[i] = std::max(gaps[i], 0.0);
}

void IndependentRow::subsets_by_pairs(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int64_t subset = 0; subset < int64_t{1} << m && !stopped(); ++subset) {
        for (int32_t i = 0; i < m; ++i) set_subset(units.members(chosen[i]), subset >> i & 1);
        gaps[subset] = gap_by_pairs(subset_.data()).gap;
    }
}

Answer IndependentRow::subset_gaps(const Units& units, const int32_t* chosen, int32_t m, const double* share,
                                   const Accuracy& accuracy, double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < m; ++i)
        for (const auto q : units.members(chosen[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    std::vector<double> weight(static_cast<std::size_t>(m) + 1);  // of each subset of a size
    double n_of_size = 1.0;
    for (int32_t size = 0; size <= m; n_of_size *= static_cast<double>(m - size) / (size + 1.0), ++size)
        weight[static_cast<std::size_t>(size)] = share[size] / n_of_size;
    return answer({Question::subsets, features.data(), m, &units}, accuracy,
                  [&](const Cost& cost, double& bound) {
                      if (cost.route == Route::pairs) {
                          subsets_by_pairs(units, chosen, m, gaps);
                          return 0.0;
                      }
                      bound = prepare(cost, nullptr);
                      if (!std::isfinite(bound)) return 0.0;
                      subsets_by_terms(units, chosen, m, gaps);
                      double sum = 0.0;
                      for (std::uint32_t s = 0; s < std::uint32_t{1} << m; ++s)
                          sum += weight[static_cast<std::size_t>(std::popcount(s))] * gaps[s];
                      return sum;
                  });
}

void IndependentRow::moving_units(const Units& units, uint8_t* moving) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
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
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k)
        change[k] = routes_.pairs[k].mean_change(pairs_, tables_);
    refuse_too_much();
}

// ---- rankings ---------------------------------------------------------------------------------------------

// No error scale is larger than the trees times the square of the largest change.
double IndependentRow::largest_error() const {
    double sum = 0.0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const double change =
            uses_plan_ ? routes_.plan[g]->largest_change(plan_scratch_[g]) : compilation_.largest_change(g);
        sum += static_cast<double>(routes_.model.group[g].root.size()) * change * change;
    }
    return sum;
}

// Reads the error scale of each component of a group of trees.
void IndependentRow::read_component_errors(std::size_t group, Buffer<double>& scale) {
    if (uses_plan_)
        routes_.plan[group]->error_scales(tables_, plan_scratch_[group], scale);
    else
        compilation_.error_scales(group, scale);
}

// Error scales of the subset so far, and of what each candidate would add. Those of the components are read
// once for a row: scales has a buffer for each group of trees, or none yet.
void IndependentRow::read_errors(const Units& units, std::vector<Buffer<double>>& scales, Candidates& c) {
    std::fill(c.error_scale.begin(), c.error_scale.end(), 0.0);
    c.base_error = 0.0;
    for (std::size_t g = 0; g < states_.size(); ++g) {
        const auto& state = states_[g];
        const auto& terms = *state.terms;
        if (g == scales.size()) read_component_errors(g, scales.emplace_back());
        const auto& scale = scales[g];
        for (int64_t i = 1; i < scale.size(); ++i) {
            const auto n_outside = state.component[i].n_outside;
            if (n_outside == 0) c.base_error += scale[i];
            if (n_outside != 1) continue;
            const auto* feature = terms.feature.data() + terms.component[i].features;
            while (state.in_subset[*feature]) ++feature;
            c.error_scale[static_cast<std::size_t>(units.of(*feature))] += scale[i];
        }
    }
}

// Says of each unit whether it can change anything.
std::vector<uint8_t> IndependentRow::open_units(const Units& units) const {
    std::vector<uint8_t> is_open(static_cast<std::size_t>(units.size()));
    for (int32_t u = 0; u < units.size(); ++u)
        is_open[static_cast<std::size_t>(u)] = any_of(units.members(u), tables_.is_open);
    return is_open;
}

// Returns the gap of all units that were taken. After an idle unit everything stays as it is.
double IndependentRow::greedy_by_terms(const Units& units, const Places& places, double bound) {
    Candidates c(routes_.model, units);
    std::fill_n(places.score, units.size(), kNotRanked);
    const double most_error = largest_error();
    const auto is_open = open_units(units);
    std::vector<Buffer<double>> component_errors;
    for (auto& state : states_) {
        state.keep_grams();
        kernels().begin(state);
    }
    hold_states();
    bool is_new = true, knows_errors = false;
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        if (is_new) {
            for (const auto u : c.busy()) c.gain[u] = 0.0;
            for (auto& state : states_) {
                kernels().gains(state);
                for (const auto u : c.busy()) c.gain[u] += state.gain[static_cast<int64_t>(u)];
            }
            knows_errors = false;
        }
        auto best = c.largest();
        if (c.in_doubt(most_error)) {
            if (!knows_errors) read_errors(units, component_errors, c);
            knows_errors = true;
            best = c.best();
        }
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = c.proves(best, [bound](std::size_t) { return bound; }, is_open);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
        if (place + 1 < places.n && is_new)
            for (auto& state : states_) kernels().add_unit(state, best);
    }
    return c.base;
}

double IndependentRow::greedy_by_pairs(const Units& units, const Places& places) {
    Candidates c(routes_.model, units);
    bool is_new = true;
    std::fill_n(places.score, units.size(), kNotRanked);
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int32_t place = 0; place < places.n && !stopped(); ++place) {
        for (const auto at : c.busy()) {
            if (!is_new || stopped()) break;
            const auto unit = units.members(static_cast<int32_t>(at));
            set_subset(unit, 1);
            const auto found = gap_by_pairs(subset_.data());
            set_subset(unit, 0);
            c.gain[at] = found.gap - c.base;
            c.error_scale[at] = found.error_scale - c.base_error;
        }
        const auto best = c.best();
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] = 1;
        set_subset(units.members(best), 1);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
    }
    return c.base;
}

// For a few places, terms with at most one unit outside the likely ones suffice: those of a coarse ranking,
// and two more. False if all units are likely, or the row is too large for a guess.
bool IndependentRow::guess_first_places(const Units& units, const Places& places) {
    constexpr double kCoarse = 1e-4, kFew = 4e6;
    constexpr int32_t kMore = 2;
    std::fill(subset_.begin(), subset_.end(), 0);
    for (const auto q : routes_.model.features) subset_[static_cast<std::size_t>(q)] = 1;
    int32_t n_used = 0;
    for (int32_t u = 0; u < units.size(); ++u) n_used += any_of(units.members(u), subset_);
    if (places.n + kMore >= n_used || places.n == 0) return false;
    find_main_effects();
    likely_ = {};
    const auto n = places.n + kMore;
    std::vector<int32_t> order(static_cast<std::size_t>(n));
    std::vector<double> score(static_cast<std::size_t>(units.size()));
    std::vector<uint8_t> proven(static_cast<std::size_t>(n));
    if (!std::isfinite(prepare({Route::compiled, Method::pruned, 0.0, 0.0, kCoarse}, &units, kFew)))
        return false;
    refuse_too_much();
    greedy_by_terms(units, {n, order.data(), score.data(), proven.data()}, 0.0);
    refuse_too_much();
    likely_features_.assign(n_features(), 0);
    for (const auto u : order) set_likely(units.members(u));
    likely_ = {likely_features_.data(), units.of_features()};
    return true;
}

void IndependentRow::set_likely(const FeatureList& features) {
    for (const auto q : features) likely_features_[static_cast<std::size_t>(q)] = 1;
}

Answer IndependentRow::greedy(const Units& units, const Places& places, const Accuracy& accuracy) {
    const std::vector<uint8_t> all(n_features(), 1);
    const Job job{Question::greedy, all.data(), places.n, &units};
    tables_.open(all.data());
    forget_compilation();
    likely_ = {};
    const bool may_plan = !routes_.plan.empty() && !(accuracy.is_forced && accuracy.route != Route::plan);
    const bool by_pairs = accuracy.is_forced && accuracy.route == Route::pairs;
    const bool is_planned =
        may_plan && (routes_.plan_is_cheap || by_plan(job).nanoseconds <= kCheapNanoseconds);
    bool is_guess = !is_planned && !by_pairs && guess_first_places(units, places);
    for (;;) {
        const auto found = answer(job, of_scores(accuracy), [&](const Cost& cost, double& bound) {
            if (cost.route == Route::pairs) {
                is_guess = false;  // all candidates are complete
                return greedy_by_pairs(units, places);
            }
            bound = prepare(cost, &units);
            if (!std::isfinite(bound)) return 0.0;
            const double value = greedy_by_terms(units, places, bound);
            if (cost.method == Method::pruned) std::fill_n(places.proven, places.n, uint8_t{0});
            return value;
        });
        // The candidates for a place are complete only while those before it are likely.
        bool is_right = true;
        for (int32_t place = 0; is_guess && place + 1 < places.n; ++place) {
            const auto taken = units.members(places.order[place]);
            is_right = is_right && likely_features_[static_cast<std::size_t>(*taken.first)];
            set_likely(taken);
        }
        if (is_right || stopped()) {
            likely_ = {};
            return found;
        }
    }
}

double IndependentRow::search_by_terms(SearchOf& search) {
    using States = std::shared_ptr<std::vector<TermState>>;
    for (auto& state : states_) kernels().begin(state);
    std::vector<double> gain;
    const auto copied = [](const std::vector<TermState>& from) {
        auto states = std::make_shared<std::vector<TermState>>(from.size());
        for (std::size_t g = 0; g < from.size(); ++g) (*states)[g].copy(from[g]);
        return states;
    };
    const auto gains = [&](const Beam<States>::Entry& entry) {
        gain.assign(static_cast<std::size_t>(search.units.size()), 0.0);
        for (auto& state : *entry.state) {
            kernels().gains(state);
            for (std::size_t u = 0; u < gain.size(); ++u) gain[u] += state.gain[static_cast<int64_t>(u)];
        }
        return gain.data();
    };
    const auto grown = [&](const States& parent, int32_t unit) {
        auto states = copied(*parent);
        for (auto& state : *states) kernels().add_unit(state, unit);
        return states;
    };
    double copy = 0.0;
    for (const auto& state : states_) copy += state.bytes_of_copy();
    work_.hold(RowWork::Arrays::copies,
               copy * (2 * search.width + 1));  // those of two lengths, and the first
    Beam<States> beam(search.chosen, search.n_places, search.width, search.units.size());
    beam.run(copied(states_), gains, grown, [&] { return stopped(); });
    return beam.write(search.order, search.gaps);
}

double IndependentRow::search_by_pairs(SearchOf& search) {
    struct Nothing {};
    std::vector<double> gain(static_cast<std::size_t>(search.units.size()));
    const auto gains = [&](const Beam<Nothing>::Entry& entry) {
        std::fill(subset_.begin(), subset_.end(), 0);
        for (const auto u : entry.order) set_subset(search.units.members(u), 1);
        for (const auto u : search.chosen) {
            if (entry.has(u) || stopped()) continue;
            set_subset(search.units.members(u), 1);
            gain[static_cast<std::size_t>(u)] = gap_by_pairs(subset_.data()).gap - entry.gap();
            set_subset(search.units.members(u), 0);
        }
        return gain.data();
    };
    constexpr int32_t kNarrow = 1;  // each gap takes long
    Beam<Nothing> beam(search.chosen, search.n_places, kNarrow, search.units.size());
    beam.run({}, gains, [](const Nothing&, int32_t) { return Nothing{}; }, [&] { return stopped(); });
    return beam.write(search.order, search.gaps);
}

Answer IndependentRow::search(const Units& units, const int32_t* chosen, int32_t m, int32_t n_places,
                              int32_t width, const Accuracy& accuracy, int32_t* order, double* gaps) {
    std::vector<uint8_t> features(n_features(), 0);
    for (int32_t i = 0; i < m; ++i)
        for (const auto q : units.members(chosen[i])) features[static_cast<std::size_t>(q)] = 1;
    tables_.open(features.data());
    forget_compilation();
    likely_ = {};
    SearchOf search{units, {chosen, chosen + m}, n_places, width, order, gaps};
    return answer({Question::greedy, features.data(), n_places, &units}, accuracy,
                  [&](const Cost& cost, double& bound) {
                      if (cost.route == Route::pairs) return search_by_pairs(search);
                      bound = prepare(cost, &units);
                      return std::isfinite(bound) ? search_by_terms(search) : 0.0;
                  });
}

// The gap of some features, and the scale of its rounding error.
Answer IndependentRow::alone(const FeatureList& features, const Accuracy& accuracy, double& value,
                             double& error_scale) {
    std::vector<uint8_t> subset(n_features(), 0);
    for (const auto q : features) subset[static_cast<std::size_t>(q)] = 1;
    tables_.open(subset.data());
    forget_compilation();
    return answer({Question::gap, subset.data(), 0, nullptr}, accuracy, [&](const Cost& cost, double& bound) {
        error_scale = 0.0;
        if (cost.route == Route::pairs) {
            const auto found = gap_by_pairs(subset.data());
            error_scale = found.error_scale;
            return value = found.gap;
        }
        bound = prepare(cost, nullptr);
        if (!std::isfinite(bound)) return value = 0.0;
        Buffer<double> scale;
        for (std::size_t g = 0; g < states_.size(); ++g) {
            read_component_errors(g, scale);
            for (int64_t i = 1; i < scale.size(); ++i) error_scale += scale[i];
        }
        return value = gap_by_terms();
    });
}

Answer IndependentRow::single(const Units& units, const Places& places, const Accuracy& accuracy) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    forget_compilation();
    find_main_effects();
    Candidates c(routes_.model, units);
    const auto is_open = open_units(units);
    Buffer<double> error;
    compilation_.main_error_scales(error);
    for (const auto q : routes_.model.features) {
        const auto u = static_cast<std::size_t>(units.of(q));
        c.gain[u] = compilation_.main_effects()[q];
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

void IndependentRow::moments_by_terms(double* change, double* covariance) {
    const auto n_outputs = static_cast<int64_t>(routes_.pairs.size());
    for (std::size_t g = 0; g < states_.size(); ++g) {
        auto& state = states_[g];
        const int64_t width = state.terms->width;
        if (width > 1) {  // then there is one group
            state.product.reset(state.weight.size());
            kernels().covariances(state, covariance);
        } else {
            kernels().gap(state);
            double& variance = covariance[static_cast<int64_t>(g) * (n_outputs + 1)];
            variance = 0.0;
            for (int64_t c = 1; c < state.terms->n_components(); ++c) variance += state.form[c];
        }
        for (int64_t k = 0; k < width; ++k)
            change[static_cast<int64_t>(g) + k] = state.weight[k * state.terms->n_weights];
    }
    for (int64_t k = 0; k < n_outputs; ++k) {
        auto& variance = covariance[k * (n_outputs + 1)];
        variance = std::max(variance, 0.0);
    }
}

void IndependentRow::moments_by_pairs(double* change, double* covariance) {
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k) {
        const auto found = routes_.pairs[k].spread(pairs_, tables_);
        change[k] = found.mean_change;
        covariance[k * (routes_.pairs.size() + 1)] = found.variance;
    }
}

Answer IndependentRow::moments(const uint8_t* subset, const Accuracy& accuracy, double* change,
                               double* covariance) {
    tables_.open(subset);
    forget_compilation();
    const auto n_outputs = routes_.pairs.size();
    const bool is_joint = states_.size() < n_outputs;  // covariances are sums over terms
    std::fill_n(covariance, n_outputs * n_outputs, std::numeric_limits<double>::quiet_NaN());
    const Job job{Question::gap, subset, 0, nullptr, !is_joint, false};
    return answer(job, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) {
            moments_by_pairs(change, covariance);
        } else {
            bound = prepare(cost, nullptr);
            if (!std::isfinite(bound)) return 0.0;
            moments_by_terms(change, covariance);
        }
        double square = 0.0, variance = 0.0;
        for (std::size_t k = 0; k < n_outputs; ++k) {
            square += change[k] * change[k];
            variance += covariance[k * (n_outputs + 1)];
        }
        const double gap = square + variance;
        if (bound > 0.0) {  // of the variances, and of the means times the root of the gap
            const double of_mean = left_out_.mean_error;
            bound = std::max(bound + of_mean * (2.0 * std::sqrt(square) + of_mean), of_mean * std::sqrt(gap));
        }
        return gap;
    });
}

Answer IndependentRow::main_weights(const uint8_t* subset, const Accuracy& accuracy, double* weights) {
    tables_.open(subset);
    forget_compilation();
    return answer(
        {Question::gap, subset, 0, nullptr, false, false}, accuracy, [&](const Cost& cost, double& bound) {
            bound = prepare(cost, nullptr);
            if (!std::isfinite(bound)) return 0.0;
            auto& state = states_[0];
            const double gap = kernels().gap(state);
            const auto& terms = *state.terms;
            std::fill_n(weights, routes_.model.n_thresholds(), 0.0);
            for (int32_t i = 1; i < terms.n_components(); ++i) {
                const auto& c = terms.component[i];
                if (c.size > 1) break;
                for (int32_t t = 0; t < c.n_terms; ++t)
                    if (const auto atom = terms.atom[c.slots + t]; atom < routes_.model.n_thresholds())
                        weights[atom] = state.weight[c.first_term + t];
            }
            return gap;
        });
}

// A component counts for the units of its features.
void IndependentRow::add_shares(const TermState& state, const Units& units, const Shares& shares) {
    const auto& terms = *state.terms;
    std::vector<int32_t> own;
    for (int32_t i = 1; i < terms.n_components(); ++i) {
        const double form = std::max(state.form[i], 0.0);
        if (form == 0.0) continue;
        const auto& c = terms.component[i];
        own.clear();
        for (int32_t j = 0; j < c.size; ++j) own.push_back(units.of(terms.feature[c.features + j]));
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        shares.variance += form;
        const double equal_part = form / static_cast<double>(own.size());
        for (const auto u : own) {
            shares.total[u] += form;
            shares.shapley[u] += equal_part;
        }
        if (own.size() == 1) shares.first[own[0]] += form;
        if (own.size() != 2) continue;
        shares.interaction[int64_t{own[0]} * units.size() + own[1]] += form;
        shares.interaction[int64_t{own[1]} * units.size() + own[0]] += form;
    }
}

Answer IndependentRow::sensitivity(const Units& units, const Accuracy& accuracy, const Shares& shares) {
    const std::vector<uint8_t> all(n_features(), 1);
    tables_.open(all.data());
    forget_compilation();
    // The share of a pair is off by at most so many bounds of the gap; see docs/internals.md.
    constexpr double kBounds = 6.0;
    auto of_gap = accuracy;
    of_gap.tolerance /= kBounds;
    const int64_t n = units.size();
    auto found = answer({Question::gap, all.data(), 0, nullptr, false, false}, of_gap,
                        [&](const Cost& cost, double& bound) {
                            bound = prepare(cost, nullptr);
                            if (!std::isfinite(bound)) return 0.0;
                            shares.variance = 0.0;
                            for (auto* sums : {shares.first, shares.total, shares.shapley})
                                std::fill_n(sums, n, 0.0);
                            std::fill_n(shares.interaction, n * n, 0.0);
                            for (auto& state : states_) {
                                kernels().gap(state);
                                add_shares(state, units, shares);
                            }
                            const double root = std::sqrt(left_out_.square_error);
                            const double by_squares = 2.0 * root * (2.0 * std::sqrt(shares.variance) + root);
                            bound = std::min(bound, by_squares / kBounds);
                            return shares.variance;
                        });
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
