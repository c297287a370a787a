// Categories: a categorical feature's levels, gathered into cells that no set of the model tells apart.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace predgap {

constexpr std::int32_t kNumeric = -1;

using Bits = std::vector<std::uint64_t>;  // a set of one feature's cells

constexpr bool holds(const std::uint64_t* bits, std::int32_t cell) {
    return (bits[cell / 64] >> (cell % 64)) & 1;
}

// The sets that splits test, each of one feature; levels are numbered from 0 in each feature.
struct LevelSets {
    std::vector<std::int32_t> n_levels;     // (n_features) kNumeric for a numeric feature
    std::vector<std::int32_t> set_feature;  // (n_sets)
    std::vector<std::int32_t> set_begin;    // (n_sets + 1)
    std::vector<std::int32_t> set_level;
};

class Cells {
public:
    explicit Cells(const LevelSets& sets);

    std::int32_t n_features() const { return static_cast<std::int32_t>(begin.size()) - 1; }
    bool categorical(std::int32_t q) const { return begin[q] < begin[q + 1]; }
    std::int32_t count(std::int32_t q) const { return begin[q + 1] - begin[q]; }
    std::size_t n_words(std::int32_t q) const { return (static_cast<std::size_t>(count(q)) + 63) / 64; }
    const std::uint64_t* set(std::int32_t s) const { return bits.data() + word_begin[s]; }
    // A word of the set that has all cells of a feature.
    std::uint64_t full_word(std::int32_t q, std::size_t w) const {
        const auto n_rest = count(q) - static_cast<std::int32_t>(w) * 64;
        return n_rest < 64 ? (std::uint64_t{1} << n_rest) - 1 : ~std::uint64_t{0};
    }

    // Cell 0 of a feature is that of the levels in no set, and of all that is not a level.
    std::vector<std::int32_t> begin;        // (n_features + 1) none for a numeric feature
    std::vector<std::int32_t> level_begin;  // (n_features + 1)
    std::vector<std::int32_t> of_level;     // cell in its feature
    std::vector<std::int64_t> word_begin;   // (n_sets) of each set's cells
    Bits bits;
};

// The sets of the boxes, as atoms: events {z in K}, where K lacks cell 0, for {z not in K} is the same atom
// with the other sign. Numbered after the thresholds, feature by feature; those whose boxes may have the same
// other features follow each other, for forms use them together.
class SetAtoms {
public:
    SetAtoms(const Cells& cells, std::int32_t n_thresholds) : cells_(&cells), first_(n_thresholds) {}

    // A literal on a categorical feature: lo and hi as for thresholds, where the event of hi must hold and
    // that of lo must not; lo == hi >= 0 where nothing passes.
    struct Ends {
        std::int32_t lo = -1, hi = -1;
        bool empty() const { return lo >= 0 && lo == hi; }
    };
    // The literal that passes what `ends` passes and is in the set, or, if not inside, out of it.
    Ends meet(std::int32_t q, Ends ends, std::int32_t set, bool inside);

    // Bits of other features, modulo 64, that boxes with this literal may have.
    void add_others(const Ends& ends, std::uint64_t features);

    // Numbers the atoms by feature; gives the final number of each number handed out so far.
    std::vector<std::int32_t> finish();

    std::int32_t size() const { return static_cast<std::int32_t>(feature.size()); }
    const std::uint64_t* bits(std::int32_t k) const { return words.data() + word_begin[k]; }

    std::vector<std::int32_t> feature;     // (size)
    std::vector<std::int32_t> begin;       // (n_features + 1) number of the first atom of each feature
    std::vector<std::int64_t> word_begin;  // (size) of its cells
    Bits words;

private:
    Ends intern(std::int32_t q, Bits bits);

    const Cells* cells_;
    std::int32_t first_;
    std::vector<std::uint64_t> others_;                            // (size) see add_others
    std::map<std::pair<std::int32_t, Bits>, std::int32_t> known_;  // by feature and cells
};

}  // namespace predgap
