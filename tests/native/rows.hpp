// Rows for the kernels: the only file of these tests that knows how the terms of a row are made, and how the
// kernels are told of them.
#pragma once

#include <atomic>
#include <memory>
#include <numeric>

#include "definition.hpp"
#include "model/model.hpp"
#include "noise/row_tables.hpp"
#include "random.hpp"
#include "simd/kernels.hpp"
#include "terms/plan.hpp"
#include "terms/subset_gaps.hpp"
#include "terms/term_state.hpp"
#include "terms/term_store.hpp"

namespace predgap::test {

// The kernels of all instruction sets that this machine runs, but where PREDGAP_ISA names one only that one.
const std::vector<const Kernels*>& instruction_sets();
// Chooses what kernels() gives from now on.
void use(const Kernels& kernels);

// One feature: the probabilities of its cells, of which x is in one. A number has a threshold between any two
// neighbours; a category has sets of levels instead, each level a cell.
struct FeatureData {
    std::vector<double> likely;  // (n_cells) in proportion
    int own = 0;
    std::vector<std::vector<int>> sets;  // none of a number
    double moves = 1.0;                  // of a category: else x stays
};
using Data = std::vector<FeatureData>;

// The model of these features with one split for each threshold and set, or with some trees.
inline NodeArrays node_arrays(int n_features, int n_outputs) {
    NodeArrays a;
    a.n_features = n_features;
    a.n_outputs = n_outputs;
    return a;
}
inline int add_leaf(NodeArrays& a, const std::vector<double>& value) {
    a.feature.push_back(kLeaf);
    a.threshold.push_back(0.0);
    a.left.push_back(-1);
    a.right.push_back(-1);
    a.default_left.push_back(0);
    a.value.insert(a.value.end(), value.begin(), value.end());
    a.category_set.push_back(kNumeric);
    return static_cast<int>(a.feature.size()) - 1;
}
// Makes the node of a split; its children are set later.
inline int add_split(NodeArrays& a, int feature, double threshold, int set, std::size_t width) {
    const auto node = add_leaf(a, std::vector<double>(width, 0.0));
    a.feature.back() = feature;
    a.threshold.back() = threshold;
    a.category_set.back() = set;
    return node;
}

inline LevelSets level_sets(const Data& data) {
    LevelSets found;
    found.set_begin.push_back(0);
    for (std::size_t q = 0; q < data.size(); ++q) {
        found.n_levels.push_back(data[q].sets.empty() ? kNumeric : static_cast<int>(data[q].likely.size()));
        for (const auto& set : data[q].sets) {
            found.set_feature.push_back(static_cast<int>(q));
            found.set_level.insert(found.set_level.end(), set.begin(), set.end());
            found.set_begin.push_back(static_cast<int>(found.set_level.size()));
        }
    }
    return found;
}

// One split for each threshold and each set: the model has all of them as atoms.
inline NodeArrays stumps(const Data& data) {
    auto a = node_arrays(static_cast<int>(data.size()), 1);
    const auto add = [&](int feature, double threshold, int set) {
        const auto root = add_split(a, feature, threshold, set, 1);
        const double value = static_cast<double>(root) + 1.0;
        a.left[static_cast<std::size_t>(root)] = add_leaf(a, {value});
        a.right[static_cast<std::size_t>(root)] = add_leaf(a, {-value});
        a.root.push_back(root);
        a.target.push_back(0);
    };
    int n_sets = 0;
    for (std::size_t q = 0; q < data.size(); ++q) {
        const auto feature = static_cast<int>(q);
        for (std::size_t i = 0; i < data[q].sets.size(); ++i) add(feature, 0.0, n_sets++);
        for (std::size_t i = 1; data[q].sets.empty() && i < data[q].likely.size(); ++i)
            add(feature, static_cast<double>(i), kNumeric);
    }
    return a;
}

// A row of a model with its noise, as the kernels know both, and as the definition does.
class Row {
public:
    explicit Row(const Data& data) : Row(data, stumps(data)) {}
    Row(const Data& data, NodeArrays arrays)
        : n_features(static_cast<int>(data.size())), model(std::move(arrays), level_sets(data), [] {}) {
        const auto n = data.size();
        laws_.law.assign(n, Law::table);
        for (auto* numbers : {&laws_.parameter, &laws_.stays}) numbers->assign(n, 0.0);
        laws_.moves.assign(n, 1.0);
        laws_.low.assign(n, -1e300);
        laws_.high.assign(n, 1e300);
        const auto n_thresholds = static_cast<std::size_t>(model.n_thresholds());
        laws_.at.assign(n_thresholds, 0.0);
        laws_.fixed.assign(2 * n_thresholds, 0.0);
        noise.feature.resize(static_cast<std::size_t>(model.n_atoms()));
        for (int a = 0; a < model.n_atoms(); ++a)
            noise.feature[static_cast<std::size_t>(a)] = model.feature_of(a);
        below_.assign(n_thresholds, 0.0);
        above_.assign(n_thresholds, 0.0);
        for (int q = 0; q < n_features; ++q)
            data[static_cast<std::size_t>(q)].sets.empty() ? add_number(data, q) : add_category(data, q);
        find_moments();
        categories_ = std::make_unique<CategoryNoise>(model.cells, model.set_atoms, mass_, stay_, [] {});
        tables = std::make_unique<RowTables>(model, NoiseLaws{&laws_, categories_.get()});
        work.begin(stop_, {});
        tables->load({x.data(), below_.data(), above_.data(), nullptr});
        const std::vector<std::uint8_t> all(n, 1);
        tables->open(all.data());
    }

