#include "terms/plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "terms/term_store.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint32_t;

// Collects the boxes of all leaves, and multiplies them out.
class Plan::Builder {
public:
    Builder(Plan& plan, const std::function<void()>& check)
        : p_(plan), check_(check), store_(plan.model_), literal_(static_cast<std::size_t>(plan.model_.n_features())) {
        store_.clear(1);
    }

    bool run() {
        for (std::size_t t = 0; t < p_.group_.root.size(); ++t) {
            check_();
            if (!collect(static_cast<int32_t>(t))) return false;
        }
        for (const auto& [literals, members] : found_) {
            check_();
            add_box(literals, members);
            if (p_.entry_.size() > kMostEntries) return false;
        }
        Buffer<double> weights;
        store_.lay_out(p_.terms_, weights);
        p_.terms_.width = p_.group_.width;
        p_.terms_.most_scratch = 0;
        for (auto& e : p_.entry_) e = store_.place[e / 2] * 2 + e % 2;
        p_.component_of_.assign(static_cast<std::size_t>(p_.terms_.n_weights), 0);
        for (int32_t c = 0; c < p_.terms_.n_components(); ++c) {
            const auto& own = p_.terms_.component[c];
            std::fill_n(p_.component_of_.begin() + own.first_term, own.stride, c);
            p_.terms_.most_scratch = std::max(
                p_.terms_.most_scratch, store_.scratch_of(own, p_.terms_.feature.data(), p_.group_.width));
        }
        return true;
    }

private:
    struct Step {
        int32_t node, feature;  // or -1 at a root
        Literal literal;
        bool undo;
    };

    // The leaves of one tree with their literals; false if there are too many.
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

    void add_box(const std::vector<Literal>& literals, const std::vector<Member>& members) {
        Box box{static_cast<int32_t>(p_.box_literal_.size()), static_cast<int32_t>(literals.size()),
                static_cast<int32_t>(p_.member_.size()),      static_cast<int32_t>(members.size()),
                static_cast<int32_t>(p_.parts_.size()),       0};
        for (const auto& l : literals) {
            const auto [at, is_new] = number_.try_emplace(l, static_cast<int32_t>(p_.literals_.size()));
            if (is_new) p_.literals_.push_back(l);
            p_.box_literal_.push_back(at->second);
        }
        p_.member_.insert(p_.member_.end(), members.begin(), members.end());
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
        p_.boxes_.push_back(box);
    }

