// Gives the plan's terms the weights of a row.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "terms/plan.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint32_t;

// Tests the literals of one feature, by the place of x among its atoms.
void Plan::test_numbers(int32_t q, int32_t above, uint32_t open, uint32_t* state) const {
    const auto first = literal_begin_[static_cast<std::size_t>(q)],
               last = literal_begin_[static_cast<std::size_t>(q) + 1];
    for (auto i = first; i < last; ++i) {
        const auto& l = literals_[static_cast<std::size_t>(i)];
        const bool passes = (l.lo < above) & ((l.hi < 0) | (l.hi >= above));
        state[i] = (passes ? 0 : kFails) | (is_bounded_[static_cast<std::size_t>(i)] & open);
    }
}

void Plan::test_categories(const RowTables& tables, int32_t q, uint32_t open, uint32_t* state) const {
    const auto first = literal_begin_[static_cast<std::size_t>(q)],
               last = literal_begin_[static_cast<std::size_t>(q) + 1];
    for (auto i = first; i < last; ++i) {
        const auto& l = literals_[static_cast<std::size_t>(i)];
        bool passes = l.is_passable();
        if (passes && (l.lo >= 0 || l.hi >= 0)) {
            const auto* cells = model_.set_atoms.bits(std::max(l.lo, l.hi) - model_.n_thresholds());
            passes = holds(cells, static_cast<int32_t>(tables.x[q])) == (l.hi >= 0);
        }
        state[i] = (passes ? 0 : kFails) | (is_bounded_[static_cast<std::size_t>(i)] & open);
    }
}

void Plan::test_literals(const RowTables& tables, Buffer<uint32_t>& state) const {
    state.reset(static_cast<int64_t>(literals_.size()));
    for (const auto q : model_.features) {
        const auto open = tables.is_open[q] ? kOpen : 0;
        if (!tables.missing[q]) {
            model_.cells.categorical(q) ? test_categories(tables, q, open, state.data())
                                        : test_numbers(q, tables.first_above[q], open, state.data());
            continue;
        }
        for (auto i = literal_begin_[static_cast<std::size_t>(q)];
             i < literal_begin_[static_cast<std::size_t>(q) + 1]; ++i)
            state[i] = literals_[static_cast<std::size_t>(i)].missing ? 0 : kFails;
    }
}

namespace {

// The states of a box's literals, side by side. Up to four, as most boxes have, without a loop: boxes with as
// many follow each other, so that the way taken is foreseen.
PREDGAP_INLINE uint32_t joined(const uint32_t* state, const int32_t* literal, int32_t n) {
    switch (n) {
        case 1: return state[literal[0]];
        case 2: return state[literal[0]] | state[literal[1]] << 1;
        case 3: return state[literal[0]] | state[literal[1]] << 1 | state[literal[2]] << 2;
        case 4:
            return (state[literal[0]] | state[literal[1]] << 1) |
                   (state[literal[2]] << 2 | state[literal[3]] << 3);
        default: break;
    }
    uint32_t mask = 0;
    for (int32_t j = 0; j < n; ++j) mask |= state[literal[j]] << j;
    return mask;
}

}  // namespace

// Lists the boxes that the noise can reach, but for those that x is in; of the latter each tree has one,
// which gives the tree's value.
void Plan::test_boxes(const RowTables& tables, Scratch& scratch) const {
    scratch.value.reset(static_cast<int64_t>(group_.root.size()) * group_.width);
    scratch.mask.reset(n_boxes());
    scratch.reached.reset(n_boxes() + 1);
    index_.find(tables, n_boxes(), scratch.candidate);
    const uint32_t* state = scratch.literal.data();
    const auto* boxes = boxes_.data();
    const auto* literals = box_literal_.data();
    auto* masks = scratch.mask.data();
    int32_t* reached = scratch.reached.data();
    int64_t n = 0;
    for (int64_t word = 0; word < scratch.candidate.size(); ++word)
        for (auto left = scratch.candidate[word]; left; left &= left - 1) {
            const auto b = 64 * word + std::countr_zero(left);
            const auto mask = joined(state, literals + boxes[b].literals, boxes[b].n_literals);
            const auto fails = mask % kOpen, open = mask / kOpen;
            masks[b] = {fails, open};
            reached[n] = static_cast<int32_t>(b);
            n += (fails != 0) & !(fails & ~open);
            if (!fails) keep_values(boxes[b], scratch);
        }
    scratch.n_reached = n;
}