    Features all() const {
        Features found;
        for (int q = 0; q < n_features; ++q) found.insert(q);
        return found;
    }
    int n_atoms(int q) const {
        return static_cast<int>(std::count(noise.feature.begin(), noise.feature.end(), q));
    }
    int first_atom(int q) const {
        return static_cast<int>(std::find(noise.feature.begin(), noise.feature.end(), q) -
                                noise.feature.begin());
    }
    int own_cell(int q) const { return static_cast<int>(x[static_cast<std::size_t>(q)]); }
    // tau of an atom where x' is in these cells.
    Real tau(int atom, const std::vector<int>& cell) const {
        const auto a = static_cast<std::size_t>(atom);
        const auto z = static_cast<std::size_t>(cell[static_cast<std::size_t>(noise.feature[a])]);
        return static_cast<Real>(event[a][z]) -
               static_cast<Real>(event[a][static_cast<std::size_t>(own_cell(noise.feature[a]))]);
    }
    bool has_categories() const { return model.n_atoms() > model.n_thresholds(); }

    // Lays out some terms. Their parents must be among them.
    void lay_out(const Terms& terms) {
        TermStore store(model);
        store.clear(static_cast<int>(terms.at({}).size()));
        std::map<Atoms, int> number{{{}, 0}};
        std::vector<const Terms::value_type*> by_size;
        for (const auto& term : terms) by_size.push_back(&term);
        std::stable_sort(by_size.begin(), by_size.end(),
                         [](auto* a, auto* b) { return a->first.size() < b->first.size(); });
        for (const auto* term : by_size) {
            if (term->first.empty()) continue;
            auto prefix = term->first;
            const auto last = std::max_element(prefix.begin(), prefix.end(), [&](int a, int b) {
                return noise.feature[static_cast<std::size_t>(a)] <
                       noise.feature[static_cast<std::size_t>(b)];
            });
            const auto atom = *last;
            prefix.erase(last);
            number[term->first] = store.find_or_add(number.at(prefix), atom);
        }
        for (const auto& [atoms, weight] : terms)
            for (std::size_t k = 0; k < weight.size(); ++k)
                store.weight(number.at(atoms))[k] = static_cast<double>(weight[k]);
        store.lay_out(own_terms_, own_weights_);
        place_grams(own_terms_);
        row_terms_ = &own_terms_;
    }
    // Takes the terms of the model's trees from its plan.
    void take_plan() {
        plan_ = Plan::make(model, model.group.at(0), [] {});
        Plan::Scratch scratch;
        plan_->spread(*tables, scratch, own_weights_);
        row_terms_ = &plan_->terms();
    }

