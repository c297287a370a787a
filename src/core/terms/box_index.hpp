// An index of the boxes of a plan that a row may reach if some features stay: bits, looked up by where x is.
#pragma once

#include <cstdint>
#include <vector>

#include "noise/row_tables.hpp"
#include "simd/buffer.hpp"

namespace predgap {

// Holds, for each numeric feature and place of x among its thresholds, a bit for each box: it is set if x may
// pass the test that the box has on this feature. Neighbouring places share their bits, so that some may be
// set too many.
class BoxIndex {
public:
    BoxIndex() = default;  // without bits: x may pass all tests
    BoxIndex(const Model& model, std::int64_t n_boxes);

    // The test of a box on a numeric feature: not below threshold lo, but below hi; -1 for none.
    void add_test(const Atoms& atoms, std::int64_t box, std::int32_t q, std::int32_t lo, std::int32_t hi);

    // One bit for each box that x may pass with all features that are not open, and maybe more.
    void find(const RowTables& tables, std::int64_t n_boxes, Buffer<std::uint64_t>& found) const;

    double bytes() const {
        return static_cast<double>(bits_.capacity() * sizeof(bits_[0]) +
                                   places_of_group_.capacity() * sizeof(places_of_group_[0]) +
                                   group_begin_.capacity() * sizeof(group_begin_[0]));
    }

private:
    static constexpr std::int32_t kMostGroups = 16;                    // of places in one feature
    static constexpr std::int64_t kMostWords = std::int64_t{1} << 20;  // 8 MB; more is not worth it

    std::uint64_t* words(std::int32_t q, std::int32_t group) {
        return bits_.data() + (group_begin_[static_cast<std::size_t>(q)] + group) * n_words_;
    }
    std::int32_t n_groups(std::int32_t q) const {
        const auto at = static_cast<std::size_t>(q);
        return static_cast<std::int32_t>(group_begin_[at + 1] - group_begin_[at]);
    }
    // The group of a place of x. Places count from the feature's first threshold on, and are numbered like
    // the first threshold above x.
    std::int32_t group_of(const Atoms& atoms, std::int32_t q, std::int32_t first_above) const {
        return (first_above - atoms.begin[q]) / places_of_group_[static_cast<std::size_t>(q)];
    }

    std::int64_t n_words_ = 0;                   // of one group
    std::vector<std::int32_t> places_of_group_;  // (n_features)
    std::vector<std::int64_t> group_begin_;      // (n_features + 1)
    std::vector<std::uint64_t> bits_;            // (groups, n_words_)
};

}  // namespace predgap
