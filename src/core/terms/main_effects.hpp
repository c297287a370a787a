// The terms of one feature each, of one row: the boxes that x is outside of by that feature only, all of
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "noise/row_tables.hpp"
#include "terms/term_store.hpp"
#include "terms/turns.hpp"

namespace predgap {

class MainEffects {
public:
    MainEffects(const Model& model, const TreeGroup& group, Leaves& leaves, TermStore& store);

    // Begins another row, whose terms go to the store, which is empty.
    void clear(const RowTables& tables);
    // Adds the terms of a tree; returns how many nodes it came to.
    double add_tree(std::int32_t root);

    // (n_features) the scale of rounding errors: E in the correctness criterion of docs/internals.md.
    const Buffer<double>& error_scale() const { return error_scale_; }
    double bytes() const {
        return term_.used_bytes() + found_.used_bytes() + error_scale_.used_bytes() +
               static_cast<double>(bounds_.size() * sizeof(bounds_[0]));
    }

private:
    struct Visit {
        std::int32_t node;
        PathBounds bounds;
    };
    struct Ways {
        std::int32_t on, other;  // the child that keeps_left goes to, and the other one
        bool on_left;
    };
    Ways ways(std::int32_t at) const;
    double beyond(std::int32_t feature, std::int32_t node, const PathBounds& bounds);
    void add_box(const PathBounds& bounds, const Ways& ways, std::int32_t feature);
    double* weight(std::int32_t atom);

    const TreeGroup& group_;
    Leaves& leaves_;
    TermStore& store_;
    const RowTables* tables_ = nullptr;
    Buffer<std::int32_t> term_;          // (n_atoms) its number in the store, or 0
    Buffer<std::int32_t> found_;         // atoms that have one
    std::vector<PathBounds> bounds_;     // (n_features) on the path of x
    std::vector<std::int32_t> bounded_;  // features that have some
    std::vector<Visit> stack_;
    std::vector<double> change_;  // (width)
    Buffer<double> error_scale_;
};

}  // namespace predgap