    // The terms as they are laid out, with any weights that are laid out likewise.
    Terms read(const Buffer<double>& weights) const {
        Terms found;
        const auto& r = *row_terms_;
        for (const auto& c : r.component)
            for (int t = 0; t < (c.size ? c.n_terms : 1); ++t) {
                Atoms atoms;
                for (int j = 0; j < c.size; ++j)
                    atoms.push_back(r.atom[c.slots + std::int64_t{j} * c.stride + t]);
                std::sort(atoms.begin(), atoms.end());
                auto& own = found[atoms];
                for (int k = 0; k < r.width; ++k)
                    own.push_back(weights[std::int64_t{k} * r.n_weights + c.first_term + t]);
            }
        return found;
    }
    Terms terms() const { return read(own_weights_); }

    // What is asked; each call begins with the weights of the row.
    struct Gap {
        double gap;
        std::map<Features, double> form;  // of each component
        Terms pushed;
    };
    Gap gap(const Kernels& kernels, CellRule rule = CellRule::cheapest) {
        TermState state;
        begin(state, TermUse::gap(), rule);
        Gap found{kernels.gap(state), {}, read(state.weight)};
        for (int c = 1; c < row_terms_->n_components(); ++c) {
            const auto* first = row_terms_->feature.data() + row_terms_->component[c].features;
            found.form[Features(first, first + row_terms_->component[c].size)] = state.form[c];
        }
        return found;
    }
    std::vector<double> covariances(const Kernels& kernels, CellRule rule = CellRule::cheapest) {
        TermState state;
        begin(state, TermUse::covariances(), rule);
        std::vector<double> found(static_cast<std::size_t>(row_terms_->width * row_terms_->width));
        kernels.covariances(state, found.data());
        return found;
    }
    std::vector<double> curve(const Kernels& kernels, const Units& units, const std::vector<int>& order,
                              CellRule rule = CellRule::cheapest) {
        const auto n = static_cast<int>(order.size());
        TermState state;
        begin(state, TermUse::curve(n), rule);
        std::vector<double> found(order.size(), 0.0);
        kernels.curve(state, units, order.data(), n, found.data());
        return found;
    }
    // The gains of all units before each step of an order, (n_steps, n_units), and the weights in the end.
    struct Gains {
        std::vector<std::vector<double>> gain;
        Terms pushed;
    };
    Gains gains(const Kernels& kernels, const Units& units, const std::vector<int>& order, bool keeps_grams,
                CellRule rule = CellRule::cheapest, bool keeps_parts = false) {
        auto use = TermUse::gains(units);
        use.keeps_grams = keeps_grams;
        if (keeps_parts) use.many_units = 1;
        TermState state;
        begin(state, use, rule);
        kernels.begin(state);  // the state began with those of use()
        Gains found;
        for (const auto unit : order) {
            kernels.gains(state);
            found.gain.emplace_back(state.gain.begin(), state.gain.end());
            kernels.add_unit(state, unit);
        }
        found.pushed = read(state.weight);
        return found;
    }
    // The gaps of all subsets of the units. The kernels are those of use().
    std::vector<double> subset_gaps(const Units& units, CellRule rule = CellRule::cheapest) {
        TermState state;
        begin(state, TermUse::gap(), rule);
        std::vector<int> chosen(static_cast<std::size_t>(units.size()));
        std::iota(chosen.begin(), chosen.end(), 0);
        std::vector<double> found(std::size_t{1} << chosen.size(), 0.0);
        SubsetGaps().add(state, units, chosen.data(), units.size(), found.data());
        return found;
    }

    const int n_features;
    Model model;
    Noise noise;
    std::vector<double> x;
    std::unique_ptr<RowTables> tables;
    RowWork work;
    // Of each feature the probabilities of its cells, and of each atom the cells in its event.
    std::vector<std::vector<Real>> probability;
    std::vector<std::vector<bool>> event;

private:
    void begin(TermState& state, TermUse use, CellRule rule) {
        Buffer<double> weights;
        weights.assign(own_weights_);
        use.cell_rule = rule;
        state.begin(*row_terms_, *tables, work, use, weights);
    }

