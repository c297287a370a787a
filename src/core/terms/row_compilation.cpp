// Compiles a row for all outputs: finds its main effects, and the limit that keeps what is pruned in bounds.
#include "terms/row_compilation.hpp"

#include <algorithm>
#include <cmath>

#include "constants.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;

RowCompilation::RowCompilation(const Model& model)
    : model_(model), features_(model.n_features()), terms_(model.group.size()) {
    for (const auto& group : model.group) {
        compilers_.push_back(std::make_unique<Compiler>(model, group));
        n_splits_ += 0.5 * static_cast<double>(group.node.size());
    }
    main_effect_.reset(model.n_features(), 0.0);
    main_error_.reset(model.n_features(), 0.0);
    squares_.reset(model.n_atoms(), 0.0);
    amplitude_.reset(model.n_atoms(), 1.0);
}

double RowCompilation::bytes_of(const Model& model) {
    double sum = model.n_atoms() * 2.0 * sizeof(double);  // squares and amplitudes
    for (const auto& group : model.group)
        sum += static_cast<double>(group.node.size()) * sizeof(int32_t) +
               Compiler::kOfAtom * model.n_atoms() + Compiler::kOfFeature * model.n_features();
    return sum;
}

void RowCompilation::open(const RowTables& tables, RowWork& work) {
    tables_ = &tables;
    work_ = &work;
    is_loaded_ = has_main_effects_ = false;
}

void RowCompilation::load() {
    if (!is_loaded_)
        for (auto& compiler : compilers_) compiler->load(*tables_, *work_);
    is_loaded_ = true;
}

const Buffer<double>& RowCompilation::main_effects() {
    find_main_effects();
    return main_effect_;
}

const Buffer<double>& RowCompilation::main_error_scales() {
    find_main_effects();
    return main_error_;
}

double RowCompilation::scale() {
    find_main_effects();
    return scale_;
}

void RowCompilation::find_main_effects() {
    if (has_main_effects_) return;
    load();
    for (const auto q : model_.features) main_effect_[q] = main_error_[q] = 0.0;
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (std::size_t g = 0; g < compilers_.size(); ++g) find_main_effects_of(g);
    work_->hold(RowWork::Arrays::main_effects, bytes_of_main_effects());
    double sum = 0.0;
    for (const auto q : model_.features) sum += main_effect_[q];
    scale_ = std::sqrt(sum);
    for (int64_t a = 0; a < amplitude_.size(); ++a) {
        const double chance = tables_->reach(a);
        amplitude_[a] = 1.0;
        if (chance > 0.0 && squares_[a] > 0.0 && scale_ > 0.0)
            amplitude_[a] += std::sqrt(squares_[a] / chance) / scale_;
    }
    has_main_effects_ = true;
}

double RowCompilation::bytes_of_main_effects() const {
    double sum = main_.bytes();
    for (const auto* array : {&main_error_, &main_effect_, &squares_, &amplitude_, &step_})
        sum += array->used_bytes();
    return sum;
}

void RowCompilation::find_main_effects_of(std::size_t g) {
    auto& compiler = *compilers_[g];
    compiler.find_main_effects(terms_[g], main_weight_);
    main_.begin(terms_[g], *tables_, *work_, TermUse::gains(features_), main_weight_);
    add_squares(g);
    kernels().gains(main_);
    for (int32_t c = 1; c < terms_[g].n_components(); ++c) {
        const auto q = terms_[g].feature[terms_[g].component[c].features];
        main_effect_[q] += std::max(main_.gain[q], 0.0);
        main_error_[q] += compiler.main_error_scale()[q];
    }
}

