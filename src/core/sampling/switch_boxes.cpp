// Finds the boxes of two rows by walks through the trees, and merges equal ones.
#include "sampling/switch_boxes.hpp"

#include <algorithm>
#include <numeric>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::size_t;
using std::uint64_t;

namespace {

bool has(const std::vector<uint64_t>& bits, int32_t i) { return (bits[i / 64] >> (i % 64)) & 1; }
void set(std::vector<uint64_t>& bits, size_t first, int32_t i) {
    bits[first + i / 64] |= uint64_t{1} << (i % 64);
}

// Moves the last words of a stack to another array.
void pop(std::vector<uint64_t>& from, std::vector<uint64_t>& to) {
    std::copy(from.end() - static_cast<int64_t>(to.size()), from.end(), to.begin());
    from.resize(from.size() - to.size());
}

}  // namespace

// Numbers the units that have other cells in b than in x; only these can switch.
void SwitchBoxes::number_units(const Forest& forest, const int32_t* x, const int32_t* b) {
    bit_of_unit_.assign(static_cast<size_t>(units_.size()), -1);
    unit_of_bit_.clear();
    for (int32_t q = 0; q < forest.e.n_features; ++q) {
        auto& bit = bit_of_unit_[units_.of(q)];
        if (x[q] == b[q] || bit >= 0) continue;
        bit = static_cast<int32_t>(unit_of_bit_.size());
        unit_of_bit_.push_back(units_.of(q));
    }
    n_words_ = std::max(1, (static_cast<int32_t>(unit_of_bit_.size()) + 63) / 64);
}

void SwitchBoxes::gather(const Forest& forest, const int32_t* x, const int32_t* b) {
    number_units(forest, x, b);
    found_switched_.clear();
    found_stayed_.clear();
    found_change_.clear();
    for (auto* own : {&own_switched_, &own_stayed_, &now_stayed_})
        own->assign(static_cast<size_t>(n_words_), 0);
    for (const auto root : forest.e.root) {
        part_.push_back({root, 0.0});
        part_switched_.resize(part_switched_.size() + own_switched_.size(), 0);
        part_stayed_.resize(part_stayed_.size() + own_stayed_.size(), 0);
        while (!part_.empty()) walk(forest, x, b);
    }
    merge();
}

// Walks the last part to its leaf. Where x and b go different ways and the unit may still do either, it goes
// on with x, and another part begins.
void SwitchBoxes::walk(const Forest& forest, const int32_t* x, const int32_t* b) {
    const auto [from, before] = part_.back();
    part_.pop_back();
    pop(part_switched_, own_switched_);
    pop(part_stayed_, own_stayed_);
    now_stayed_ = own_stayed_;
    const auto first = part_.size();
    auto at = from;
    while (forest.e.feature[at] != kLeaf) {
        const auto& node = forest.node[at];
        const bool right = forest.goes_right<false>(at, x[node.feature]);
        if (right == forest.goes_right<false>(at, b[node.feature])) {
            at = node.child[right];
            continue;
        }
        const auto bit = bit_of_unit_[units_.of(node.feature)];
        if (has(own_switched_, bit)) {
            at = node.child[!right];
            continue;
        }
        if (!has(now_stayed_, bit)) {
            part_.push_back({node.child[!right], 0.0});
            const auto begin = part_switched_.size();
            part_switched_.insert(part_switched_.end(), own_switched_.begin(), own_switched_.end());
            part_stayed_.insert(part_stayed_.end(), now_stayed_.begin(), now_stayed_.end());
            set(part_switched_, begin, bit);
            set(now_stayed_, 0, bit);
        }
        at = node.child[right];
    }
    const double value = forest.e.value[at];
    for (auto i = first; i < part_.size(); ++i) part_[i].before = value;
    const bool is_whole = std::all_of(own_switched_.begin(), own_switched_.end(), [](auto w) { return !w; });
    if (is_whole || value == before) return;
    found_switched_.insert(found_switched_.end(), own_switched_.begin(), own_switched_.end());
    found_stayed_.insert(found_stayed_.end(), own_stayed_.begin(), own_stayed_.end());
    found_change_.push_back(value - before);
}

// Equal boxes become one; they come out in the order of their masks.
void SwitchBoxes::merge() {
    const auto words = static_cast<size_t>(n_words_);
    const auto compare = [&](int32_t i, int32_t j) {
        for (const auto* masks : {&found_switched_, &found_stayed_})
            for (size_t w = 0; w < words; ++w)
                if (const auto a = (*masks)[i * words + w], b = (*masks)[j * words + w]; a != b)
                    return a < b ? -1 : 1;
        return 0;
    };
    order_.resize(found_change_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](int32_t i, int32_t j) {
        const auto sign = compare(i, j);
        return sign ? sign < 0 : i < j;
    });
    switched_.clear();
    stayed_.clear();
    change_.clear();
    for (size_t k = 0; k < order_.size(); ++k) {
        const auto i = order_[k];
        if (k > 0 && compare(order_[k - 1], i) == 0) {
            change_.back() += found_change_[i];
            continue;
        }
        const auto begin = static_cast<int64_t>(i * words), end = begin + n_words_;
        switched_.insert(switched_.end(), found_switched_.begin() + begin, found_switched_.begin() + end);
        stayed_.insert(stayed_.end(), found_stayed_.begin() + begin, found_stayed_.begin() + end);
        change_.push_back(found_change_[i]);
    }
}

}  // namespace predgap
