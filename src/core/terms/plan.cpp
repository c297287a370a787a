#include "terms/plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

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
        Buffer<double> weights;
        store_.lay_out(p_.terms_, weights);
        p_.terms_.width = p_.group_.width;
        p_.terms_.most_scratch = 0;
        list_edges(p_.terms_);
        place_grams(p_.terms_);
        for (auto& e : p_.entry_) e = store_.place[e / 2] * 2 + e % 2;
        p_.component_of_.assign(static_cast<std::size_t>(p_.terms_.n_weights), 0);
        for (int32_t c = 0; c < p_.terms_.n_components(); ++c) {
            const auto& own = p_.terms_.component[c];
            std::fill_n(p_.component_of_.begin() + own.first_term, own.stride, c);
            p_.terms_.most_scratch = std::max(
                p_.terms_.most_scratch, store_.scratch_of(own, p_.terms_.feature.data(), p_.group_.width));
        }
        p_.mark_features();
        p_.n_terms_ = p_.count(nullptr).terms;
        GridChoice choice(p_.model_);
        for (int32_t c = 1; c < p_.terms_.n_components(); ++c)
            if (const auto& own = p_.terms_.component[c]; own.has_sets)
                p_.set_form_.emplace_back(c, choice.choose(p_.terms_, own, CellRule::cheapest).nanoseconds);
        return true;
    }

private:
    struct Member {
        int32_t tree, value;  // where its values begin
    };
    using Found = std::map<std::vector<Literal>, std::vector<Member>>;

    // Boxes with as many literals and leaves follow each other: how often loops over them run is foreseen.
    std::vector<const Found::value_type*> alike_together() const {
        std::vector<const Found::value_type*> boxes;
        for (const auto& box : found_) boxes.push_back(&box);
        std::stable_sort(boxes.begin(), boxes.end(), [](const auto* a, const auto* b) {
            return std::pair(a->first.size(), a->second.size()) <
                   std::pair(b->first.size(), b->second.size());
        });
        return boxes;
    }

    // Each round has one edge of every parent: neighbours do not write the same weight.
    void list_edges(RowTerms& terms) {
        const auto d = p_.model_.n_features();
        terms.edge_begin.reset(d + 1, 0);
        terms.edge.clear();
        std::vector<int32_t> n_seen(static_cast<std::size_t>(terms.n_weights));
        std::vector<std::pair<int32_t, Edge>> found;  // round and edge
        for (int32_t q = 0; q < d; ++q) {
            terms.edge_begin[q] = static_cast<int32_t>(terms.edge.size());
            found.clear();
            for (auto u = terms.use_begin[q]; u < terms.use_begin[q + 1]; ++u) {
                const auto& c = terms.component[terms.use[u].component];
                const auto at = c.slots + int64_t{terms.use[u].slot} * c.stride;
                for (int32_t t = 0; t < c.n_terms; ++t) {
                    const Edge edge{c.first_term + t, terms.parent[at + t], terms.atom[at + t]};
                    found.emplace_back(n_seen[static_cast<std::size_t>(edge.parent)]++, edge);
                }
            }
            for (const auto& [round, edge] : found) n_seen[static_cast<std::size_t>(edge.parent)] = 0;
            std::stable_sort(found.begin(), found.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
            for (const auto& [round, edge] : found) terms.edge.push(edge);
        }
        terms.edge_begin[d] = static_cast<int32_t>(terms.edge.size());
    }

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
        p_.boxes_.push_back(box);
    }

    // A literal that is forced gives its lower bound, any other the only one, or of two the upper.
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

// The literals of one feature, by the place of x among its atoms.
void Plan::test_numbers(int32_t q, int32_t above, uint32_t open, uint32_t* state) const {
    const auto first = literal_begin_[static_cast<std::size_t>(q)],
               last = literal_begin_[static_cast<std::size_t>(q) + 1];
    for (auto i = first; i < last; ++i) {
        const auto& l = literals_[static_cast<std::size_t>(i)];
        const bool passes = (l.lo < above) & ((l.hi < 0) | (l.hi >= above));
        state[i] = (passes ? 0 : kFails) | (is_bounded_[static_cast<std::size_t>(i)] & open);
    }
}

