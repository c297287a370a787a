// Sets the bits of the boxes by their tests, and finds the boxes that a row may reach.
#include "terms/box_index.hpp"

#include <algorithm>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

BoxIndex::BoxIndex(const Model& model, int64_t n_boxes) : n_words_((n_boxes + 63) / 64) {
    const auto d = static_cast<std::size_t>(model.n_features());
    places_of_group_.assign(d, 1);
    group_begin_.assign(d + 1, 0);
    for (std::size_t q = 0; q < d; ++q) {
        const auto n_thresholds = model.atoms.begin[q + 1] - model.atoms.begin[q];
        const auto n_places = n_thresholds > 0 ? n_thresholds + 1 : 0;
        places_of_group_[q] = std::max(1, (n_places + kMostGroups - 1) / kMostGroups);
        group_begin_[q + 1] = group_begin_[q] + (n_places + places_of_group_[q] - 1) / places_of_group_[q];
    }
    if (group_begin_[d] * n_words_ <= kMostWords)
        bits_.assign(static_cast<std::size_t>(group_begin_[d] * n_words_), ~uint64_t{0});
    else
        group_begin_.assign(d + 1, 0);
}

void BoxIndex::add_test(const Atoms& atoms, int64_t box, int32_t q, int32_t lo, int32_t hi) {
    const auto n = n_groups(q);
    const auto first = lo < 0 ? 0 : group_of(atoms, q, lo + 1),
               last = hi < 0 ? n - 1 : group_of(atoms, q, hi);
    for (int32_t g = 0; g < n; ++g)
        if (g < first || g > last) words(q, g)[box / 64] &= ~(uint64_t{1} << (box % 64));
}

void BoxIndex::find(const RowTables& tables, int64_t n_boxes, Buffer<uint64_t>& found) const {
    const auto n_words = (n_boxes + 63) / 64;
    found.reset(n_words, ~uint64_t{0});
    if (n_boxes % 64) found[n_words - 1] = (uint64_t{1} << (n_boxes % 64)) - 1;
    uint64_t* to = found.data();
    for (const auto q : tables.model().features) {
        if (tables.is_open[q] || tables.missing[q] || n_groups(q) == 0) continue;
        const auto group = group_of(tables.model().atoms, q, tables.first_above[q]);
        const auto* bits = bits_.data() + (group_begin_[static_cast<std::size_t>(q)] + group) * n_words_;
        for (int64_t w = 0; w < n_words; ++w) to[w] &= bits[w];
    }
}

}  // namespace predgap