// Keeps the values of a box that x is in, as those of its trees.
void Plan::keep_values(const Box& box, Scratch& scratch) const {
    const auto width = group_.width;
    for (auto i = box.members; i < box.members + box.n_members; ++i) {
        const double* value = member_value_.data() + int64_t{i} * width;
        double* at = scratch.value.data() + int64_t{member_tree_[static_cast<std::size_t>(i)]} * width;
        for (int32_t k = 0; k < width; ++k) at[k] = value[k];
    }
}

// Finds what reaching each of these boxes changes. It adds up residuals, not leaf values: large values that
// cancel cost no digits.
void Plan::find_changes(Scratch& scratch) const {
    const auto width = group_.width;
    scratch.change.reset(n_boxes() * width);
    const int32_t* tree = member_tree_.data();
    const double *leaf = member_value_.data(), *value = scratch.value.data();
    for (int64_t r = 0; r < scratch.n_reached; ++r) {
        const auto b = scratch.reached[r];
        const auto& box = boxes_[static_cast<std::size_t>(b)];
        double* change = scratch.change.data() + int64_t{b} * width;
        for (int32_t k = 0; k < width; ++k) {
            const auto residual = [&](int64_t i) { return leaf[i * width + k] - value[tree[i] * width + k]; };
            double sum[2] = {residual(box.members), 0.0};  // two additions at a time
            for (int32_t i = 1; i < box.n_members; ++i) sum[i % 2] += residual(box.members + i);
            change[k] = sum[0] + sum[1];
        }
    }
}

namespace {

// A part of a box with the literals it needs and those that are free, packed.
constexpr int kMaskBits = 12;
constexpr uint32_t kMask = (1u << kMaskBits) - 1;
constexpr int64_t packed(int64_t part, uint32_t needed, uint32_t free) {
    return part << (2 * kMaskBits) | int64_t{needed} << kMaskBits | free;
}

// The number of bits of each mask, in a table: not every processor that this is compiled for counts them
// itself.
constexpr auto kBitCount = [] {
    std::array<std::uint8_t, 1 << kMaskBits> count{};
    for (std::size_t i = 1; i < count.size(); ++i) count[i] = static_cast<std::uint8_t>(count[i / 2] + i % 2);
    return count;
}();

}  // namespace

// Sorts the parts of reached boxes by the number of their free literals.
void Plan::list_jobs(Scratch& scratch, int64_t* n_jobs) const {
    static_assert(kMostLiterals <= kMaskBits);
    const auto n_reached = scratch.n_reached;
    const auto n_parts = static_cast<int64_t>(parts_.size());
    scratch.job.reset((kBuckets + 1) * n_parts);
    int64_t* job = scratch.job.data();
    for (int64_t r = 0; r < n_reached; ++r) {
        const auto& box = boxes_[static_cast<std::size_t>(scratch.reached[r])];
        const auto [fails, open] = scratch.mask[scratch.reached[r]];
        for (auto i = box.parts; i < box.parts + box.n_parts; ++i) {
            const auto needed = fails | parts_[static_cast<std::size_t>(i)].forced, free = open & ~needed;
            const int bucket = needed & ~open ? kBuckets : std::min<int>(kBitCount[free], kBuckets - 1);
            job[bucket * n_parts + n_jobs[bucket]++] = packed(i, needed, free);
        }
    }
}

void Plan::spread(const RowTables& tables, Scratch& scratch, Buffer<double>& weights) const {
    test_literals(tables, scratch.literal);
    test_boxes(tables, scratch);
    find_changes(scratch);
    int64_t n_jobs[kBuckets + 1] = {};  // the last are those that cannot be reached
    list_jobs(scratch, n_jobs);
    const auto n_parts = static_cast<int64_t>(parts_.size());
    const int64_t* job = scratch.job.data();
    weights.reset(int64_t{group_.width} * terms_.n_weights, 0.0);
    double* w = weights.data();
    spread_parts<0>(scratch, job, n_jobs[0], w);
    spread_parts<1>(scratch, job + n_parts, n_jobs[1], w);
    spread_parts<2>(scratch, job + 2 * n_parts, n_jobs[2], w);
    spread_parts<3>(scratch, job + 3 * n_parts, n_jobs[3], w);
    spread_parts<4>(scratch, job + 4 * n_parts, n_jobs[4], w);
    for (int64_t i = 0; i < n_jobs[5]; ++i) spread_part(scratch, job[5 * n_parts + i], w);
    for (int32_t k = 0; k < group_.width; ++k) w[int64_t{k} * terms_.n_weights] = 0.0;
}

