#include "terms/compaction.hpp"

#include <algorithm>
#include <cmath>

namespace predgap {

using std::int32_t;
using std::int64_t;

// From long terms to short ones: what is kept keeps its parents.
void Compaction::mark(const RowTerms& all, const Buffer<double>& all_weights, const RowTables& tables,
                      const double* main_effect, double negligible) {
    is_kept_.reset(all.n_weights, 0);
    n_kept_.reset(all.n_components(), 0);
    for (auto i = all.n_components(); i-- > 1;) {
        const auto& c = all.component[i];
        const auto* feature = all.feature.data() + c.features;
        if (!std::all_of(feature, feature + c.size, [&](int32_t q) { return tables.is_open[q]; })) continue;
        double main = 0.0;
        for (int32_t j = 0; j < c.size; ++j) main = std::max(main, main_effect[feature[j]]);
        const double limit = c.size == 1 ? -1.0 : negligible * main;
        const auto *atom = all.atom.data() + c.slots, *parent = all.parent.data() + c.slots;
        auto* kept = is_kept_.data() + c.first_term;
        for (int32_t t = 0; t < c.n_terms; ++t) {
            if (!kept[t]) {
                double size = 0.0;
                for (int32_t k = 0; k < all.width; ++k)
                    size =
                        std::max(size, std::abs(all_weights[int64_t{k} * all.n_weights + c.first_term + t]));
                for (int32_t j = 0; j < c.size && size > limit; ++j)
                    size *= tables.reach(atom[int64_t{j} * c.stride + t]);
                if (size <= limit) continue;
                kept[t] = 1;
            }
            ++n_kept_[i];
            for (int32_t j = 0; j < c.size; ++j) is_kept_[parent[int64_t{j} * c.stride + t]] = 1;
        }
    }
    is_kept_[0] = 1;
    n_kept_[0] = 1;
}

void Compaction::run(const RowTerms& all, const Buffer<double>& all_weights, const RowTables& tables,
                     const double* main_effect, double negligible, RowTerms& kept, Buffer<double>& weights) {
    mark(all, all_weights, tables, main_effect, negligible);
    place_.reset(all.n_weights, RowTerms::kRoom - 1);
    component_place.reset(all.n_components(), RowTerms::kNoComponent);
    kept.component.clear();
    kept.width = all.width;
    kept.n_weights = 0;
    kept.most_scratch = all.most_scratch;
    int64_t slots = 0;
    int32_t n_features = 0;
    for (int32_t i = 0; i < all.n_components(); ++i) {
        if (n_kept_[i] == 0) continue;
        const auto& from = all.component[i];
        component_place[i] = kept.n_components();
        const auto stride = i ? stride_of(n_kept_[i]) : RowTerms::kRoom;
        kept.component.push(
            {from.size, n_kept_[i], kept.n_weights, stride, slots, n_features, from.has_sets});
        kept.n_weights += stride;
        slots += int64_t{stride} * from.size;
        n_features += from.size;
    }
    kept.n_weights = (kept.n_weights + 3) / 4 * 4;
    kept.atom.reset(slots);
    kept.parent.reset(slots);
    kept.feature.reset(n_features);
    kept.parent_component.reset(n_features);
    weights.reset(int64_t{all.width} * kept.n_weights, 0.0);
    for (int32_t i = 0; i < all.n_components(); ++i)
        if (n_kept_[i]) copy_component(all, all.component[i], kept, kept.component[component_place[i]]);
    for (int32_t t = 0; t < all.n_weights; ++t)
        if (is_kept_[t])
            for (int64_t k = 0; k < all.width; ++k)
                weights[k * kept.n_weights + place_[t]] = all_weights[k * all.n_weights + t];

    kept.use_begin.reset(all.use_begin.size());
    kept.use.clear();
    for (int64_t q = 0; q + 1 < all.use_begin.size(); ++q) {
        kept.use_begin[q] = static_cast<int32_t>(kept.use.size());
        for (auto i = all.use_begin[q]; i < all.use_begin[q + 1]; ++i)
            if (const auto place = component_place[all.use[i].component]; place >= 0)
                kept.use.push({place, all.use[i].slot});
    }
    kept.use_begin[all.use_begin.size() - 1] = static_cast<int32_t>(kept.use.size());
}

// Parents have their places already, for they are shorter.
void Compaction::copy_component(const RowTerms& all, const Component& from, RowTerms& kept,
                                const Component& to) {
    int32_t n = 0;
    for (int32_t t = 0; t < from.n_terms; ++t) {
        if (!is_kept_[from.first_term + t]) continue;
        place_[from.first_term + t] = to.first_term + n;
        for (int32_t j = 0; j < from.size; ++j) {
            const auto at = from.slots + int64_t{j} * from.stride + t;
            kept.atom[to.slots + int64_t{j} * to.stride + n] = all.atom[at];
            kept.parent[to.slots + int64_t{j} * to.stride + n] = place_[all.parent[at]];
        }
        ++n;
    }
    for (int32_t j = 0; j < to.size; ++j) {
        for (auto i = n; i < to.stride; ++i) {  // room repeats the last term
            kept.atom[to.slots + int64_t{j} * to.stride + i] =
                kept.atom[to.slots + int64_t{j} * to.stride + n - 1];
            kept.parent[to.slots + int64_t{j} * to.stride + i] = RowTerms::kRoom - 1;
        }
        kept.feature[to.features + j] = all.feature[from.features + j];
        kept.parent_component[to.features + j] = component_place[all.parent_component[from.features + j]];
    }
}

}  // namespace predgap
