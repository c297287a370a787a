#include "plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <compare>
#include <iterator>
#include <numeric>

namespace predgap {

namespace {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

int32_t index_of(std::size_t n) { return static_cast<int32_t>(n); }

// Walks one tree and keeps the box of the path; features change back as the walk leaves a node.
class BoxWalk {
public:
    BoxWalk(const EnsembleView& e, const Atoms& atoms, SetAtoms& sets)
        : e_(e),
          atoms_(atoms),
          sets_(sets),
          lo_(e.n_features, -1),
          hi_(e.n_features, -1),
          missing_(e.n_features, 1),
          depth_(e.n_features, 0) {}

    // False as soon as visit(leaf) is.
    template <class Visit>
    bool walk(int32_t root, Visit visit) {
        std::vector<Step> stack{{root, kRoot, false}};
        while (!stack.empty()) {
            Step step = stack.back();
            stack.pop_back();
            if (step.parent == kUndo) {
                leave(step);
                continue;
            }
            if (step.parent != kRoot) enter(step, stack);
            const auto node = step.node;
            if (e_.feature[node] == kLeaf) {
                if (!visit(node)) return false;
            } else {
                stack.push_back({e_.right[node], node, false});
                stack.push_back({e_.left[node], node, true});
            }
        }
        return true;
    }

    std::ptrdiff_t n_features() const { return std::ssize(used_); }

    // The path's literals, by ascending feature; false if nothing can reach this leaf.
    bool literals(std::vector<Literal>& out) const {
        const auto begin = out.size();
        for (const auto q : used_) out.push_back({q, lo_[q], hi_[q], missing_[q] != 0});
        std::sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
        for (auto i = begin; i < out.size(); ++i)
            if (!out[i].numeric() && !out[i].missing) {
                out.resize(begin);
                return false;
            }
        return true;
    }

private:
    static constexpr int32_t kRoot = -1, kUndo = -2;

    struct Step {
        int32_t node, parent;  // or kRoot; kUndo ends the node's subtree
        bool left;
        int32_t feature = -1, lo = -1, hi = -1;  // what to change back
        std::uint8_t missing = 0;
    };

    void enter(const Step& step, std::vector<Step>& stack) {
        const auto q = e_.feature[step.parent];
        stack.push_back({step.node, kUndo, false, q, lo_[q], hi_[q], missing_[q]});
        if (depth_[q]++ == 0) used_.push_back(q);
        missing_[q] &= (e_.default_left[step.parent] != 0) == step.left;
        if (e_.category_set[step.parent] != kNumeric) {
            const auto ends = sets_.meet(q, {lo_[q], hi_[q]}, e_.category_set[step.parent], step.left);
            lo_[q] = ends.lo;
            hi_[q] = ends.hi;
        } else if (const auto atom = atoms_.of_node[step.parent]; step.left) {
            hi_[q] = hi_[q] < 0 ? atom : std::min(hi_[q], atom);
        } else {
            lo_[q] = std::max(lo_[q], atom);
        }
    }

    void leave(const Step& step) {
        const auto q = step.feature;
        lo_[q] = step.lo;
        hi_[q] = step.hi;
        missing_[q] = step.missing;
        if (--depth_[q] == 0) used_.pop_back();  // features leave in the reverse order of their coming
    }