// Spreads parts with this many free literals: their sets are all numbers up to 2^kFree, spread over the free
// bits.
template <int kFree>
void Plan::spread_parts(const Scratch& scratch, const int64_t* job, int64_t n, double* weights) const {
    if (group_.width != 1) {
        for (int64_t i = 0; i < n; ++i) spread_part(scratch, job[i], weights);
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        const auto part = static_cast<std::size_t>(job[i] >> (2 * kMaskBits));
        const auto needed = static_cast<uint32_t>(job[i] >> kMaskBits) & kMask;
        const auto free = static_cast<uint32_t>(job[i]) & kMask;
        const double change[2] = {scratch.change[part_box_[part]], -scratch.change[part_box_[part]]};
        const auto* entry = entry_.data() + parts_[part].entries;
        uint32_t set = free;
        for (int s = 0; s < 1 << kFree; ++s, set = (set - 1) & free) {
            const auto e = entry[needed | set];
            weights[e >> 1] += change[e & 1];
        }
    }
}

void Plan::spread_part(const Scratch& scratch, int64_t job, double* weights) const {
    const auto part = static_cast<std::size_t>(job >> (2 * kMaskBits));
    const auto needed = static_cast<uint32_t>(job >> kMaskBits) & kMask,
               free = static_cast<uint32_t>(job) & kMask;
    const auto width = group_.width;
    const double* change = scratch.change.data() + int64_t{part_box_[part]} * width;
    const auto* entry = entry_.data() + parts_[part].entries;
    for (auto set = free;; set = (set - 1) & free) {
        const auto e = entry[needed | set];
        for (int32_t k = 0; k < width; ++k)
            weights[int64_t{k} * terms_.n_weights + (e >> 1)] += e & 1 ? -change[k] : change[k];
        if (set == 0) break;
    }
}

void Plan::error_scales(const RowTables& tables, const Scratch& scratch, Buffer<double>& scale) const {
    scale.reset(terms_.n_components(), 0.0);
    const auto n_trees = static_cast<double>(group_.root.size());
    for (int64_t r = 0; r < scratch.n_reached; ++r) {
        const auto b = scratch.reached[r];
        const auto& box = boxes_[static_cast<std::size_t>(b)];
        const auto fails = scratch.mask[b].fails;
        double size = 0.0;
        for (int32_t k = 0; k < group_.width; ++k) {
            const double change = scratch.change[int64_t{b} * group_.width + k];
            size += change * change;
        }
        for (int32_t j = 0; j < box.n_literals; ++j)
            if (fails >> j & 1) {
                const auto& l = literals_[static_cast<std::size_t>(
                    box_literal_[static_cast<std::size_t>(box.literals + j)])];
                size *= std::max(l.lo < 0 ? 0.0 : tables.reach(l.lo), l.hi < 0 ? 0.0 : tables.reach(l.hi));
            }
        const auto e = entry_[static_cast<std::size_t>(parts_[static_cast<std::size_t>(box.parts)].entries +
                                                       static_cast<int32_t>(fails))];
        scale[component_of_[static_cast<std::size_t>(e / 2)]] += n_trees * box.n_members * size;
    }
}

double Plan::largest_change(const Scratch& scratch) const {
    double sum = 0.0;
    for (std::size_t t = 0; t < group_.root.size(); ++t) {
        double square = 0.0;
        for (int32_t k = 0; k < group_.width; ++k) {
            const auto at = t * static_cast<std::size_t>(group_.width) + static_cast<std::size_t>(k);
            const double value = scratch.value[static_cast<int64_t>(at)];
            const double most = std::max(group_.most[at] - value, value - group_.least[at]);
            square += most * most;
        }
        sum += std::sqrt(square);
    }
    return sum;
}

}  // namespace predgap
