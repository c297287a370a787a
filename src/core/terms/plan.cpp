// Builds the plan of a model: the boxes of all leaves, their terms, and the counts by which it is priced.
#include "terms/plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "terms/form_scratch.hpp"
#include "terms/term_state.hpp"
#include "terms/term_store.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint32_t;

// Collects the boxes of all leaves, and multiplies them out.
class Plan::Builder {
public:
    Builder(Plan& plan, const std::function<void()>& check)
        : p_(plan),
          check_(check),
          store_(plan.model_),
          literal_(static_cast<std::size_t>(plan.model_.n_features())) {
        store_.clear(1);
    }

    bool run() {
        for (std::size_t t = 0; t < p_.group_.root.size(); ++t) {
            check_();
            if (!collect(static_cast<int32_t>(t))) return false;
        }
        number_literals();
        for (const auto* box : alike_together()) {
            check_();
            add_box(box->first, box->second);
            if (p_.entry_.size() > kMostEntries) return false;
        }
        index_boxes();
        Buffer<double> weights;
        store_.lay_out(p_.terms_, weights);
        p_.terms_.width = p_.group_.width;
        p_.terms_.most_scratch = 0;
        list_edges(p_.terms_);
        sign_components(p_.terms_);
        place_grams(p_.terms_);
        for (auto& e : p_.entry_) e = store_.place[e / 2] * 2 + e % 2;
        p_.component_of_.assign(static_cast<std::size_t>(p_.terms_.n_weights), 0);
        GridChoice choice(p_.model_);
        for (int32_t c = 0; c < p_.terms_.n_components(); ++c) {
            const auto& own = p_.terms_.component[c];
            std::fill_n(p_.component_of_.begin() + own.first_term, own.stride, c);
            p_.terms_.most_scratch = std::max(
                p_.terms_.most_scratch, store_.scratch_of(own, p_.terms_.feature.data(), p_.group_.width));
            p_.pairs_.push_back(own.has_sets ? 0.0 : store_.pairs_of(own, p_.terms_.feature.data()));
            p_.sets_.push_back(own.has_sets ? choose_grid(choice, own) : 0.0);
        }
        p_.count_changes();
        p_.all_ = p_.add_up(nullptr);
        return true;
    }

private:
    // Counts the cells of a component with categories; returns the nanoseconds of a form.
    double choose_grid(GridChoice& choice, const Component& c) {
        const auto count = [&](Grids& grids, int32_t n_steps) {
            const auto chosen = choice.choose(p_.terms_, c, CellRule::cheapest, n_steps);
            if (!chosen.over_cells) return chosen.nanoseconds;
            grids.n += 1.0;
            grids.scratch =
                std::max(grids.scratch, static_cast<double>(grid_scratch(chosen.grid, c.n_terms)));
            grids.kept += static_cast<double>(chosen.grid.kept(c.n_terms));
            return chosen.nanoseconds;
        };
        count(p_.of_curve_, static_cast<int32_t>(p_.model_.features.size()));
        return count(p_.of_gaps_, 0);
    }

    struct Member {
        int32_t tree, value;  // where its values begin
    };
    using Found = std::map<std::vector<Literal>, std::vector<Member>>;

    // Sorts the boxes so that those with as many literals and leaves follow each other: how often loops over
    // them run is foreseen.
    std::vector<const Found::value_type*> alike_together() const {
        std::vector<const Found::value_type*> boxes;
        for (const auto& box : found_) boxes.push_back(&box);
        std::stable_sort(boxes.begin(), boxes.end(), [](const auto* a, const auto* b) {
            return std::pair(a->first.size(), a->second.size()) <
                   std::pair(b->first.size(), b->second.size());
        });
        return boxes;
    }

    void index_boxes() {
        p_.index_ = BoxIndex(p_.model_, p_.n_boxes());
        for (int64_t b = 0; b < p_.n_boxes(); ++b) {
            const auto& box = p_.boxes_[static_cast<std::size_t>(b)];
            for (int32_t j = 0; j < box.n_literals; ++j) {
                const auto& l = p_.literals_[static_cast<std::size_t>(
                    p_.box_literal_[static_cast<std::size_t>(box.literals + j)])];
                if (!p_.model_.cells.categorical(l.feature))
                    p_.index_.add_test(p_.model_.atoms, b, l.feature, l.lo, l.hi);
            }
        }
    }