// Adds up the squares of the main effects where an atom is crossed: E[m^2; crossed].
void RowCompilation::add_squares(std::size_t g) {
    const auto& terms = terms_[g];
    for (int32_t i = 1; i < terms.n_components(); ++i) {
        const auto& c = terms.component[i];
        for (int64_t k = 0; k < terms.width; ++k) {
            const double* weight = main_.weight.data() + k * terms.n_weights + c.first_term;
            c.has_sets ? add_set_squares(c, terms, weight) : add_squares(c, terms, weight);
        }
    }
}

void RowCompilation::add_squares(const Component& c, const RowTerms& terms, const double* weight) {
    const auto* atom = terms.atom.data() + c.slots;
    const auto n = c.n_terms;
    int32_t above = 0;
    while (above < n && !tables_->event[atom[above]]) ++above;
    step_.reset(n);
    double effect = 0.0, square = 0.0;
    for (auto t = above; t-- > 0;) step_[t] = effect += weight[t];
    effect = 0.0;
    for (auto t = above; t < n; ++t) step_[t] = effect -= weight[t];
    for (int32_t t = 0; t < above; ++t) {
        const double mass = tables_->F(atom[t]) - (t ? tables_->F(atom[t - 1]) : 0.0);
        squares_[atom[t]] += square += std::max(mass, 0.0) * step_[t] * step_[t];
    }
    square = 0.0;
    for (auto t = n; t-- > above;) {
        const double mass = tables_->S(atom[t]) - (t + 1 < n ? tables_->S(atom[t + 1]) : 0.0);
        squares_[atom[t]] += square += std::max(mass, 0.0) * step_[t] * step_[t];
    }
}

// Adds up the same for a category, with one effect for all its sets: a bound of the largest that any has is
// as good a scale.
void RowCompilation::add_set_squares(const Component& c, const RowTerms& terms, const double* weight) {
    const auto* atom = terms.atom.data() + c.slots;
    double sum = 0.0;
    for (int32_t t = 0; t < c.n_terms; ++t) sum += std::abs(weight[t]);
    for (int32_t t = 0; t < c.n_terms; ++t) squares_[atom[t]] += tables_->reach(atom[t]) * sum * sum;
}

Pruning RowCompilation::pruning(std::size_t g, double limit, const Likely& likely) const {
    Pruning p;
    p.limit = limit * scale_;
    p.negligible = Pruning::kNegligible / std::max(2.0 * compilers_[g]->largest_change(), 1e-300);
    p.main_effect = main_effect_.data();
    p.amplitude = limit > 0.0 ? amplitude_.data() : nullptr;
    p.likely = likely;
    return p;
}

// Bounds the error of a gap: |E[G^2] - E[G~^2]| <= E[|G - G~| (|G| + |G~|)], and |G| is at most M.
RowCompilation::Totals RowCompilation::add_up(const std::vector<CompileCounts>& counts) const {
    constexpr double kRounded = 1.0 + 1e-9;  // sums are
    Totals totals;
    for (std::size_t g = 0; g < counts.size(); ++g) {
        totals.n_entries += counts[g].n_entries;
        totals.n_nodes += counts[g].n_nodes;
        totals.complete = totals.complete && counts[g].complete;
        const double with_change =
            std::min(counts[g].product_error, compilers_[g]->largest_change() * counts[g].mean_error);
        totals.bound += (2.0 * with_change + counts[g].square_error) * kRounded;
        totals.mean_error += counts[g].mean_error * kRounded;
        totals.square_error += counts[g].square_error * kRounded;
    }
    return totals;
}

RowCompilation::Totals RowCompilation::count(double limit, double most_entries, const Likely& likely,
                                             bool roughly) {
    find_main_effects();
    std::vector<CompileCounts> counts;
    for (std::size_t g = 0; g < compilers_.size() && most_entries >= 0.0; ++g) {
        auto p = pruning(g, limit, likely);
        p.most_entries = most_entries;
        counts.push_back(roughly || limit == 0.0 ? compilers_[g]->count_on_some_trees(p)
                                                 : compilers_[g]->count(p));
        most_entries -= counts.back().n_entries;
    }
    auto totals = add_up(counts);
    totals.complete = totals.complete && counts.size() == compilers_.size();
    return totals;
}