void Plan::test_categories(const RowTables& tables, int32_t q, uint32_t open, uint32_t* state) const {
    const auto first = literal_begin_[static_cast<std::size_t>(q)],
               last = literal_begin_[static_cast<std::size_t>(q) + 1];
    for (auto i = first; i < last; ++i) {
        const auto& l = literals_[static_cast<std::size_t>(i)];
        bool passes = l.is_passable();
        if (passes && (l.lo >= 0 || l.hi >= 0)) {
            const auto* cells = model_.set_atoms.bits(std::max(l.lo, l.hi) - model_.n_thresholds());
            passes = holds(cells, static_cast<int32_t>(tables.x[q])) == (l.hi >= 0);
        }
        state[i] = (passes ? 0 : kFails) | (is_bounded_[static_cast<std::size_t>(i)] & open);
    }
}

void Plan::test_literals(const RowTables& tables, Buffer<uint32_t>& state) const {
    state.reset(static_cast<int64_t>(literals_.size()));
    for (const auto q : model_.features) {
        const auto open = tables.is_open[q] ? kOpen : 0;
        if (!tables.missing[q]) {
            model_.cells.categorical(q) ? test_categories(tables, q, open, state.data())
                                        : test_numbers(q, tables.first_above[q], open, state.data());
            continue;
        }
        for (auto i = literal_begin_[static_cast<std::size_t>(q)];
             i < literal_begin_[static_cast<std::size_t>(q) + 1]; ++i)
            state[i] = literals_[static_cast<std::size_t>(i)].missing ? 0 : kFails;
    }
}

// Tests all boxes; that which x is in, one of each tree, gives the tree's value.
void Plan::test_boxes(Scratch& scratch) const {
    const auto width = group_.width;
    scratch.value.reset(static_cast<int64_t>(group_.root.size()) * width);
    scratch.mask.reset(static_cast<int64_t>(boxes_.size()));
    const uint32_t* state = scratch.literal.data();
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
        const auto& box = boxes_[b];
        const auto* literal = box_literal_.data() + box.literals;
        uint32_t mask = 0;
        for (int32_t j = 0; j < box.n_literals; ++j) mask |= state[literal[j]] << j;
        scratch.mask[static_cast<int64_t>(b)] = {mask % kOpen, mask / kOpen};
        if (mask % kOpen) continue;
        for (auto i = box.members; i < box.members + box.n_members; ++i) {
            const double* value = member_value_.data() + int64_t{i} * width;
            double* at = scratch.value.data() + int64_t{member_tree_[static_cast<std::size_t>(i)]} * width;
            for (int32_t k = 0; k < width; ++k) at[k] = value[k];
        }
    }
}

// Lists the boxes that the noise can reach, but for those that x is in, and what reaching each of them
// changes. Residuals, not leaf values: large values that cancel cost no digits.
int64_t Plan::find_reached(Scratch& scratch) const {
    const auto width = group_.width;
    scratch.reached.reset(static_cast<int64_t>(boxes_.size()) + 1);
    int64_t n = 0;
    for (int32_t b = 0; b < static_cast<int32_t>(boxes_.size()); ++b) {
        scratch.reached[n] = b;
        n += (scratch.mask[b].fails != 0) & !(scratch.mask[b].fails & ~scratch.mask[b].open);
    }
    scratch.change.reset(static_cast<int64_t>(boxes_.size()) * width);
    for (int64_t r = 0; r < n; ++r) {
        const auto b = scratch.reached[r];
        const auto& box = boxes_[static_cast<std::size_t>(b)];
        for (int32_t k = 0; k < width; ++k) {
            const auto residual = [&](int32_t i) {
                const auto tree = int64_t{member_tree_[static_cast<std::size_t>(i)]};
                return member_value_[static_cast<std::size_t>(int64_t{i} * width + k)] -
                       scratch.value[tree * width + k];
            };
            double sum[2] = {0.0, 0.0};  // two additions at a time
            auto i = box.members;
            for (; i + 1 < box.members + box.n_members; i += 2) {
                sum[0] += residual(i);
                sum[1] += residual(i + 1);
            }
            if (i < box.members + box.n_members) sum[0] += residual(i);
            scratch.change[int64_t{b} * width + k] = sum[0] + sum[1];
        }
    }
    return n;
}