    // Lists the edges of each feature in blocks, by the first other feature. In a block, each round has one
    // edge of every parent: neighbours do not write the same weight.
    void list_edges(RowTerms& terms) {
        const auto d = p_.model_.n_features();
        terms.block_begin.reset(d + 1, 0);
        terms.block.clear();
        terms.edge.clear();
        struct Found {
            int32_t other, round;
            Edge edge;
        };
        std::vector<int32_t> n_seen(static_cast<std::size_t>(terms.n_weights));
        std::vector<Found> found;
        for (int32_t q = 0; q < d; ++q) {
            found.clear();
            for (auto u = terms.use_begin[q]; u < terms.use_begin[q + 1]; ++u) {
                const auto& c = terms.component[terms.use[u].component];
                const auto* feature = terms.feature.data() + c.features;
                const auto other = c.size == 1 ? EdgeBlock::kNoFeature : feature[feature[0] == q];
                const auto at = c.slots + int64_t{terms.use[u].slot} * c.stride;
                for (int32_t t = 0; t < c.n_terms; ++t) {
                    const Edge edge{c.first_term + t, terms.parent[at + t], terms.atom[at + t]};
                    found.push_back({other, n_seen[static_cast<std::size_t>(edge.parent)]++, edge});
                }
            }
            for (const auto& f : found) n_seen[static_cast<std::size_t>(f.edge.parent)] = 0;
            std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
                return std::pair(a.other, a.round) < std::pair(b.other, b.round);
            });
            for (const auto& f : found) {
                const auto n = static_cast<int32_t>(terms.edge.size());
                if (terms.block.size() == terms.block_begin[q] ||
                    terms.block[terms.block.size() - 1].other != f.other)
                    terms.block.push({f.other, n, n});
                terms.edge.push(f.edge);
                ++terms.block[terms.block.size() - 1].end;
            }
            terms.block_begin[q + 1] = static_cast<int32_t>(terms.block.size());
        }
    }

    static void sign_components(RowTerms& terms) {
        terms.signature.reset(terms.n_components(), 0);
        for (int32_t c = 0; c < terms.n_components(); ++c)
            for (int32_t j = 0; j < terms.component[c].size; ++j)
                terms.signature[c] |= RowTerms::signature_of(terms.feature[terms.component[c].features + j]);
    }

    struct Step {
        int32_t node, feature;  // or -1 at a root
        Literal literal;
        bool undo;
    };

    // Collects the leaves of one tree with their literals; false if there are too many.
    bool collect(int32_t tree) {
        std::vector<Step> stack{{p_.group_.root[static_cast<std::size_t>(tree)], -1, {}, false}};
        while (!stack.empty()) {
            const auto step = stack.back();
            stack.pop_back();
            if (step.feature >= 0) enter(step, stack);
            if (step.undo) continue;
            const auto& node = p_.group_.node[static_cast<std::size_t>(step.node)];
            if (node.feature != kLeaf) {
                push(stack, step.node, node, false);
                push(stack, step.node, node, true);
            } else if (!add_leaf(tree, node.right)) {
                return false;
            }
        }
        return true;
    }

    void enter(const Step& step, std::vector<Step>& stack) {
        auto& own = literal_[static_cast<std::size_t>(step.feature)];
        if (!step.undo) {
            stack.push_back({step.node, step.feature, own, true});
            path_.push_back(step.feature);
        } else {
            path_.pop_back();
        }
        own = step.literal;
    }

    void push(std::vector<Step>& stack, int32_t at, const Node& node, bool left) {
        const auto q = node.feature;
        const auto is_new = std::find(path_.begin(), path_.end(), q) == path_.end();
        Literal literal = is_new ? Literal{q, -1, -1, true} : literal_[static_cast<std::size_t>(q)];
        literal.missing = literal.missing && node.default_left == left;
        if (node.atom < 0) {
            const auto& split = p_.group_.split[static_cast<std::size_t>(~node.atom)];
            const auto& ends = left ? split.left : split.right;
            literal.lo = ends.lo;
            literal.hi = ends.hi;
        } else if (literal.is_passable()) {
            if (left)
                literal.hi = literal.hi < 0 ? node.atom : std::min(literal.hi, node.atom);
            else
                literal.lo = std::max(literal.lo, node.atom);
            if (literal.hi >= 0 && literal.lo >= literal.hi) literal.lo = literal.hi = 0;  // no number passes
        }
        if (literal.is_passable() || literal.missing)
            stack.push_back({left ? at + 1 : node.right, q, literal, false});
    }

    bool add_leaf(int32_t tree, int32_t value) {
        std::vector<Literal> key;
        for (const auto q : path_) key.push_back(literal_[static_cast<std::size_t>(q)]);
        std::sort(key.begin(), key.end());
        key.erase(std::unique(key.begin(), key.end()), key.end());
        if (key.size() > kMostLiterals) return false;
        double entries = 1.0;
        for (const auto& l : key) entries *= 2.0 * (1 + (l.is_passable() && l.lo >= 0 && l.hi >= 0));
        auto& members = found_[key];
        if (members.empty()) n_entries_ += entries;
        members.push_back({tree, value});
        return n_entries_ <= kMostEntries;
    }

    void number_literals() {
        for (const auto& [literals, members] : found_)
            for (const auto& l : literals) number_.try_emplace(l, 0);
        p_.literal_begin_.assign(static_cast<std::size_t>(p_.model_.n_features()) + 1, 0);
        for (auto& [literal, number] : number_) {  // by feature
            number = static_cast<int32_t>(p_.literals_.size());
            p_.literals_.push_back(literal);
            p_.is_bounded_.push_back(literal.is_passable() && (literal.lo >= 0 || literal.hi >= 0) ? kOpen
                                                                                                   : 0);
            ++p_.literal_begin_[static_cast<std::size_t>(literal.feature) + 1];
        }
        std::partial_sum(p_.literal_begin_.begin(), p_.literal_begin_.end(), p_.literal_begin_.begin());
    }

    void add_box(const std::vector<Literal>& literals, const std::vector<Member>& members) {
        Box box{static_cast<int32_t>(p_.box_literal_.size()), static_cast<int32_t>(literals.size()),
                static_cast<int32_t>(p_.member_tree_.size()), static_cast<int32_t>(members.size()),
                static_cast<int32_t>(p_.parts_.size()),       0};
        for (const auto& l : literals) p_.box_literal_.push_back(number_.at(l));
        for (const auto& m : members) {
            const auto* value = p_.group_.value.data() + m.value;
            p_.member_tree_.push_back(m.tree);
            p_.member_value_.insert(p_.member_value_.end(), value, value + p_.group_.width);
        }
        std::vector<int32_t> two_sided;
        for (std::size_t j = 0; j < literals.size(); ++j)
            if (literals[j].is_passable() && literals[j].lo >= 0 && literals[j].hi >= 0)
                two_sided.push_back(static_cast<int32_t>(j));
        for (uint32_t choice = 0; choice < uint32_t{1} << two_sided.size(); ++choice) {
            uint32_t forced = 0;
            for (std::size_t i = 0; i < two_sided.size(); ++i)
                if (choice >> i & 1) forced |= uint32_t{1} << two_sided[i];
            add_part(literals, forced);
            ++box.n_parts;
        }
        const auto n_free = static_cast<double>(literals.size() - two_sided.size());
        p_.typical_spread_ += std::pow(1.5, n_free) * std::pow(2.5, static_cast<double>(two_sided.size()));
        p_.boxes_.push_back(box);
    }

    // Adds a part of a box, with one bound of each literal: one that is forced gives its lower bound, any
    // other the only one, or of two the upper.
    void add_part(const std::vector<Literal>& literals, uint32_t forced) {
        const auto first = p_.entry_.size();
        p_.parts_.push_back({forced, static_cast<int32_t>(first)});
        p_.part_box_.push_back(static_cast<int32_t>(p_.boxes_.size()));
        p_.entry_.push_back(0);
        for (uint32_t set = 1; set < uint32_t{1} << literals.size(); ++set) {
            const auto top = static_cast<std::size_t>(std::bit_width(set) - 1);
            const auto& l = literals[top];
            const bool lower = (forced >> top & 1) || l.hi < 0;
            const auto atom = lower ? l.lo : l.hi;
            const auto before = p_.entry_[first + (set ^ uint32_t{1} << top)];
            // Sets with a literal that has no bounds are never asked for.
            p_.entry_.push_back(atom < 0 || !l.is_passable()
                                    ? before
                                    : store_.find_or_add(before / 2, atom) * 2 + (before % 2 != lower));
        }
    }

    Plan& p_;
    const std::function<void()>& check_;
    TermStore store_;
    std::vector<Literal> literal_;  // (n_features) of the path
    std::vector<int32_t> path_;
    Found found_;
    std::map<Literal, int32_t> number_;
    double n_entries_ = 0.0;
};