    // A literal that is forced gives its lower bound, any other the only one, or of two the upper.
    void add_part(const std::vector<Literal>& literals, uint32_t forced) {
        const auto first = p_.entry_.size();
        p_.parts_.push_back({forced, static_cast<int64_t>(first)});
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
    std::map<std::vector<Literal>, std::vector<Member>> found_;
    std::map<Literal, int32_t> number_;
    double n_entries_ = 0.0;
};

std::unique_ptr<Plan> Plan::make(const Model& model, const TreeGroup& group,
                                 const std::function<void()>& check) {
    std::unique_ptr<Plan> plan(new Plan(model, group));
    return Builder(*plan, check).run() ? std::move(plan) : nullptr;
}

void Plan::test_literals(const RowTables& tables, Buffer<std::uint8_t>& state) const {
    state.reset(static_cast<int64_t>(literals_.size()));
    const auto n_thresholds = model_.n_thresholds();
    for (std::size_t i = 0; i < literals_.size(); ++i) {
        const auto& l = literals_[i];
        const auto q = l.feature;
        bool passes = l.is_passable();
        if (tables.missing[q]) {
            passes = l.missing;
        } else if (passes && (l.lo >= n_thresholds || l.hi >= n_thresholds)) {
            const auto* cells = model_.set_atoms.bits(std::max(l.lo, l.hi) - n_thresholds);
            passes = holds(cells, static_cast<int32_t>(tables.x[q])) == (l.hi >= 0);
        } else if (passes) {
            passes = l.lo < tables.first_above[q] && (l.hi < 0 || l.hi >= tables.first_above[q]);
        }
        const bool open = tables.is_open[q] && l.is_passable() && (l.lo >= 0 || l.hi >= 0);
        state[static_cast<int64_t>(i)] = static_cast<std::uint8_t>((passes ? 0 : kFails) | (open ? kOpen : 0));
    }
}

// Which of a box's literals x fails, and which it may cross; false if the box cannot be reached.
bool Plan::masks(const Box& box, const Scratch& scratch, uint32_t& fails, uint32_t& open) const {
    fails = open = 0;
    const auto* literal = box_literal_.data() + box.literals;
    for (int32_t j = 0; j < box.n_literals; ++j) {
        const uint32_t state = scratch.literal[literal[j]];
        fails |= (state & kFails) << j;
        open |= (state >> 1) << j;
    }
    return (fails & ~open) == 0;
}

// What reaching the box changes; false if nothing. Residuals, not leaf values: large values that cancel cost
// no digits.
bool Plan::residual(const Box& box, Scratch& scratch) const {
    const auto width = group_.width;
    bool any = false;
    for (int32_t k = 0; k < width; ++k) {
        double sum = 0.0;
        for (auto i = box.members; i < box.members + box.n_members; ++i) {
            const auto& m = member_[static_cast<std::size_t>(i)];
            sum += group_.value[static_cast<std::size_t>(m.value + k)] -
                   scratch.value[int64_t{m.tree} * width + k];
        }
        scratch.change[k] = sum;
        any = any || sum != 0.0;
    }
    return any;
}

void Plan::spread(const RowTables& tables, Scratch& scratch, Buffer<double>& weights) const {
    const auto width = group_.width;
    const int64_t n_weights = terms_.n_weights;
    test_literals(tables, scratch.literal);
    scratch.change.reset(width);
    scratch.value.reset(static_cast<int64_t>(group_.root.size()) * width);
    for (std::size_t t = 0; t < group_.root.size(); ++t) {
        auto at = group_.root[t];
        while (group_.node[static_cast<std::size_t>(at)].feature != kLeaf) {
            const auto& node = group_.node[static_cast<std::size_t>(at)];
            at = tables.goes_left(group_, node) ? at + 1 : node.right;
        }
        std::copy_n(group_.value.data() + group_.node[static_cast<std::size_t>(at)].right, width,
                    scratch.value.data() + static_cast<int64_t>(t) * width);
    }
    weights.reset(width * n_weights, 0.0);
    for (const auto& box : boxes_) {
        uint32_t fails, open;
        if (!masks(box, scratch, fails, open) || !residual(box, scratch)) continue;
        for (auto i = box.parts; i < box.parts + box.n_parts; ++i) {
            const auto& part = parts_[static_cast<std::size_t>(i)];
            if (part.forced & ~open) continue;
            const auto* entry = entry_.data() + part.entries;
            const uint32_t needed = fails | part.forced, free = open & ~needed;
            for (auto set = free;; set = (set - 1) & free) {
                const auto e = entry[needed | set];
                for (int32_t k = 0; k < width; ++k)
                    weights[k * n_weights + e / 2] += e % 2 ? -scratch.change[k] : scratch.change[k];
                if (set == 0) break;
            }
        }
    }
    for (int32_t k = 0; k < width; ++k) weights[k * n_weights] = 0.0;
}

void Plan::error_scales(const RowTables& tables, Scratch& scratch, Buffer<double>& scale) const {
    scale.reset(terms_.n_components(), 0.0);
    const auto n_trees = static_cast<double>(group_.root.size());
    for (const auto& box : boxes_) {
        uint32_t fails, open;
        if (!masks(box, scratch, fails, open) || !residual(box, scratch) || fails == 0) continue;
        double size = 0.0;
        for (int32_t k = 0; k < group_.width; ++k) size += scratch.change[k] * scratch.change[k];
        for (int32_t j = 0; j < box.n_literals; ++j)
            if (fails >> j & 1) {
                const auto& l = literals_[static_cast<std::size_t>(box_literal_[static_cast<std::size_t>(box.literals + j)])];
                size *= std::max(l.lo < 0 ? 0.0 : tables.reach(l.lo), l.hi < 0 ? 0.0 : tables.reach(l.hi));
            }
        const auto e = entry_[static_cast<std::size_t>(parts_[static_cast<std::size_t>(box.parts)].entries + fails)];
        scale[component_of_[static_cast<std::size_t>(e / 2)]] += n_trees * box.n_members * size;
    }
}

double Plan::largest_change(const Scratch& scratch) const {
    double sum = 0.0;
    for (std::size_t t = 0; t < group_.root.size(); ++t) {
        double square = 0.0;
        for (int32_t k = 0; k < group_.width; ++k) {
            const auto at = t * static_cast<std::size_t>(group_.width) + static_cast<std::size_t>(k);
            const double value = scratch.value[static_cast<int64_t>(at)];
            const double most = std::max(group_.most[at] - value, value - group_.least[at]);
            square += most * most;
        }
        sum += std::sqrt(square);
    }
    return sum;
}

double Plan::n_pairs(const std::uint8_t* subset) const {
    double sum = 0.0;
    for (int32_t c = 1; c < terms_.n_components(); ++c) {
        const auto& own = terms_.component[c];
        const auto* feature = terms_.feature.data() + own.features;
        if (subset && !std::all_of(feature, feature + own.size, [&](int32_t q) { return subset[q]; })) continue;
        const double n = own.n_terms;
        sum += own.size == 1 ? n : 0.5 * own.size * n * (n + 1.0);
    }
    return sum;
}

double Plan::bytes() const {
    return terms_.bytes() + static_cast<double>(entry_.size() * sizeof(entry_[0]) +
                                                boxes_.size() * sizeof(Box) + parts_.size() * sizeof(Part));
}

}  // namespace predgap