namespace {

// A part of a box with the literals it needs and those that are free, packed.
constexpr int kMaskBits = 12;
constexpr int64_t packed(int64_t part, uint32_t needed, uint32_t free) {
    return part << (2 * kMaskBits) | int64_t{needed} << kMaskBits | free;
}

// Bits of a mask: not every processor that this is compiled for counts them itself.
constexpr auto kBitCount = [] {
    std::array<std::uint8_t, 1 << kMaskBits> count{};
    for (std::size_t i = 1; i < count.size(); ++i) count[i] = static_cast<std::uint8_t>(count[i / 2] + i % 2);
    return count;
}();

}  // namespace

void Plan::spread(const RowTables& tables, Scratch& scratch, Buffer<double>& weights) const {
    constexpr int kBuckets = 6;  // parts with 0 ... 4 free literals, and with more
    static_assert(kMostLiterals <= kMaskBits);
    test_literals(tables, scratch.literal);
    test_boxes(scratch);
    const auto n_reached = find_reached(scratch);
    const auto n_parts = static_cast<int64_t>(parts_.size());
    scratch.job.reset((kBuckets + 1) * n_parts);
    int64_t* job = scratch.job.data();
    int64_t n_jobs[kBuckets + 1] = {};  // the last are those that cannot be reached
    for (int64_t r = 0; r < n_reached; ++r) {
        const auto& box = boxes_[static_cast<std::size_t>(scratch.reached[r])];
        const auto [fails, open] = scratch.mask[scratch.reached[r]];
        for (auto i = box.parts; i < box.parts + box.n_parts; ++i) {
            const auto needed = fails | parts_[static_cast<std::size_t>(i)].forced, free = open & ~needed;
            const int bucket = needed & ~open ? kBuckets : std::min<int>(kBitCount[free], kBuckets - 1);
            job[bucket * n_parts + n_jobs[bucket]++] = packed(i, needed, free);
        }
    }
    weights.reset(int64_t{group_.width} * terms_.n_weights, 0.0);
    double* w = weights.data();
    spread_parts<0>(scratch, job, n_jobs[0], w);
    spread_parts<1>(scratch, job + n_parts, n_jobs[1], w);
    spread_parts<2>(scratch, job + 2 * n_parts, n_jobs[2], w);
    spread_parts<3>(scratch, job + 3 * n_parts, n_jobs[3], w);
    spread_parts<4>(scratch, job + 4 * n_parts, n_jobs[4], w);
    for (int64_t i = 0; i < n_jobs[5]; ++i) spread_part(scratch, job[5 * n_parts + i], w);
    for (int32_t k = 0; k < group_.width; ++k) w[int64_t{k} * terms_.n_weights] = 0.0;
}

// Parts with this many free literals: their sets are all numbers up to 2^kFree, spread over the free bits.
template <int kFree>
void Plan::spread_parts(const Scratch& scratch, const int64_t* job, int64_t n, double* weights) const {
    if (group_.width != 1) {
        for (int64_t i = 0; i < n; ++i) spread_part(scratch, job[i], weights);
        return;
    }
    constexpr uint32_t kMask = (1u << kMaskBits) - 1;
    for (int64_t i = 0; i < n; ++i) {
        const auto part = static_cast<std::size_t>(job[i] >> (2 * kMaskBits));
        const auto needed = static_cast<uint32_t>(job[i] >> kMaskBits) & kMask;
        const auto free = static_cast<uint32_t>(job[i]) & kMask;
        const double change[2] = {scratch.change[part_box_[part]], -scratch.change[part_box_[part]]};
        const auto* entry = entry_.data() + parts_[part].entries;
        uint32_t set = free;
        for (int s = 0; s < 1 << kFree; ++s, set = (set - 1) & free) {
            const auto e = entry[needed | set];
            weights[e >> 1] += change[e & 1];
        }
    }
}