RowCompilation::Totals RowCompilation::look(double n_trees, double most_entries) {
    load();
    const double of_group =
        std::clamp<double>(n_trees / static_cast<double>(compilers_.size()), 1.0, Compiler::kEnoughTrees);
    Pruning nothing;
    nothing.most_entries = most_entries;
    Totals totals;
    for (auto& compiler : compilers_) {
        const auto own = compiler->count_on_some_trees(nothing, static_cast<std::size_t>(of_group));
        totals.n_entries += own.n_entries;
        totals.n_nodes += own.n_nodes;
        totals.complete = totals.complete && own.complete && totals.n_entries <= most_entries;
    }
    return totals;
}

RowCompilation::Totals RowCompilation::compile(double limit, double most_entries,
                                               std::vector<Buffer<double>>& weights, const Likely& likely,
                                               SomeTrees some) {
    find_main_effects();
    std::vector<CompileCounts> counts;
    double laid_out = 0.0;  // of the groups so far
    for (std::size_t g = 0; g < compilers_.size() && most_entries >= 0.0; ++g) {
        auto p = pruning(g, limit, likely);
        p.most_entries = most_entries;
        counts.push_back(compilers_[g]->compile(p, some, terms_[g], weights[g]));
        most_entries -= counts.back().n_entries;
        laid_out += terms_[g].used_bytes() + (g + 1 < compilers_.size() ? compilers_[g]->bytes() : 0.0);
        work_->hold(RowWork::Arrays::terms, laid_out);
    }
    auto totals = add_up(counts);
    totals.complete = totals.complete && counts.size() == compilers_.size();
    return totals;
}

double RowCompilation::guess_limit(double target, const Likely& likely, Totals& totals) {
    find_main_effects();
    // These are shares of the target: the bound of all trees may be larger, that of sets of categories most
    // of all.
    const bool has_sets = model_.set_atoms.size() > 0;
    const double aim = has_sets ? rule::kAimOfGuessWithSets : rule::kAimOfGuess;
    const double near = has_sets ? rule::kNearTargetWithSets : rule::kNearTarget;
    double largest = 0.0;
    for (const auto& compiler : compilers_) largest += compiler->largest_change();
    const double of_limit = typical::kBoundOfLimit * scale_ * largest * n_splits_;
    double limit = std::clamp(target / std::max(of_limit, 1e-300), 1e-30, 1e-2);
    for (int i = 0; i < rule::kTriesOfGuess; ++i) {
        totals = count(limit, Pruning::kMostEntries, likely, true);
        const double share = totals.bound / target;
        if (!totals.complete || !(share > 0.0) || (near <= share && share <= aim)) break;
        limit = std::clamp(limit * std::clamp(aim / share, 0.01, 100.0), 1e-30, 1e-2);
        if (share * rule::kKnownFrom >= aim && share <= rule::kKnownFrom * aim) break;
    }
    return limit;
}

double RowCompilation::find_limit(double target, double most_entries, const Likely& likely, Totals& totals) {
    double limit = guess_limit(target, likely, totals), work = 2.0 * most_entries;  // entries of all tries
    for (int i = 0; i < rule::kTriesOfCount; ++i) {
        totals = count(limit, std::min(most_entries, work), likely);
        work -= totals.n_entries;
        if (!totals.complete || work_->stopped()) return limit;
        const double share = totals.bound / target;
        if (share <= 1.0 && (share >= rule::kSlackOfCount || i > 0 || work < 2.0 * totals.n_entries))
            return limit;
        // The bound grows a little slower than the limit.
        limit *= share <= 1.0 ? std::min(0.8 * std::pow(std::max(share, 1e-6), -1.05), 1e4)
                              : rule::smaller_limit(share);
    }
    return limit;
}

}  // namespace predgap