    const EnsembleView& e_;
    const Atoms& atoms_;
    SetAtoms& sets_;
    std::vector<int32_t> lo_, hi_;
    std::vector<std::uint8_t> missing_;
    std::vector<int32_t> depth_, used_;
};

}  // namespace

Leaves::Leaves(const EnsembleView& e, const Atoms& atoms, SetAtoms& sets, const Stop& stop) {
    BoxWalk box(e, atoms, sets);
    double n_entries = 0, n_groups = 0;
    const auto visit = [&](int32_t tree, int32_t node) {
        stop.check();
        if (sets.size() > kMostSets) return false;
        const auto begin = static_cast<int64_t>(literal.size());
        if (box.n_features() > kWidest) return false;
        if (!box.literals(literal)) return true;
        const auto end = static_cast<int64_t>(literal.size());
        leaf.push_back({tree, e.value[node], begin, end});
        double entries = 1;
        for (auto i = begin; i < end; ++i) entries *= 1 + literal[i].n_atoms();
        n_entries += entries;
        n_groups += std::exp2(end - begin);
        const double most = std::max(kManyEntries, kMostPerLeaf * static_cast<double>(leaf.size()));
        return n_entries <= std::min(most, kMostEntries) && n_groups <= kMostGroups;
    };
    for (std::size_t tree = 0; tree < e.root.size() && affordable; ++tree)
        affordable = box.walk(e.root[tree], [&](int32_t node) { return visit(index_of(tree), node); });
    if (!affordable) return;
    const auto number = sets.finish();
    affordable = sets.n_pairs() <= kMostSetPairs;
    const auto n_thresholds = atoms.size();
    for (auto& l : literal)
        for (auto* end : {&l.lo, &l.hi})
            if (l.numeric() && *end >= n_thresholds) *end = number[*end - n_thresholds];
}

// The terms with the same number of atoms, as a trie: a term is a shorter term and one more, later atom.
struct Plan::Level {
    std::vector<uint64_t> key;            // sorted: prefix << 32 | last atom; prefix numbers the level before
    std::vector<uint64_t> component_key;  // sorted: prefix component << 32 | last feature
    std::vector<int32_t> component;       // (terms) into component_key
    std::vector<int32_t> id;              // (terms) final term number
    std::vector<int32_t> without;         // (terms x size) term of the level before, lacking that slot

    int32_t prefix(int32_t t) const { return static_cast<int32_t>(key[t] >> 32); }
    int32_t atom(int32_t t) const { return static_cast<int32_t>(key[t] & 0xffffffff); }
};

namespace {

uint64_t pack(int32_t high, int32_t low) {
    return static_cast<uint64_t>(high) << 32 | static_cast<std::uint32_t>(low);
}

void sort_unique(std::vector<uint64_t>& keys, const Stop& stop) {
    constexpr std::ptrdiff_t kPiece = 1 << 19;  // sorted in one go; a few milliseconds
    const auto at = [&](std::ptrdiff_t i) { return keys.begin() + std::min(i, std::ssize(keys)); };
    for (std::ptrdiff_t i = 0; i < std::ssize(keys); i += kPiece) {
        stop.check();
        std::sort(at(i), at(i + kPiece));
    }
    for (auto width = kPiece; width < std::ssize(keys); width *= 2)
        for (std::ptrdiff_t i = 0; i < std::ssize(keys); i += 2 * width) {
            stop.check();
            std::inplace_merge(at(i), at(i + width), at(i + 2 * width));
        }
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

int32_t find(const std::vector<uint64_t>& keys, uint64_t key) {
    return index_of(static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin()));
}

}  // namespace

Plan::Plan(const EnsembleView& e, const Atoms& atoms, const SetAtoms& sets, const Leaves& leaves,
           const Stop& stop)
    : atom_feature_(atoms.feature) {
    atom_feature_.insert(atom_feature_.end(), sets.feature.begin(), sets.feature.end());
    merge_boxes(leaves, index_of(e.root.size()), stop);
    multiply_out(stop);
    list_children();
    list_uses(e.n_features);
    for (std::size_t c = 0; c < component_size_.size(); ++c) {
        const auto* atom = term_atom_.data() + component_slot_begin_[c];
        component_has_sets_.push_back(
            std::any_of(atom, atom + component_size_[c], [&](int32_t a) { return a >= atoms.size(); }));
    }
    choose_sweeps(*e.cells);
    mark_pairs(sets);
    expose(e, atoms, sets);
}

void Plan::merge_boxes(const Leaves& leaves, int32_t n_trees, const Stop& stop) {
    std::vector<Literal> distinct(leaves.literal);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const auto& l : distinct) {
        literal_feature_.push_back(l.feature);
        literal_lo_.push_back(l.lo);
        literal_hi_.push_back(l.hi);
        literal_numeric_.push_back(l.numeric());
        literal_missing_.push_back(l.missing);
    }
    std::vector<int32_t> literal(leaves.literal.size());
    for (std::size_t i = 0; i < literal.size(); ++i)
        literal[i] = index_of(static_cast<std::size_t>(
            std::lower_bound(distinct.begin(), distinct.end(), leaves.literal[i]) - distinct.begin()));

