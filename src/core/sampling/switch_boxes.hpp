// Two rows x and b, for all subsets of units at once: each unit has x's values, or has switched to b's.
#pragma once

#include <cstdint>
#include <vector>

#include "model/units.hpp"
#include "sampling/box_list.hpp"
#include "sampling/many_subsets.hpp"

namespace predgap {

// f(x with the values of b in S) - f(x) is the sum of the changes of the boxes that S is in: a box needs some
// units to have switched, at least one, and some to have stayed. There is one for each way in which the path
// of x through a tree parts, less those that change nothing; equal boxes of all trees are one.
class SwitchBoxes {
public:
    explicit SwitchBoxes(const Units& units) : units_(units) {}

    // x and b: cells, (n_features).
    void gather(const Forest& forest, const std::int32_t* x, const std::int32_t* b);

    std::int64_t size() const { return static_cast<std::int64_t>(change_.size()); }
    // The number of boxes before equal ones were merged.
    std::int64_t n_met() const { return static_cast<std::int64_t>(found_change_.size()); }
    BoxList list() const { return {switched_.data(), stayed_.data(), change_.data(), n_words_}; }
    // The unit of each bit of the masks.
    const std::vector<std::int32_t>& units() const { return unit_of_bit_; }

private:
    struct Part {  // of a path, still to be walked
        std::int32_t at;
        double before;  // the value that the path has which it parts from
    };

    void number_units(const Forest& forest, const std::int32_t* x, const std::int32_t* b);
    void walk(const Forest& forest, const std::int32_t* x, const std::int32_t* b);
    void merge();

    const Units& units_;
    std::int32_t n_words_ = 1;
    std::vector<std::int32_t> bit_of_unit_;  // -1: the unit has the same cells in both rows
    std::vector<std::int32_t> unit_of_bit_;
    std::vector<std::uint64_t> switched_, stayed_;  // (size, n_words)
    std::vector<double> change_;                    // (size)
    // The boxes as they are met, before equal ones are merged.
    std::vector<std::uint64_t> found_switched_, found_stayed_;
    std::vector<double> found_change_;
    std::vector<std::int32_t> order_;
    // A walk: the parts that wait, with what they need; and what the one that is walked needs.
    std::vector<Part> part_;
    std::vector<std::uint64_t> part_switched_, part_stayed_;  // (n_parts, n_words)
    std::vector<std::uint64_t> own_switched_, own_stayed_;    // (n_words) at its beginning
    std::vector<std::uint64_t> now_stayed_;                   // (n_words) further down
};

}  // namespace predgap
