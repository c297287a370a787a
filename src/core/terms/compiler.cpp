// Walks the trees of a row, multiplies out the boxes of their turns, and merges equal terms.
#include "terms/compiler.hpp"

#include <algorithm>
#include <cmath>

namespace predgap {

using std::int32_t;
using std::int64_t;

Compiler::Compiler(const Model& model, const TreeGroup& group)
    : model_(model),
      group_(group),
      store_(model),
      leaves_(group),
      main_effects_(model, group, leaves_, store_),
      bounds_(static_cast<std::size_t>(model.n_features())),
      n_bounded_(bounds_.size(), 0),
      left_out_(model) {
    for (auto& box : boxes_) box.change.resize(static_cast<std::size_t>(group.width));
}

void Compiler::load(const RowTables& tables, RowWork& work) {
    tables_ = &tables;
    work_ = &work;
    leaves_.clear(tables);
}

void Compiler::find_main_effects(RowTerms& terms, Buffer<double>& weights) {
    largest_change_ = 0.0;
    store_.clear(group_.width);
    main_effects_.clear(*tables_);
    for (std::size_t t = 0; t < group_.root.size(); ++t) {
        if (t + 1 < group_.root.size()) prefetch(t + 1);
        largest_change_ += largest_change_of(t);
        if (!work_->stopped()) work_->add(nominal::kWalkedNode * main_effects_.add_tree(group_.root[t]));
    }
    store_.lay_out(terms, weights);
    work_->add(nominal::kCompiledTerm * store_.size());
}

double Compiler::largest_change_of(std::size_t t) {
    double square = 0.0;
    for (int32_t k = 0; k < group_.width; ++k) {
        const double value = group_.value[leaves_(group_.root[t]) + k];
        const auto at = t * static_cast<std::size_t>(group_.width) + static_cast<std::size_t>(k);
        const double most = std::max(group_.most[at] - value, value - group_.least[at]);
        square += most * most;
    }
    return std::sqrt(square);
}

int32_t Compiler::end_of(std::size_t t) const {
    return t + 1 < group_.root.size() ? group_.root[t + 1] : static_cast<int32_t>(group_.node.size());
}

CompileCounts Compiler::count(const Pruning& pruning) {
    return pruning.limit == 0.0 ? run<Mode::count_all>(pruning, {}) : run<Mode::count>(pruning, {});
}

std::size_t Compiler::step_of_counts(std::size_t most) const {
    constexpr std::size_t kFew = 12, kManyNodes = 1 << 15;  // trees; fewer of large ones
    const auto n_trees = std::max<std::size_t>(group_.root.size(), 1);
    const auto nodes_of_tree = std::max<std::size_t>(group_.node.size() / n_trees, 1);
    const auto wanted = std::min(std::clamp(kManyNodes / nodes_of_tree, kFew, kEnoughTrees), most);
    return std::max<std::size_t>(n_trees / wanted, 1);
}

// The tree that is counted for the `step` trees from `first` on. Its place among them is scrambled, because
// sizes of trees may alternate.
std::size_t Compiler::counted_tree(std::size_t first, std::size_t step) const {
    return step == 1 ? first : first + scrambled(first) % std::min(step, group_.root.size() - first);
}

double Compiler::counted_share(std::size_t most) const {
    const auto step = step_of_counts(most);
    int64_t n_nodes = 0;
    for (std::size_t first = 0; first < group_.root.size(); first += step) {
        const auto t = counted_tree(first, step);
        n_nodes += end_of(t) - group_.root[t];
    }
    return n_nodes > 0 ? static_cast<double>(n_nodes) / static_cast<double>(group_.node.size()) : 1.0;
}

CompileCounts Compiler::count_on_some_trees(Pruning pruning, std::size_t most) {
    const auto step = step_of_counts(most);
    const auto share = counted_share(most);
    pruning.most_entries *= share;
    auto counts =
        pruning.limit == 0.0 ? run<Mode::count_all>(pruning, {step}) : run<Mode::count>(pruning, {step});
    for (double* n : {&counts.n_nodes, &counts.n_entries, &counts.mean_error}) *n /= share;
    for (double* n : {&counts.square_error, &counts.product_error}) *n /= share * share;
    return counts;
}

CompileCounts Compiler::compile(const Pruning& pruning, SomeTrees some, RowTerms& terms,
                                Buffer<double>& weights) {
    store_.clear(group_.width);
    box_scale_.clear();
    const auto counts = run<Mode::compile>(pruning, some);
    store_.lay_out(terms, weights);
    work_->hold(RowWork::Arrays::compilation, bytes());  // the components are known now
    return counts;
}

double Compiler::bytes() const {
    const auto of_path = [](const auto&... lists) {
        return (0.0 + ... + static_cast<double>(lists.size() * sizeof(lists[0])));
    };
    return store_.bytes() + box_scale_.used_bytes() + leaves_.bytes() + left_out_.bytes() +
           main_effects_.bytes() + of_path(bounds_, n_bounded_, path_, features_, stack_);
}

void Compiler::error_scales(const RowTerms& terms, Buffer<double>& scale) const {
    scale.reset(terms.n_components(), 0.0);
    const auto n_trees = static_cast<double>(group_.root.size());
    for (const auto& box : box_scale_)
        scale[store_.component_place[store_.component_of(box.term)]] += n_trees * box.scale;
}

template <Compiler::Mode kMode>
CompileCounts Compiler::run(const Pruning& pruning, SomeTrees some) {
    pruning_ = pruning;
    counts_ = {};
    for (auto& box : boxes_) box.entries.clear();
    const bool may_lose = kMode != Mode::count_all && pruning.limit > 0.0;
    if (may_lose) left_out_.clear(*tables_);
    const auto n_trees = group_.root.size(), step = some.step, stride = some.of * step;
    for (std::size_t first = some.which * step; first < n_trees; first += stride) {
        if (work_->stopped() || !counts_.complete) break;
        if (first + stride < n_trees) prefetch(counted_tree(first + stride, step));
        const auto before = counts_;
        const auto n_terms = store_.size();
        walk<kMode>(group_.root[counted_tree(first, step)]);
        count_tree<kMode>(counts_.n_nodes - before.n_nodes, counts_.n_entries - before.n_entries,
                          store_.size() - n_terms);
    }
    if (kMode == Mode::compile) {
        box_ = &other_box();
        merge_pending();
    }
    if (may_lose) {
        counts_.mean_error = left_out_.mean();
        counts_.square_error = left_out_.square();
        counts_.product_error = left_out_.with_boxes();
        work_->add(nominal::kAtomLeftOut * model_.n_atoms());
    }
    return counts_;
}

// Counts the work of a tree, and what its terms take with those before.
template <Compiler::Mode kMode>
void Compiler::count_tree(double n_nodes, double n_entries, double n_terms) {
    const double of_entry = kMode == Mode::count_all
                                ? 0.0
                                : nominal::kEntry + (pruning_.limit > 0.0 ? nominal::kLimitOfEntry : 0.0);
    work_->add(nominal::kWalkedNode * n_nodes + of_entry * n_entries + nominal::kCompiledTerm * n_terms);
    if (kMode == Mode::compile) work_->hold(RowWork::Arrays::compilation, bytes());
}

// Fetches what a walk of a tree reads, from its root on: most of it has left the cache since the last one.
void Compiler::prefetch(std::size_t tree) const {
    const auto first = static_cast<std::size_t>(group_.root[tree]);
    const auto n = std::min<std::size_t>(static_cast<std::size_t>(end_of(tree)) - first, 256);
    prefetch_items(group_.node.data() + first, n);
    prefetch_items(group_.range.data() + first, n);
    leaves_.prefetch(first, n);
    // The values of its leaves come after those of the tree before, whose last node is a leaf.
    const auto value = first ? static_cast<std::size_t>(group_.node[first - 1].right + group_.width) : 0;
    prefetch_items(group_.value.data() + value, n / 2);
}

template <Compiler::Mode kMode>
void Compiler::walk(int32_t root) {
    stack_.assign(1, {root, kNone, {}, {}, false});
    while (!stack_.empty()) {
        const auto visit = stack_.back();
        stack_.pop_back();
        if (visit.feature != kNone) enter(visit);
        if (visit.undo) continue;
        if (counts_.n_entries > pruning_.most_entries || work_->stopped()) counts_.complete = false;
        if (!counts_.complete) continue;  // undoes the path
        auto node = visit.node;
        while (node != kNone && !is_leaf(node)) {
            counts_.n_nodes += 1.0;
            const auto& split = group_.node[node];
            node = tables_->is_open[split.feature]     ? branch<kMode>(node)
                   : tables_->goes_left(group_, split) ? node + 1
                                                       : split.right;
        }
    }
}

// Changes the bounds of a feature for a subtree, or changes them back.
PREDGAP_INLINE void Compiler::enter(const Visit& visit) {
    const auto q = visit.feature;
    if (!visit.undo) {
        stack_.push_back({visit.node, q, bounds_[q], products_, true});
        if (n_bounded_[q]++ == 0) path_.push_back(q);
    } else if (--n_bounded_[q] == 0) {
        path_.pop_back();  // features leave in the reverse order of their coming
    }
    bounds_[q] = visit.bounds;
    products_ = visit.products;
}

PREDGAP_INLINE Compiler::Path Compiler::with(const Bounds& before, const Bounds& after) const {
    if (before.inside) return {products_.chance * after.chance, products_.size * after.size};
    return {products_.chance / before.chance * after.chance, products_.size / before.size * after.size};
}

PREDGAP_INLINE Compiler::Bounds Compiler::side_bounds(const Node& node, const Bounds& b, bool left) const {
    return at_child(*tables_, group_, node, b, left, pruning_.amplitude);
}

// True if this feature's unit would be a second one on the path that is not likely and whose bounds x has
// left.
bool Compiler::is_too_unlikely(int32_t q) const {
    const auto& likely = pruning_.likely;
    if (!likely || likely.feature[q]) return false;
    return std::any_of(path_.begin(), path_.end(), [&](int32_t p) {
        return likely.unit[p] != likely.unit[q] && !likely.feature[p] && !bounds_[p].inside;
    });
}

double Compiler::path_main_effect(int32_t feature) const {
    double most = pruning_.main_effect[feature];
    for (const auto p : path_)
        if (!bounds_[p].inside) most = std::max(most, pruning_.main_effect[p]);
    return most;
}

// The size up to which a part of a tree is left out of an exact compilation, if the tree is `range` wide
// beyond a turn. While no main effects are known, the range stands for them.
double Compiler::negligible(double range, int32_t feature) const {
    return pruning_.main_effect ? pruning_.negligible * path_main_effect(feature)
                                : Pruning::kNegligible * range;
}

// Takes a split on an open feature: returns the only child that matters, or kNone with both on the stack.
template <Compiler::Mode kMode>
int32_t Compiler::branch(int32_t at) {
    const auto& node = group_.node[at];
    const auto q = node.feature;
    const bool on_left = keeps_left(*tables_, group_, node);
    const auto on_side = on_left ? at + 1 : node.right, other = on_left ? node.right : at + 1;
    const auto& here = bounds_[q];
    if (!can_cross(*tables_, node)) return on_side;
    const bool alone = path_.empty() || (path_.size() == 1 && path_[0] == q);
    const auto turned = side_bounds(node, here, !on_left);
    if (turned.chance == 0.0 || is_too_unlikely(q)) return on_side;
    const auto products = with(here, turned);
    if (!alone) {
        const double range = group_.range[at];
        const bool is_exact = pruning_.limit == 0.0;
        const double limit = is_exact ? negligible(range, q) : pruning_.limit;
        if (range * (is_exact ? products.chance : products.size) <= limit) {
            if (!is_exact) lose_turn(q, turned, range, products.chance * range);
            return on_side;
        }
    }
    add_box<kMode>(q, turned, on_side, other);
    if (!is_leaf(on_side))
        if (const auto on = side_bounds(node, here, on_left); on.chance > 0.0)
            stack_.push_back({on_side, q, on, with(here, on), false});
    if (!is_leaf(other)) stack_.push_back({other, q, turned, products, false});
    return kNone;
}

// Notes that the part of a tree beyond a turn is left out, which changes the tree by at most `range`.
void Compiler::lose_turn(int32_t q, const Bounds& turned, double range, double mean) {
    auto anchor = turned.near;
    left_out_.add_mean(mean);
    left_out_.add_mean(turned.near, mean);
    for (const auto p : path_) {
        if (bounds_[p].inside || p == q) continue;
        left_out_.add_mean(bounds_[p].near, mean);
        if (tables_->reach(bounds_[p].near) < tables_->reach(anchor)) anchor = bounds_[p].near;
    }
    left_out_.add_size(anchor, range);
}

template <Compiler::Mode kMode>
void Compiler::add_box(int32_t turned, const Bounds& bounds, int32_t on_side, int32_t other) {
    const double size = change_of(group_, leaves_(on_side), leaves_(other), box_->change.data());
    if (size == 0.0) return;
    if (kMode == Mode::count_all) {
        counts_.n_entries += n_entries(turned, bounds);
        return;
    }
    collect_sides(turned, bounds);
    expand<kMode>(size);
}

// Counts the entries of a box of which nothing is left out: for each feature one of the bounds that can be
// crossed, or none. Negligible entries are not counted: those of two features that hardly ever cross their
// bounds, and those of one that never does with another.
double Compiler::n_entries(int32_t turned, const Bounds& bounds) const {
    constexpr double kHardlyEver = 1e-12, kNever = 1e-24;
    double n = 1.0, n_rare = 1.0, n_alone = 0.0;
    const auto add = [&](const Bounds& b) {
        const double lo = b.lo == kNone ? 0.0 : tables_->reach(b.lo);
        const double hi = b.hi == kNone ? 0.0 : tables_->reach(b.hi);
        const double chance = std::max(lo, hi), choices = (lo != 0.0) + (hi != 0.0);
        if (chance < kNever)
            n_alone += choices;
        else if (chance < kHardlyEver)
            n_rare += choices;
        else
            n *= 1.0 + choices;
    };
    add(bounds);
    for (const auto p : path_)
        if (p != turned) add(bounds_[p]);
    return n * n_rare - 1.0 + n_alone;
}

// Collects the features of the box, ascending; bounds that cannot be crossed are left out.
void Compiler::collect_sides(int32_t turned, const Bounds& bounds) {
    box_->sides.clear();
    features_.assign(path_.begin(), path_.end());
    if (n_bounded_[turned] == 0) features_.push_back(turned);
    std::sort(features_.begin(), features_.end());
    for (const auto q : features_) collect_side(q, q == turned ? bounds : bounds_[q]);
}

PREDGAP_INLINE void Compiler::collect_side(int32_t q, const Bounds& b) {
    const auto& likely = pruning_.likely;
    const auto unlikely = !likely || likely.feature[q] ? kNone : likely.unit[q];
    Side side{q, {b.lo, b.hi}, {0, 0}, {0, 0}, 0.0, 0.0, b.inside, b.near, unlikely};
    for (int i = 0; i < 2; ++i) {
        if (side.atom[i] == kNone) continue;
        side.chance[i] = tables_->reach(side.atom[i]);
        if (side.chance[i] == 0.0) side.atom[i] = kNone;
        side.size[i] = pruning_.amplitude
                           ? std::min(1.0, side.chance[i] * pruning_.amplitude[i ? b.hi : b.lo])
                           : side.chance[i];
    }
    side.most_chance = std::max(side.chance[0], side.chance[1]);
    side.most_size = std::max(side.size[0], side.size[1]);
    if (!side.inside || side.most_chance > 0.0) box_->sides.push(side);
}

// Multiplies out the box: one entry for each choice of bounds, but for those too small to matter.
template <Compiler::Mode kMode>
void Compiler::expand(double size) {
    constexpr int64_t kManyEntries = 1 << 12;
    Entry start{size, size, 0, 0, 0, 0, 0, kNone, 1, 0};
    double rarest = 2.0;
    anchor_ = kNone;
    for (const auto& side : box_->sides) {
        if (side.inside) continue;
        start.size *= side.most_size;
        start.chance *= side.most_chance;
        ++start.order;
        if (side.unlikely != kNone) start.unlikely = side.unlikely;  // see is_too_unlikely
        if (side.most_chance < rarest) {
            rarest = side.most_chance;
            anchor_ = side.near;
        }
    }
    if (pruning_.limit > 0.0) left_out_.add_box(anchor_, size);
    box_->entries.clear();
    box_->entries.push(start);
    lost_.reset(1, 0.0);
    box_size_ = size;
    box_lost_ = 0.0;
    entry_main_.clear();
    entry_main_.push(0.0);
    box_->extended.clear();
    box_->stage_begin.clear();
    for (int64_t j = 0; j < box_->sides.size(); ++j) {
        extend<kMode>(static_cast<int32_t>(j));
        if (box_->entries.size() > kManyEntries)
            work_->hold(RowWork::Arrays::boxes,
                        box_->bytes() + other_box().bytes() + lost_.used_bytes() + entry_main_.used_bytes());
        if (static_cast<double>(box_->entries.size()) > pruning_.most_entries || work_->stopped()) {
            counts_.complete = false;
            return;
        }
    }
    counts_.n_entries +=
        static_cast<double>(box_->entries.size() - 1) + kOfSide * static_cast<double>(box_->sides.size());
    if (box_lost_ > 0.0) add_lost();
    if (kMode == Mode::count) return;
    box_->scale = size * start.chance;
    merge_later();
}

// Adds to the atoms of each entry what was left out of all that would extend it.
void Compiler::add_lost() {
    left_out_.add_mean(box_lost_);
    for (auto i = box_->entries.size() - 1; i > 0; --i) {
        if (lost_[i] == 0.0) continue;
        const auto& e = box_->entries[i];
        left_out_.add_mean(box_->atom_of(e), lost_[i]);
        lost_[e.prefix] += lost_[i];
    }
}

// Extends every entry so far: it comes with and without a bound of the next feature.
template <Compiler::Mode kMode>
void Compiler::extend(int32_t j) {
    const auto& side = box_->sides[j];
    const auto n = box_->entries.size();
    if (!side.inside && box_lost_ > 0.0) left_out_.add_mean(side.near, box_lost_);
    for (int bound = 0; bound < 2; ++bound) {
        box_->stage_begin.push(box_->extended.size());
        if (side.atom[bound] == kNone) continue;
        if (kMode != Mode::count) box_->extended.grow(box_->extended.size() + n);
        if (pruning_.limit == 0.0)
            extend_by<kMode, true>(side, bound, n, 2 * j + bound);
        else
            extend_by<kMode, false>(side, bound, n, 2 * j + bound);
    }
    if (!side.inside)
        for (int64_t at = 0; at < n; ++at) box_->entries[at].sign = 0;
}

template <Compiler::Mode kMode, bool kExact>
void Compiler::extend_by(const Side& side, int bound, int64_t n, int32_t stage) {
    const double by_size = side.inside ? side.size[bound] : side.size[bound] / side.most_size;
    const double by_chance = side.inside ? side.chance[bound] : side.chance[bound] / side.most_chance;
    const auto unlikely = side.inside ? side.unlikely : kNone;  // those outside count from the start
    const double main = kExact && kMode == Mode::compile ? pruning_.main_effect[side.feature] : 0.0;
    const double low_limit = Pruning::kLowOrder * pruning_.limit;
    const auto first = box_->entries.size();
    box_->entries.grow(first + n);  // those that are not needed go in the end
    Entry* entry = box_->entries.data();
    auto next = static_cast<int32_t>(first);
    int32_t* extended = kMode == Mode::count
                            ? nullptr
                            : box_->extended.data() + box_->stage_begin[box_->stage_begin.size() - 1];
    double lost = 0.0, n_lost = 0.0;
    for (int64_t at = 0; at < n; ++at) {
        const Entry& before = entry[at];
        const double new_size = before.size * by_size, new_chance = before.chance * by_chance;
        const auto order = before.order + side.inside;
        if (kMode != Mode::count) extended[at] = kNone;
        if (order > 1) {
            const double limit = kExact       ? pruning_.negligible * std::max(entry_main_[at], main)
                                 : order == 2 ? low_limit
                                              : pruning_.limit;
            if ((kExact ? new_chance : new_size) <= limit) {
                if (!kExact && before.sign) {
                    lost_[at] += new_chance;
                    lost += new_chance;
                    n_lost += 1.0;
                }
                continue;
            }
            if (unlikely != kNone && before.unlikely != kNone && before.unlikely != unlikely) continue;
        }
        if (kMode != Mode::count) extended[at] = next;
        if (kExact && kMode == Mode::compile) entry_main_.push(std::max(entry_main_[at], main));
        entry[next++] = {new_size,
                         new_chance,
                         0,
                         0,
                         static_cast<int32_t>(at),
                         stage,
                         order,
                         unlikely != kNone ? unlikely : before.unlikely,
                         static_cast<std::int8_t>(bound ? before.sign : -before.sign),
                         static_cast<std::int8_t>(before.n_atoms + 1)};
    }
    if (!kExact) lost_.grow_by(next - first, 0.0);
    box_->entries.grow(next);
    if (lost > 0.0) lose(side, bound, lost, n_lost);
}

// Notes pieces that have this bound, and that are left out.
void Compiler::lose(const Side& side, int bound, double lost, double n_lost) {
    const auto atom = side.atom[bound];
    const bool is_rarer = side.chance[bound] < tables_->reach(anchor_);
    left_out_.add_size(is_rarer ? atom : anchor_, n_lost * box_size_);
    left_out_.add_mean(atom, lost);
    box_lost_ += lost;
}

// The terms of a box are looked up after the next box: until then the places where to look are fetched.
void Compiler::merge_later() {
    auto& entries = box_->entries;
    store_.make_room(entries.size() + other_box().entries.size());
    for (int64_t i = 1; i < entries.size(); ++i) {
        auto& e = entries[i];
        e.hash = entries[e.prefix].hash + store_.hash_of(box_->atom_of(e));
        store_.prefetch(e.hash);
    }
    box_ = &other_box();
    merge_pending();
}

// Finds the terms of all entries. The change of a box goes to those entries that have all features outside of
// which x is.
void Compiler::merge_pending() {
    auto& entries = box_->entries;
    for (int32_t i = 1; i < entries.size(); ++i) {
        auto& e = entries[i];
        e.term = store_.find_or_add(entries[e.prefix].term, box_->atom_of(e), e.hash, e.n_atoms,
                                    [&](TermStore::Slot* slots) { fill_slots(i, slots); });
    }
    int32_t first = 0;
    for (const auto& e : entries) {
        if (e.sign == 0 || e.term == 0) continue;
        if (first == 0) first = e.term;  // with these features alone
        double* weight = store_.weight(e.term);
        for (int32_t k = 0; k < group_.width; ++k)
            weight[k] += e.sign > 0 ? box_->change[k] : -box_->change[k];
    }
    if (first) box_scale_.push({first, box_->scale});
    entries.clear();
}

// Writes the atoms of an entry, and the terms without one of them: the prefix before that atom, with all
// later bounds.
void Compiler::fill_slots(int32_t entry, TermStore::Slot* slots) const {
    constexpr int32_t kMost = 64;    // n atoms have 2^n shorter entries, and these fit into memory
    const int32_t* extended[kMost];  // by the first, second, ... bound
    const Entry* entries = box_->entries.data();
    const int32_t n = entries[entry].n_atoms;
    for (auto i = n; i-- > 0; entry = entries[entry].prefix) {
        const auto& e = entries[entry];
        extended[i] = box_->extended.data() + box_->stage_begin[e.stage];
        auto without = e.prefix;
        for (auto later = i + 1; later < n; ++later) without = extended[later][without];
        slots[i] = {box_->atom_of(e), entries[without].term};
    }
}

}  // namespace predgap