    std::vector<int32_t> order(leaves.leaf.size());
    std::iota(order.begin(), order.end(), 0);
    const auto compare = [&](int32_t a, int32_t b) {
        stop.check();
        const auto &p = leaves.leaf[a], &q = leaves.leaf[b];
        return std::lexicographical_compare_three_way(
            literal.begin() + p.literal_begin, literal.begin() + p.literal_end,
            literal.begin() + q.literal_begin, literal.begin() + q.literal_end);
    };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return compare(a, b) < 0; });

    std::vector<int32_t> box_of(leaves.leaf.size());
    box_literal_begin_.push_back(0);
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& leaf = leaves.leaf[order[i]];
        if (i == 0 || compare(order[i - 1], order[i]) != 0) {
            box_member_begin_.push_back(index_of(i));
            box_literal_.insert(box_literal_.end(), literal.begin() + leaf.literal_begin,
                                literal.begin() + leaf.literal_end);
            box_literal_begin_.push_back(index_of(box_literal_.size()));
        }
        box_of[order[i]] = index_of(box_member_begin_.size()) - 1;
        member_tree_.push_back(leaf.tree);
        member_value_.push_back(leaf.value);
    }
    box_member_begin_.push_back(index_of(order.size()));

    tree_leaf_begin_.assign(static_cast<std::size_t>(n_trees) + 1, 0);
    for (std::size_t i = 0; i < leaves.leaf.size(); ++i) {  // leaves come tree by tree
        ++tree_leaf_begin_[leaves.leaf[i].tree + 1];
        leaf_box_.push_back(box_of[i]);
        leaf_value_.push_back(leaves.leaf[i].value);
    }
    std::partial_sum(tree_leaf_begin_.begin(), tree_leaf_begin_.end(), tree_leaf_begin_.begin());
}

// To every box and mask of its literals belong the terms that choose one atom per literal of the mask: those
// of the mask without its last literal, each extended by one of that literal's atoms.
void Plan::lay_out_groups() {
    const auto n_boxes = box_literal_begin_.size() - 1;
    box_group_begin_.push_back(0);
    group_entry_begin_.push_back(0);
    for (std::size_t box = 0; box < n_boxes; ++box) {
        const auto* literal = box_literal_.data() + box_literal_begin_[box];
        const auto width = box_literal_begin_[box + 1] - box_literal_begin_[box];
        const auto first = box_group_begin_[box];
        for (int32_t mask = 1; mask < (1 << width); ++mask) {
            const int top = std::bit_width(static_cast<unsigned>(mask)) - 1;
            const int32_t rest = mask ^ (1 << top);
            const auto group = first + rest - 1;
            const int64_t n_rest = rest ? group_entry_begin_[group + 1] - group_entry_begin_[group] : 1;
            const auto l = literal[top];
            const int n_atoms = literal_numeric_[l] ? (literal_lo_[l] >= 0) + (literal_hi_[l] >= 0) : 0;
            group_entry_begin_.push_back(group_entry_begin_.back() + n_rest * n_atoms);
        }
        box_group_begin_.push_back(first + (1 << width) - 1);
    }
    entry_.resize(static_cast<std::size_t>(group_entry_begin_.back()));
    group_component_.assign(group_entry_begin_.size() - 1, -1);
}

