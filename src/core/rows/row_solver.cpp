#include "rows/row_solver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "simd/kernels.hpp"

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

RowSolver::RowSolver(const Routes& routes, const NoiseLaws& laws)
    : routes_(routes),
      tables_(routes.model, laws),
      compilation_(routes.model),
      plan_scratch_(routes.plan.size()),
      states_(routes.model.group.size()),
      subset_(n_features()) {}

void RowSolver::load(const RawRow& row, const std::atomic<bool>& stop, Forecast* forecast) {
    tables_.load(row);
    stop_ = &stop;
    work_.begin(stop, routes_.limits);
    work_.add(nominal::kRow + nominal::kAtom * routes_.model.n_atoms());
    forecast_ = forecast;
    planned_ = 0.0;
    pairs_.work = &work_;
    forget_compilation();
    likely_ = {};
}

void RowSolver::forget_compilation() {
    is_compilation_loaded_ = has_main_effects_ = exact_overflows_ = false;
    lively_terms_.reset();
}

void RowSolver::load_compilation() {
    if (!is_compilation_loaded_) compilation_.load(tables_, work_);
    is_compilation_loaded_ = true;
}

void RowSolver::find_main_effects() {
    if (has_main_effects_) return;
    load_compilation();
    compilation_.find_main_effects();
    has_main_effects_ = true;
}

void RowSolver::set_subset(const FeatureList& features, uint8_t flag) {
    for (const auto q : features) subset_[static_cast<std::size_t>(q)] = flag;
}

// ---- terms in place --------------------------------------------------------------------------------------

// Returns the bound of what is left out; infinite if even so there is too much.
double RowSolver::prepare(const Cost& cost, const Units* ranked, double most_entries, int32_t n_steps) {
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

void RowSolver::prepare_plan(const Units* ranked, int32_t n_steps) {
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

void RowSolver::hold_states() {
    double bytes = 0.0;
    for (const auto& state : states_) bytes += state.bytes();
    work_.hold(RowWork::Arrays::states, bytes);
}

// Gives up a row that has taken more than it may.
void RowSolver::refuse_too_much() const {
    if (work_.is_too_much()) throw TooCostly{work_.nanoseconds(), work_.bytes()};
}

void RowSolver::plan(double nanoseconds) {
    if (!forecast_ || !(nanoseconds > 0.0)) return;
    forecast_->add(std::min(nanoseconds, kMostNanoseconds), planned_ == 0.0);
    planned_ += nanoseconds;
}

void RowSolver::finish() {
    if (!forecast_) return;
    forecast_->add(std::max(work_.nanoseconds() - planned_, 0.0), planned_ == 0.0);
    forecast_ = nullptr;
}

Answer RowSolver::answer(const Job& job, const Accuracy& accuracy, const Evaluate& evaluate) {
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

double RowSolver::gap_by_terms() {
    double sum = 0.0;
    for (auto& state : states_) sum += kernels().gap(state);
    return std::max(sum, 0.0);
}

Pairs::Result RowSolver::gap_by_pairs(const uint8_t* subset) {
    tables_.open(subset);
    Pairs::Result sum{0.0, 0.0};
    for (const auto& pairs : routes_.pairs) {
        const auto own = pairs.gap(pairs_, tables_);
        sum.gap += own.gap;
        sum.error_scale += own.error_scale;
    }
    return sum;
}

Answer RowSolver::gap(const uint8_t* subset, const Accuracy& accuracy, double& value) {
    tables_.open(subset);
    forget_compilation();
    return answer({Question::gap, subset, 0, nullptr}, accuracy, [&](const Cost& cost, double& bound) {
        if (cost.route == Route::pairs) return value = gap_by_pairs(subset).gap;
        bound = prepare(cost, nullptr);
        return value = std::isfinite(bound) ? gap_by_terms() : 0.0;
    });
}

// The places of an order that have a feature of the trees; at the others the gap stays as it is.
std::vector<int32_t> RowSolver::used_places(const Units& units, const int32_t* order,
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

double RowSolver::curve_by_terms(const Units& units, const int32_t* order, int32_t n_places, double* gaps) {
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

double RowSolver::curve_by_pairs(const Units& units, const int32_t* order, int32_t n_places, double* gaps) {
    const auto used = used_places(units, order, n_places);
    std::vector<double> found;
    std::fill(subset_.begin(), subset_.end(), 0);
    for (const auto i : used) {
        set_subset(units.members(order[i]), 1);
        found.push_back(stopped() ? 0.0 : gap_by_pairs(subset_.data()).gap);
    }
    return fill_places(used, found, n_places, gaps);
}

Answer RowSolver::curve(const Units& units, const int32_t* order, int32_t n_places, const Accuracy& accuracy,
                        double* gaps) {
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

void RowSolver::subsets_by_terms(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    const auto n = int64_t{1} << m;
    std::fill_n(gaps, n, 0.0);
    for (auto& state : states_) subset_gaps_.add(state, units, chosen, m, gaps);
    for (int64_t i = 0; i < n; ++i) gaps[i] = std::max(gaps[i], 0.0);
}

void RowSolver::subsets_by_pairs(const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    std::fill(subset_.begin(), subset_.end(), 0);
    for (int64_t subset = 0; subset < int64_t{1} << m && !stopped(); ++subset) {
        for (int32_t i = 0; i < m; ++i) set_subset(units.members(chosen[i]), subset >> i & 1);
        gaps[subset] = gap_by_pairs(subset_.data()).gap;
    }
}

Answer RowSolver::subset_gaps(const Units& units, const int32_t* chosen, int32_t m, const double* share,
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

void RowSolver::moving_units(const Units& units, uint8_t* moving) {
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

void RowSolver::mean_change(const uint8_t* subset, double* change) {
    tables_.open(subset);
    for (std::size_t k = 0; k < routes_.pairs.size(); ++k)
        change[k] = routes_.pairs[k].mean_change(pairs_, tables_);
    refuse_too_much();
}

}  // namespace predgap