std::unique_ptr<Plan> Plan::make(const Model& model, const TreeGroup& group,
                                 const std::function<void()>& check) {
    std::unique_ptr<Plan> plan(new Plan(model, group));
    return Builder(*plan, check).run() ? std::move(plan) : nullptr;
}

// Counts how often the weights of each component change in a curve of all features once it is complete, if
// these come in any order: with each feature that makes it a larger component, if that comes after all of its
// own.
void Plan::count_changes() {
    changes_.assign(static_cast<std::size_t>(terms_.n_components()), 0.0);
    for (int32_t c = 1; c < terms_.n_components(); ++c) {
        const auto& own = terms_.component[c];
        for (int32_t j = 0; j < own.size; ++j)
            changes_[static_cast<std::size_t>(terms_.parent_component[own.features + j])] += 1.0 / own.size;
    }
}

bool Plan::has_all(const Component& c, const std::uint8_t* subset) const {
    const auto* feature = terms_.feature.data() + c.features;
    return !subset || std::all_of(feature, feature + c.size, [&](int32_t q) { return subset[q]; });
}

EvaluationCounts Plan::count(const std::uint8_t* subset) const {
    const auto& q = model_.features;
    const bool is_whole =
        !subset || std::all_of(q.begin(), q.end(), [&](int32_t feature) { return subset[feature]; });
    return is_whole ? all_ : add_up(subset);
}

