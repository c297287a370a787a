// Adds up, atom by atom, how much the pieces that are left out can change.
#include "terms/left_out.hpp"

#include <algorithm>

namespace predgap {

using std::int32_t;

LeftOut::LeftOut(const Model& model)
    : box_(model.n_atoms()), size_(model.n_atoms()), mean_(model.n_atoms()) {}

void LeftOut::clear(const RowTables& tables) {
    tables_ = &tables;
    all_ = 0.0;
    const auto& model = tables.model();
    for (const auto q : model.features) {
        if (!tables.is_open[q]) continue;
        for (auto* buffer : {&box_, &size_, &mean_}) {
            std::fill(buffer->data() + model.atoms.begin[q], buffer->data() + model.atoms.begin[q + 1], 0.0);
            std::fill(buffer->data() + model.set_atoms.begin[q],
                      buffer->data() + model.set_atoms.begin[q + 1], 0.0);
        }
    }
}

// Adds up pairs of thresholds of one feature on one side of x, from `far` on towards x: whoever crosses one
// has crossed all after it, and crosses one before it with the ratio of their probabilities.
double LeftOut::of_thresholds(const Buffer<double>& size, int32_t far, int32_t end, int32_t step) const {
    double sum = 0.0, before = 0.0, after = 0.0;
    for (auto a = far; a != end; a += step) {
        before += size[a] * tables_->reach(a);
        if (mean_[a] > 0.0) sum += mean_[a] * before / tables_->reach(a);
    }
    for (auto a = end - step; a != far - step; a -= step) {
        sum += mean_[a] * after;
        after += size[a];
    }
    return sum;
}

// Adds up pairs of sets of categories of one feature, as if whoever crosses one crossed all.
double LeftOut::of_sets(const Buffer<double>& size, int32_t begin, int32_t end) const {
    double mean_sum = 0.0, size_sum = 0.0;
    for (auto a = begin; a < end; ++a) {
        mean_sum += mean_[a];
        size_sum += size[a];
    }
    return mean_sum * size_sum;
}

// Bounds the product of two sums of pieces. Anchors of a feature that the other piece does not have are
// crossed with their own probability.
double LeftOut::product(const Buffer<double>& size) const {
    const auto& model = tables_->model();
    double same_feature = 0.0, other_features = 0.0;
    const auto add = [&](int32_t begin, int32_t end) {
        for (auto a = begin; a < end; ++a) other_features += size[a] * tables_->reach(a);
    };
    for (const auto q : model.features) {
        if (!tables_->is_open[q]) continue;
        const auto begin = model.atoms.begin[q], end = model.atoms.begin[q + 1];
        const auto x = std::clamp(tables_->first_above[q], begin, end);
        const auto set = model.set_atoms.begin[q], set_end = model.set_atoms.begin[q + 1];
        same_feature += of_thresholds(size, begin, x, 1) + of_thresholds(size, end - 1, x - 1, -1) +
                        of_sets(size, set, set_end);
        add(begin, end);
        add(set, set_end);
    }
    return all_ * other_features + same_feature;
}

}  // namespace predgap