// Visits the entries whose masks have `size` literals: (entry, prefix entry or -1, atom, is it a lower end?,
// group).
template <class Visit>
void Plan::each_entry(int size, const Stop& stop, Visit visit) {
    const auto n_boxes = box_literal_begin_.size() - 1;
    for (std::size_t box = 0; box < n_boxes; ++box) {
        stop.check();
        const auto* literal = box_literal_.data() + box_literal_begin_[box];
        const auto width = box_literal_begin_[box + 1] - box_literal_begin_[box];
        for (int32_t mask = 1; mask < (1 << width); ++mask) {
            if (std::popcount(static_cast<unsigned>(mask)) != size) continue;
            const auto group = box_group_begin_[box] + mask - 1;
            auto at = group_entry_begin_[group];
            if (at == group_entry_begin_[group + 1]) continue;
            const int top = std::bit_width(static_cast<unsigned>(mask)) - 1;
            const int32_t rest = mask ^ (1 << top);
            const auto before = box_group_begin_[box] + rest - 1;
            const int64_t begin = rest ? group_entry_begin_[before] : -1;
            const int64_t end = rest ? group_entry_begin_[before + 1] : 0;
            for (auto prefix = begin; prefix < end; ++prefix)
                for (int side = 0; side < 2; ++side) {
                    const auto atom = (side == 0 ? literal_lo_ : literal_hi_)[literal[top]];
                    if (atom >= 0) visit(at++, prefix, atom, side == 0, group);
                }
        }
    }
}

void Plan::multiply_out(const Stop& stop) {
    lay_out_groups();
    int widest = 0;
    for (std::size_t box = 0; box + 1 < box_literal_begin_.size(); ++box)
        widest = std::max(widest, box_literal_begin_[box + 1] - box_literal_begin_[box]);
    std::vector<Level> levels;
    for (int size = 1; size <= widest; ++size) {
        Level level;
        const auto key_of = [&](int64_t prefix, int32_t atom) {
            return pack(prefix < 0 ? 0 : entry_[prefix] >> 1, atom);
        };
        each_entry(size, stop, [&](int64_t, int64_t prefix, int32_t atom, bool, int64_t) {
            level.key.push_back(key_of(prefix, atom));
        });
        if (level.key.empty()) break;
        sort_unique(level.key, stop);
        each_entry(size, stop, [&](int64_t at, int64_t prefix, int32_t atom, bool lower, int64_t) {
            const bool negative = (prefix >= 0 && (entry_[prefix] & 1)) != lower;  // -tau at a lower end
            entry_[at] = find(level.key, key_of(prefix, atom)) * 2 + negative;
        });
        levels.push_back(std::move(level));
    }

    number_terms(levels, stop);
    for (std::size_t k = 0; k < levels.size(); ++k)  // from numbers in their level to final numbers
        each_entry(static_cast<int>(k) + 1, stop, [&](int64_t at, int64_t, int32_t, bool, int64_t group) {
            const auto t = entry_[at] >> 1;
            entry_[at] = levels[k].id[t] * 2 + (entry_[at] & 1);
            group_component_[group] = levels[k].component[t];
        });
}

void Plan::number_terms(std::vector<Level>& levels, const Stop& stop) {
    int32_t n_components = 0, n_terms = 0;
    component_term_begin_.push_back(0);
    for (std::size_t k = 0; k < levels.size(); ++k) {
        auto& level = levels[k];
        const auto n = index_of(level.key.size());
        const auto size = index_of(k) + 1;
        const Level* before = k ? &levels[k - 1] : nullptr;
        const auto component_key = [&](int32_t t) {
            return pack(before ? before->component[level.prefix(t)] : 0, atom_feature_[level.atom(t)]);
        };
        for (int32_t t = 0; t < n; ++t) level.component_key.push_back(component_key(t));
        sort_unique(level.component_key, stop);
        std::vector<int32_t> count(level.component_key.size(), 0);
        for (int32_t t = 0; t < n; ++t) {
            stop.check();
            level.component.push_back(find(level.component_key, component_key(t)));
            ++count[level.component.back()];
        }
        std::vector<int32_t> next(count.size());
        std::exclusive_scan(count.begin(), count.end(), next.begin(), n_terms);
        for (int32_t t = 0; t < n; ++t) level.id.push_back(next[level.component[t]]++);
        for (const auto c : count) {
            component_size_.push_back(size);
            component_slot_begin_.push_back(static_cast<int64_t>(term_atom_.size()));
            component_term_begin_.push_back(component_term_begin_.back() + c);
            term_atom_.resize(term_atom_.size() + static_cast<std::size_t>(c) * size);
        }
        for (auto& c : level.component) c += n_components;  // from here on numbered through
        n_components += index_of(count.size());
        n_terms += n;

        level.without.resize(static_cast<std::size_t>(n) * size);
        for (int32_t t = 0; t < n; ++t) {
            stop.check();
            auto* without = level.without.data() + static_cast<int64_t>(t) * size;
            without[size - 1] = level.prefix(t);
            for (int32_t slot = 0; slot + 1 < size; ++slot) {
                const auto shorter =
                    before->without[static_cast<int64_t>(level.prefix(t)) * (size - 1) + slot];
                without[slot] = find(before->key, pack(shorter, level.atom(t)));
            }
        }
    }
    link_terms(levels, n_terms, stop);
    link_components(levels);
    for (int32_t c = 0; c < n_components; ++c)
        for (int32_t slot = 0; slot < component_size_[c]; ++slot)
            component_feature_[component_feature_begin_[c] + slot] =
                atom_feature_[term_atom_[component_slot_begin_[c] + slot]];
}

