// Gathers the levels of categorical features into cells, and numbers the sets of the boxes as atoms.
#include "model/cells.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <unordered_map>

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

namespace {

// Splits the cells of some levels from the rest of their old cells.
void refine(std::span<const int32_t> levels, int32_t* cell, int32_t& n_cells) {
    std::unordered_map<int32_t, int32_t> moved;
    for (const auto level : levels) {
        const auto [at, is_new] = moved.try_emplace(cell[level], n_cells);
        n_cells += is_new;
        cell[level] = at->second;
    }
}

// Numbers the cells in use from 1 on, in the order of their levels; cell 0 stays. Returns their number.
int32_t renumber(std::span<int32_t> cell) {
    std::unordered_map<int32_t, int32_t> number{{0, 0}};
    for (auto& c : cell) c = number.try_emplace(c, static_cast<int32_t>(number.size())).first->second;
    return static_cast<int32_t>(number.size());
}

bool any(const Bits& bits) {
    return std::any_of(bits.begin(), bits.end(), [](uint64_t w) { return w != 0; });
}

}  // namespace

Cells::Cells(const LevelSets& sets) {
    const auto n_features = sets.n_levels.size();
    const auto n_sets = sets.set_feature.size();
    level_begin.push_back(0);
    for (const auto n : sets.n_levels) level_begin.push_back(level_begin.back() + std::max(n, 0));
    of_level.assign(static_cast<std::size_t>(level_begin.back()), 0);
    const auto levels = [&](std::size_t s) {
        return std::span(sets.set_level)
            .subspan(static_cast<std::size_t>(sets.set_begin[s]),
                     static_cast<std::size_t>(sets.set_begin[s + 1] - sets.set_begin[s]));
    };
    std::vector<int32_t> n_cells(n_features, 1);
    for (std::size_t s = 0; s < n_sets; ++s) {
        const auto q = sets.set_feature[s];
        refine(levels(s), of_level.data() + level_begin[q], n_cells[q]);
    }
    begin.push_back(0);
    for (std::size_t q = 0; q < n_features; ++q) {
        const auto own = std::span(of_level).subspan(static_cast<std::size_t>(level_begin[q]),
                                                     static_cast<std::size_t>(std::max(sets.n_levels[q], 0)));
        begin.push_back(begin.back() + (sets.n_levels[q] == kNumeric ? 0 : renumber(own)));
    }
    for (std::size_t s = 0; s < n_sets; ++s) {
        const auto q = sets.set_feature[s];
        word_begin.push_back(static_cast<int64_t>(bits.size()));
        bits.resize(bits.size() + n_words(q), 0);
        for (const auto level : levels(s)) {
            const auto cell = of_level[level_begin[q] + level];
            bits[word_begin.back() + cell / 64] |= uint64_t{1} << (cell % 64);
        }
    }
}

SetAtoms::Ends SetAtoms::meet(int32_t q, Ends ends, int32_t set, bool inside) {
    if (ends.empty()) return ends;
    const auto n_words = cells_->n_words(q);
    Bits out(n_words);
    for (std::size_t w = 0; w < n_words; ++w) {
        uint64_t before = ~uint64_t{0};
        if (ends.hi >= 0) before &= bits(ends.hi - first_)[w];
        if (ends.lo >= 0) before &= ~bits(ends.lo - first_)[w];
        out[w] = before & (inside ? cells_->set(set)[w] : ~cells_->set(set)[w]);
    }
    if (cells_->count(q) % 64) out.back() &= (uint64_t{1} << (cells_->count(q) % 64)) - 1;
    return intern(q, std::move(out));
}

SetAtoms::Ends SetAtoms::intern(int32_t q, Bits set) {
    const bool complement = set[0] & 1;  // it holds cell 0
    if (!complement && !any(set)) return {0, 0};
    if (complement) {
        for (auto& word : set) word = ~word;
        if (cells_->count(q) % 64) set.back() &= (uint64_t{1} << (cells_->count(q) % 64)) - 1;
        if (!any(set)) return {};
    }
    const auto [at, is_new] = known_.try_emplace({q, std::move(set)}, first_ + size());
    if (is_new) {
        feature.push_back(q);
        others_.push_back(0);
        word_begin.push_back(static_cast<int64_t>(words.size()));
        words.insert(words.end(), at->first.second.begin(), at->first.second.end());
    }
    return complement ? Ends{at->second, -1} : Ends{-1, at->second};
}

void SetAtoms::add_others(const Ends& ends, uint64_t features) {
    if (ends.empty()) return;
    for (const auto atom : {ends.lo, ends.hi})
        if (atom >= 0) others_[atom - first_] |= features;
}

std::vector<int32_t> SetAtoms::finish() {
    std::vector<int32_t> order(feature.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return std::pair(feature[a], others_[a]) < std::pair(feature[b], others_[b]);
    });
    std::vector<int32_t> number(order.size()), features;
    std::vector<int64_t> begins;
    for (std::size_t i = 0; i < order.size(); ++i) {
        number[order[i]] = first_ + static_cast<int32_t>(i);
        features.push_back(feature[order[i]]);
        begins.push_back(word_begin[order[i]]);
    }
    feature = std::move(features);
    word_begin = std::move(begins);
    known_.clear();
    others_.clear();
    for (int32_t q = 0; q <= cells_->n_features(); ++q)
        begin.push_back(first_ + static_cast<int32_t>(std::lower_bound(feature.begin(), feature.end(), q) -
                                                      feature.begin()));
    return number;
}

}  // namespace predgap