void Plan::spread_part(const Scratch& scratch, int64_t job, double* weights) const {
    constexpr uint32_t kMask = (1u << kMaskBits) - 1;
    const auto part = static_cast<std::size_t>(job >> (2 * kMaskBits));
    const auto needed = static_cast<uint32_t>(job >> kMaskBits) & kMask,
               free = static_cast<uint32_t>(job) & kMask;
    const auto width = group_.width;
    const double* change = scratch.change.data() + int64_t{part_box_[part]} * width;
    const auto* entry = entry_.data() + parts_[part].entries;
    for (auto set = free;; set = (set - 1) & free) {
        const auto e = entry[needed | set];
        for (int32_t k = 0; k < width; ++k)
            weights[int64_t{k} * terms_.n_weights + (e >> 1)] += e & 1 ? -change[k] : change[k];
        if (set == 0) break;
    }
}

void Plan::error_scales(const RowTables& tables, const Scratch& scratch, Buffer<double>& scale) const {
    scale.reset(terms_.n_components(), 0.0);
    const auto n_trees = static_cast<double>(group_.root.size());
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
        const auto& box = boxes_[b];
        const auto [fails, open] = scratch.mask[static_cast<int64_t>(b)];
        if ((fails & ~open) || fails == 0) continue;
        double size = 0.0;
        for (int32_t k = 0; k < group_.width; ++k) {
            const double change = scratch.change[static_cast<int64_t>(b) * group_.width + k];
            size += change * change;
        }
        for (int32_t j = 0; j < box.n_literals; ++j)
            if (fails >> j & 1) {
                const auto& l = literals_[static_cast<std::size_t>(
                    box_literal_[static_cast<std::size_t>(box.literals + j)])];
                size *= std::max(l.lo < 0 ? 0.0 : tables.reach(l.lo), l.hi < 0 ? 0.0 : tables.reach(l.hi));
            }
        const auto e = entry_[static_cast<std::size_t>(parts_[static_cast<std::size_t>(box.parts)].entries +
                                                       static_cast<int32_t>(fails))];
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

bool Plan::has_all(const Component& c, const std::uint8_t* subset) const {
    const auto* feature = terms_.feature.data() + c.features;
    return !subset || std::all_of(feature, feature + c.size, [&](int32_t q) { return subset[q]; });
}

namespace {

std::uint64_t bit_of(int32_t feature) { return std::uint64_t{1} << (feature % 64); }

}  // namespace

void Plan::mark_features() {
    for (int32_t c = 0; c < terms_.n_components(); ++c) {
        const auto& own = terms_.component[c];
        std::uint64_t bits = 0;
        for (int32_t i = 0; i < own.size; ++i) bits |= bit_of(terms_.feature[own.features + i]);
        feature_bits_.push_back(bits);
    }
}

// Large plans have many components, few of them of the subset: they are told by one number each, as a rule.
Plan::Counts Plan::count(const std::uint8_t* subset) const {
    std::uint64_t moving = 0;
    for (const auto q : model_.features)
        if (!subset || subset[q]) moving |= bit_of(q);
    Counts sum;
    for (int32_t c = 1; c < terms_.n_components(); ++c) {
        if (feature_bits_[static_cast<std::size_t>(c)] & ~moving) continue;
        const auto& own = terms_.component[c];
        if (!has_all(own, subset)) continue;
        const double n = own.n_terms;
        sum.terms += n;
        if (!own.has_sets) sum.pairs += own.size == 1 ? n : 0.5 * own.size * n * (n + 1.0);
    }
    return sum;
}

double Plan::set_forms(const std::uint8_t* subset) const {
    double sum = 0.0;
    for (const auto& [c, nanoseconds] : set_form_)
        if (has_all(terms_.component[c], subset)) sum += nanoseconds;
    return sum;
}

double Plan::bytes() const {
    return terms_.bytes() + static_cast<double>(entry_.size() * sizeof(entry_[0]) +
                                                boxes_.size() * sizeof(Box) + parts_.size() * sizeof(Part));
}

}  // namespace predgap