// Writes down each term's atoms, and the terms that lack one of them; those of one atom lead to the empty
// term.
void Plan::link_terms(const std::vector<Level>& levels, int32_t empty_term, const Stop& stop) {
    term_parent_.resize(term_atom_.size());
    for (std::size_t k = 0; k < levels.size(); ++k) {
        const auto& level = levels[k];
        const auto size = index_of(k) + 1;
        for (int32_t t = 0; t < index_of(level.key.size()); ++t) {
            stop.check();
            const auto c = level.component[t];
            const auto at = component_slot_begin_[c] +
                            static_cast<int64_t>(level.id[t] - component_term_begin_[c]) * size;
            int32_t node = t;
            for (int32_t slot = size - 1, j = index_of(k); slot >= 0; --slot, --j) {
                term_atom_[at + slot] = levels[j].atom(node);
                node = levels[j].prefix(node);
            }
            for (int32_t slot = 0; slot < size; ++slot)
                term_parent_[at + slot] =
                    k ? levels[k - 1].id[level.without[static_cast<int64_t>(t) * size + slot]] : empty_term;
        }
    }
}

void Plan::link_components(const std::vector<Level>& levels) {
    component_feature_begin_.push_back(0);
    for (const auto size : component_size_)
        component_feature_begin_.push_back(component_feature_begin_.back() + size);
    component_feature_.resize(static_cast<std::size_t>(component_feature_begin_.back()));
    component_parent_.assign(component_feature_.size(), -1);
    for (std::size_t k = 1; k < levels.size(); ++k)
        for (std::size_t t = 0; t < levels[k].key.size(); ++t) {
            const auto c = levels[k].component[t];
            for (std::size_t slot = 0; slot <= k; ++slot) {
                const auto parent = levels[k - 1].component[levels[k].without[t * (k + 1) + slot]];
                component_parent_[component_feature_begin_[c] + slot] = parent;
            }
        }
}

void Plan::list_children() {
    const auto n = component_size_.size();
    component_child_begin_.assign(n + 1, 0);
    for (const auto parent : component_parent_)
        if (parent >= 0) ++component_child_begin_[static_cast<std::size_t>(parent) + 1];
    std::partial_sum(component_child_begin_.begin(), component_child_begin_.end(),
                     component_child_begin_.begin());
    component_child_feature_.resize(static_cast<std::size_t>(component_child_begin_.back()));
    auto next = component_child_begin_;
    for (std::size_t i = 0; i < component_parent_.size(); ++i)
        if (const auto parent = component_parent_[i]; parent >= 0)
            component_child_feature_[next[parent]++] = component_feature_[i];
}

