// Walks the path of x through each tree, and what lies beyond one turn of it by a single feature.
#include "terms/main_effects.hpp"

#include <algorithm>

namespace predgap {

using std::int32_t;

MainEffects::MainEffects(const Model& model, const TreeGroup& group, Leaves& leaves, TermStore& store)
    : group_(group),
      leaves_(leaves),
      store_(store),
      bounds_(static_cast<std::size_t>(model.n_features())),
      change_(static_cast<std::size_t>(group.width)) {
    term_.reset(model.n_atoms(), 0);
    error_scale_.reset(model.n_features(), 0.0);
}

void MainEffects::clear(const RowTables& tables) {
    tables_ = &tables;
    for (const auto atom : found_) term_[atom] = 0;
    found_.clear();
    std::fill(error_scale_.begin(), error_scale_.end(), 0.0);
}

MainEffects::Ways MainEffects::ways(int32_t at) const {
    const auto& node = group_.node[static_cast<std::size_t>(at)];
    const bool left = keeps_left(*tables_, group_, node);
    return left ? Ways{at + 1, node.right, left} : Ways{node.right, at + 1, left};
}

// Walks along the path of x, and takes every turn off it.
double MainEffects::add_tree(int32_t root) {
    double n_nodes = 0.0;
    for (auto at = root; group_.node[static_cast<std::size_t>(at)].feature != kLeaf;) {
        const auto& node = group_.node[static_cast<std::size_t>(at)];
        const auto q = node.feature;
        const auto to = ways(at);
        at = to.on;
        n_nodes += 1.0;
        if (!tables_->is_open[q] || !can_cross(*tables_, node)) continue;
        auto& here = bounds_[static_cast<std::size_t>(q)];
        const auto turned = at_child(*tables_, group_, node, here, !to.on_left, nullptr);
        if (turned.chance == 0.0) continue;
        add_box(turned, to, q);
        n_nodes += beyond(q, to.other, turned);
        here = at_child(*tables_, group_, node, here, to.on_left, nullptr);
        bounded_.push_back(q);
    }
    for (const auto q : bounded_) bounds_[static_cast<std::size_t>(q)] = {};
    bounded_.clear();
    return n_nodes;
}

// Walks the part of a tree beyond a turn on feature q. All other features stay where x is.
double MainEffects::beyond(int32_t q, int32_t node, const PathBounds& bounds) {
    double n_nodes = 0.0;
    stack_.push_back({node, bounds});
    while (!stack_.empty()) {
        auto [at, here] = stack_.back();
        stack_.pop_back();
        while (group_.node[static_cast<std::size_t>(at)].feature != kLeaf) {
            const auto& split = group_.node[static_cast<std::size_t>(at)];
            const auto to = ways(at);
            at = to.on;
            n_nodes += 1.0;
            if (split.feature != q || !can_cross(*tables_, split)) continue;
            const auto turned = at_child(*tables_, group_, split, here, !to.on_left, nullptr);
            if (turned.chance == 0.0) continue;
            add_box(turned, to, q);
            const auto on = at_child(*tables_, group_, split, here, to.on_left, nullptr);
            if (on.chance > 0.0) stack_.push_back({to.on, on});
            at = to.other;
            here = turned;
        }
    }
    return n_nodes;
}

void MainEffects::add_box(const PathBounds& bounds, const Ways& to, int32_t feature) {
    const double size = change_of(group_, leaves_(to.on), leaves_(to.other), change_.data());
    if (size == 0.0) return;
    double chance = 0.0;
    for (const bool is_upper : {false, true}) {
        const auto atom = is_upper ? bounds.hi : bounds.lo;
        if (atom == PathBounds::kNone || tables_->reach(atom) == 0.0) continue;
        chance = std::max(chance, tables_->reach(atom));
        double* sum = weight(atom);
        for (std::size_t k = 0; k < change_.size(); ++k) sum[k] += is_upper ? change_[k] : -change_[k];
    }
    error_scale_[feature] += static_cast<double>(group_.root.size()) * (size * chance);
}

double* MainEffects::weight(int32_t atom) {
    if (term_[atom] == 0) {
        term_[atom] = store_.add_unfound(atom);
        found_.push(atom);
    }
    return store_.weight(term_[atom]);
}

}  // namespace predgap