    void add_number(const Data& data, int q) {
        const auto& own = data[static_cast<std::size_t>(q)];
        std::vector<Real> p(own.likely.begin(), own.likely.end());
        const auto sum = std::accumulate(p.begin(), p.end(), Real{0});
        for (auto& part : p) part /= sum;
        x.push_back(own.own + 0.5);
        for (auto a = model.atoms.begin[static_cast<std::size_t>(q)];
             a < model.atoms.begin[static_cast<std::size_t>(q) + 1]; ++a) {
            const auto cut = static_cast<std::ptrdiff_t>(model.atoms.threshold[static_cast<std::size_t>(a)]);
            const auto below = std::accumulate(p.begin(), p.begin() + cut, Real{0});
            const auto above = std::accumulate(p.rbegin(), p.rend() - cut, Real{0});
            below_[static_cast<std::size_t>(a)] = static_cast<double>(below);
            above_[static_cast<std::size_t>(a)] = static_cast<double>(above);
            std::vector<bool> in(p.size(), false);
            std::fill_n(in.begin(), cut, true);
            event.push_back(in);
        }
        probability.push_back(p);
    }
    // Levels that no set tells apart are one cell: the probabilities are those of cells.
    void add_category(const Data& data, int q) {
        const auto& own = data[static_cast<std::size_t>(q)];
        const auto& cells = model.cells;
        const auto of_level = [&](int level) {
            return cells
                .of_level[static_cast<std::size_t>(cells.level_begin[static_cast<std::size_t>(q)] + level)];
        };
        std::vector<Real> arriving(static_cast<std::size_t>(cells.count(q)), 0);
        const auto sum = std::accumulate(own.likely.begin(), own.likely.end(), Real{0});
        for (std::size_t level = 0; level < own.likely.size(); ++level)
            arriving[static_cast<std::size_t>(of_level(static_cast<int>(level)))] +=
                own.moves * own.likely[level] / sum;
        const auto at = static_cast<std::size_t>(of_level(own.own));
        Real total = 0;
        for (const auto m : arriving) total += m;
        for (std::size_t z = 0; z < arriving.size(); ++z) {
            mass_.push_back(static_cast<double>(arriving[z]));
            stay_.push_back(static_cast<double>(arriving[z] + (1 - total)));
        }
        x.push_back(static_cast<double>(at));
        arriving[at] += 1 - total;
        probability.push_back(arriving);
        for (int s = 0; s < model.set_atoms.size(); ++s) {
            if (model.set_atoms.feature[static_cast<std::size_t>(s)] != q) continue;
            std::vector<bool> in;
            for (int z = 0; z < cells.count(q); ++z) in.push_back(holds(model.set_atoms.bits(s), z));
            event.push_back(in);
        }
    }
    // Computes the moments of all pairs of atoms from the probabilities of cells.
    void find_moments() {
        sort_events();
        const auto n = event.size();
        const auto tau = [&](std::size_t a, std::size_t z) {
            const auto own = static_cast<std::size_t>(own_cell(noise.feature[a]));
            return static_cast<Real>(event[a][z]) - static_cast<Real>(event[a][own]);
        };
        noise.mean.assign(n, 0);
        noise.covariance.assign(n, std::vector<Real>(n, 0));
        noise.moment = noise.covariance;
        const auto probability_of = [&](std::size_t a) -> const std::vector<Real>& {
            return probability[static_cast<std::size_t>(noise.feature[a])];
        };
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t z = 0; z < event[a].size(); ++z)
                noise.mean[a] += probability_of(a)[z] * tau(a, z);
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b < n; ++b) {
                if (noise.feature[a] != noise.feature[b]) continue;
                for (std::size_t z = 0; z < event[a].size(); ++z) {
                    const auto p = probability_of(a)[z];
                    noise.moment[a][b] += p * tau(a, z) * tau(b, z);
                    noise.covariance[a][b] += p * (tau(a, z) - noise.mean[a]) * (tau(b, z) - noise.mean[b]);
                }
            }
    }
    // Atoms of numbers come first; events were added feature by feature.
    void sort_events() {
        std::vector<std::vector<bool>> sets, sorted;
        std::size_t next = 0;
        for (int q = 0; q < n_features; ++q)
            for (int i = 0; i < n_atoms(q); ++i)
                (model.cells.categorical(q) ? sets : sorted).push_back(event[next++]);
        sorted.insert(sorted.end(), sets.begin(), sets.end());
        event = sorted;
    }

    LawArrays laws_;
    std::vector<double> below_, above_, mass_, stay_;
    std::unique_ptr<CategoryNoise> categories_;
    const std::atomic<bool> stop_{false};
    RowTerms own_terms_;
    Buffer<double> own_weights_;
    std::unique_ptr<Plan> plan_;
    const RowTerms* row_terms_ = nullptr;
};

}  // namespace predgap::test