namespace {

std::vector<int32_t> distinct_of(const std::vector<SweptTerm>& terms, int32_t SweptTerm::* atom) {
    std::vector<int32_t> found;
    for (const auto& t : terms) found.push_back(t.*atom);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

}  // namespace

void Plan::choose_sweeps(const Cells& cells) {
    component_levels_.assign(component_size_.size(), 0);
    component_cells_.assign(component_size_.size(), 0);
    swept_term_.resize(static_cast<std::size_t>(component_term_begin_.back()));
    for (std::size_t c = 0; c < component_size_.size(); ++c) {
        if (component_size_[c] <= 2 && component_has_sets_[c]) sweep_cells(c, cells);
        if (component_size_[c] == 2 && !component_has_sets_[c]) sweep_levels(c);
    }
}

// One categorical feature, alone or with a numeric one: summed over its cells, if they are few.
void Plan::sweep_cells(std::size_t c, const Cells& cells) {
    const auto first = component_term_begin_[c], n = component_term_begin_[c + 1] - first;
    const auto size = component_size_[c];
    const auto* feature = component_feature_.data() + component_feature_begin_[c];
    const auto slot = cells.categorical(feature[0]) ? 0 : 1;
    if ((size == 2 && cells.categorical(feature[1 - slot])) || cells.count(feature[slot]) > n) return;
    const auto* atom = term_atom_.data() + component_slot_begin_[c];
    std::vector<SweptTerm> terms;
    for (int32_t t = 0; t < n; ++t)
        terms.push_back({first + t, atom[size * t + slot], size == 2 ? atom[size * t + 1 - slot] : 0, 0});
    finish_sweep(c, terms, distinct_of(terms, &SweptTerm::other));
    component_cells_[c] = feature[slot] + 1;
}

void Plan::sweep_levels(std::size_t c) {
    constexpr int32_t kFewTerms = 32;  // fewer are paired faster than swept
    const auto first = component_term_begin_[c], n = component_term_begin_[c + 1] - first;
    if (n < kFewTerms) return;
    const auto* atom = term_atom_.data() + component_slot_begin_[c];
    std::vector<SweptTerm> terms;
    for (int32_t t = 0; t < n; ++t) terms.push_back({first + t, atom[2 * t], atom[2 * t + 1], 0});
    auto levels = distinct_of(terms, &SweptTerm::other);
    if (auto others = distinct_of(terms, &SweptTerm::lead); others.size() < levels.size()) {
        levels = std::move(others);
        for (auto& t : terms) std::swap(t.lead, t.other);
        std::stable_sort(terms.begin(), terms.end(),
                         [](const SweptTerm& s, const SweptTerm& t) { return s.lead < t.lead; });
    }
    finish_sweep(c, terms, levels);
}

void Plan::finish_sweep(std::size_t c, std::vector<SweptTerm>& terms, const std::vector<int32_t>& levels) {
    for (auto& t : terms)
        t.level = index_of(static_cast<std::size_t>(std::lower_bound(levels.begin(), levels.end(), t.other) -
                                                    levels.begin()));
    component_levels_[c] = index_of(levels.size());
    std::copy(terms.begin(), terms.end(), swept_term_.begin() + component_term_begin_[c]);
}

// The pairs of sets whose joint masses some component needs.
void Plan::mark_pairs(const SetAtoms& sets) {
    std::vector<int64_t> pair_begin{0};
    for (std::size_t q = 0; q + 1 < sets.begin.size(); ++q) {
        const int64_t n = sets.begin[q + 1] - sets.begin[q];
        pair_begin.push_back(pair_begin.back() + n * (n + 1) / 2);
    }
    set_pairs_.assign(static_cast<std::size_t>(pair_begin.back()), false);
    for (std::size_t c = 0; c < component_size_.size(); ++c) {
        if (!component_has_sets_[c] || component_cells_[c]) continue;
        const int64_t size = component_size_[c], n = component_term_begin_[c + 1] - component_term_begin_[c];
        for (int64_t slot = 0; slot < size; ++slot) {
            const auto q = component_feature_[component_feature_begin_[c] + slot];
            if (sets.begin[q] == sets.begin[q + 1]) continue;
            std::vector<int64_t> used;
            for (int64_t t = 0; t < n; ++t)
                used.push_back(term_atom_[component_slot_begin_[c] + t * size + slot] - sets.begin[q]);
            std::sort(used.begin(), used.end());
            used.erase(std::unique(used.begin(), used.end()), used.end());
            for (const auto i : used)
                for (const auto j : used)
                    if (j <= i) set_pairs_[pair_begin[q] + i * (i + 1) / 2 + j] = true;
        }
    }
}

void Plan::list_uses(int32_t n_features) {
    feature_use_begin_.assign(static_cast<std::size_t>(n_features) + 1, 0);
    for (const auto q : component_feature_) ++feature_use_begin_[q + 1];
    std::partial_sum(feature_use_begin_.begin(), feature_use_begin_.end(), feature_use_begin_.begin());
    use_component_.resize(component_feature_.size());
    use_slot_.resize(component_feature_.size());
    auto next = feature_use_begin_;
    for (int32_t c = 0; c < index_of(component_size_.size()); ++c)
        for (int32_t slot = 0; slot < component_size_[c]; ++slot) {
            const auto at = next[component_feature_[component_feature_begin_[c] + slot]]++;
            use_component_[at] = c;
            use_slot_[at] = slot;
        }
}

void Plan::expose(const EnsembleView& e, const Atoms& atoms, const SetAtoms& sets) {
    int64_t scratch = 1;
    int32_t most_levels = 0;
    for (std::size_t c = 0; c < component_levels_.size(); ++c) {
        const int64_t n = component_term_begin_[c + 1] - component_term_begin_[c], k = component_levels_[c];
        scratch = std::max({scratch, 6 * level_nodes(k), 2 * n + 5 * k});
        most_levels = std::max(most_levels, component_levels_[c]);
    }
    int32_t widest = 0;
    for (std::size_t c = 0; c < component_size_.size(); ++c)
        scratch = std::max<int64_t>(
            scratch, static_cast<int64_t>(component_term_begin_[c + 1] - component_term_begin_[c]) *
                         (1 + 3 * component_size_[c]));
    for (std::size_t box = 0; box + 1 < box_literal_begin_.size(); ++box)
        widest = std::max(widest, box_literal_begin_[box + 1] - box_literal_begin_[box]);
    view_ = {.n_features = e.n_features,
             .n_atoms = atoms.size() + sets.size(),
             .n_thresholds = atoms.size(),
             .n_literals = index_of(literal_feature_.size()),
             .n_boxes = index_of(box_literal_begin_.size()) - 1,
             .n_trees = index_of(e.root.size()),
             .n_components = index_of(component_size_.size()),
             .n_terms = component_term_begin_.back(),
             .widest_box = widest,
             .most_levels = most_levels,
             .widest_scratch = scratch,
             .atom_begin = atoms.begin.data(),
             .atom_threshold = atoms.threshold.data(),
             .set_atom_begin = sets.begin.data(),
             .cell_begin = e.cells->begin.data(),
             .set_word_begin = sets.word_begin.data(),
             .set_word = sets.words.data(),
             .literal_feature = literal_feature_.data(),
             .literal_lo = literal_lo_.data(),
             .literal_hi = literal_hi_.data(),
             .literal_numeric = literal_numeric_.data(),
             .literal_missing = literal_missing_.data(),
             .box_literal_begin = box_literal_begin_.data(),
             .box_literal = box_literal_.data(),
             .box_member_begin = box_member_begin_.data(),
             .member_tree = member_tree_.data(),
             .member_value = member_value_.data(),
             .tree_leaf_begin = tree_leaf_begin_.data(),
             .leaf_box = leaf_box_.data(),
             .leaf_value = leaf_value_.data(),
             .box_group_begin = box_group_begin_.data(),
             .group_component = group_component_.data(),
             .group_entry_begin = group_entry_begin_.data(),
             .entry = entry_.data(),
             .component_size = component_size_.data(),
             .component_feature_begin = component_feature_begin_.data(),
             .component_feature = component_feature_.data(),
             .component_parent = component_parent_.data(),
             .component_child_begin = component_child_begin_.data(),
             .component_child_feature = component_child_feature_.data(),
             .component_levels = component_levels_.data(),
             .component_cells = component_cells_.data(),
             .component_has_sets = component_has_sets_.data(),
             .component_term_begin = component_term_begin_.data(),
             .component_slot_begin = component_slot_begin_.data(),
             .term_atom = term_atom_.data(),
             .term_parent = term_parent_.data(),
             .swept_term = swept_term_.data(),
             .feature_use_begin = feature_use_begin_.data(),
             .use_component = use_component_.data(),
             .use_slot = use_slot_.data()};
}

}  // namespace predgap