// Adds up the counts of the components whose features all move. Large plans have many components, few of them
// of the subset: they are told by one number each, as a rule.
EvaluationCounts Plan::add_up(const std::uint8_t* subset) const {
    std::uint64_t moving = 0;
    double n_moving = 0.0;
    for (const auto q : model_.features) {
        if (subset && !subset[q]) continue;
        moving |= RowTerms::signature_of(q);
        n_moving += 1.0;
    }
    const auto n_features = static_cast<double>(model_.features.size());
    EvaluationCounts sum;
    for (int32_t c = 1; c < terms_.n_components(); ++c) {
        if (terms_.signature[c] & ~moving) continue;
        const auto& own = terms_.component[c];
        if (!has_all(own, subset)) continue;
        const auto at = static_cast<std::size_t>(c);
        const double changes = changes_[at] * (n_moving - own.size) / std::max(n_features - own.size, 1.0);
        sum.components += 1.0;
        sum.terms += own.n_terms;
        sum.pairs += pairs_[at];
        sum.pairs_again += changes * pairs_[at];
        sum.sets += sets_[at];
        sum.sets_again += changes * sets_[at];
    }
    return sum;
}

namespace {

template <class... Vectors>
double bytes_of(const Vectors&... vectors) {
    return (0.0 + ... + static_cast<double>(vectors.capacity() * sizeof(vectors[0])));
}

}  // namespace

double Plan::bytes() const {
    return terms_.bytes() + index_.bytes() +
           bytes_of(literals_, is_bounded_, literal_begin_, box_literal_, boxes_, member_tree_, member_value_,
                    parts_, part_box_, entry_, component_of_, pairs_, sets_, changes_);
}

double Plan::Scratch::used_bytes() const {
    return mask.used_bytes() + literal.used_bytes() + value.used_bytes() + candidate.used_bytes() +
           reached.used_bytes() + change.used_bytes() + job.used_bytes();
}

double Plan::row_bytes(Use use) const {
    const double n = terms_.n_components(), width = group_.width, d = model_.n_features();
    const auto& grids = use == Use::curve ? of_curve_ : of_gaps_;
    const double n_weights = width * terms_.n_weights, n_boxes = static_cast<double>(boxes_.size());
    const double scratch = n_boxes * (sizeof(Masks) + sizeof(int32_t) + width * sizeof(double)) +
                           std::ceil(n_boxes / 64.0) * sizeof(uint64_t) + sizeof(int32_t) +
                           static_cast<double>(literals_.size()) * sizeof(uint32_t) +
                           static_cast<double>(group_.root.size()) * width * sizeof(double) +
                           static_cast<double>((kBuckets + 1) * parts_.size()) * sizeof(int64_t);
    double state =
        n * (sizeof(ComponentState) + sizeof(Closed) + sizeof(int32_t) + sizeof(double)) +
        (n_weights + std::max(static_cast<double>(terms_.most_scratch), grids.scratch)) * sizeof(double);
    if (const double n_sets = model_.set_atoms.size(); n_sets > 0.0)  // see SetFactors
        state += n * (sizeof(int32_t) + sizeof(double)) + grids.n * sizeof(CellGrid) +
                 n_sets * (2 * sizeof(int32_t) + sizeof(double*) + sizeof(uint8_t));
    if (use == Use::gains || use == Use::gains_of_units)
        state += n * (sizeof(predgap::Use) + sizeof(ClosedGain)) +
                 (2.0 * n_weights + d * (width + 1.0)) * sizeof(double) + d;
    if ((use == Use::gains || use == Use::gains_of_units) && model_.features.size() >= TermUse::kManyUnits)
        state += n * (sizeof(FrontierLink) + sizeof(int32_t)) +
                 static_cast<double>(terms_.use.size()) * width * sizeof(double) +
                 d * (sizeof(GainOfUnit) + sizeof(int32_t));
    if (use == Use::gains) state += terms_.n_gram * sizeof(double);
    if (use == Use::gains_of_units)
        state += n_weights * sizeof(double) + n * (sizeof(TermState::Received) + sizeof(int32_t));
    if (use == Use::curve)
        state += n * (sizeof(Versions) + sizeof(int32_t)) +
                 (d + 1.0) * (2 * sizeof(int32_t) + sizeof(double)) +
                 std::min(static_cast<double>(Versions::kMostKept),
                          static_cast<double>(Versions::kMost) * terms_.n_weights + grids.kept) *
                     sizeof(double);
    return scratch + state;
}

}  // namespace predgap
