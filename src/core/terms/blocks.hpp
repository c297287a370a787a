// Large components of two or three numeric features: terms in blocks, and pairs of terms in different blocks
// all at once.
//
// Terms are sorted by their first atom. The factor of a slot, for a pair of terms s and t, is
//     u_s v_t   if the atom of s is not above that of t,      v_s u_t   if it is,
// with u = F and v = S in the subset. Of the feature outside, u = F and v = 1 below x, u = 1 and v = S above
// it, and the factor is 0 across x. So what the blocks before t give it are, for each way in which the other
// atoms of s can lie (not above, or above), sums over s that depend on t by the ranks of its atoms only:
// running sums over a grid of ranks. Each sums what belongs to it, and nothing is subtracted.
#pragma once

#include <algorithm>

#include "terms/form.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// The sums over ranks for one output: rows and columns are ranks of the second last and the last slot.
template <int kSlots>
class RankGrid {
public:
    static constexpr int kSums =
        RankSums::count(kSlots);  // bit 0: columns from above; bit 1: rows from above

    RankGrid(const Form& f, std::int32_t outside) : RankGrid(f, outside, f.scratch) {}

    // The u and v of the first slot, by which terms are sorted.
    const double* u() const { return terms_.u[0]; }
    const double* v() const { return terms_.v[0]; }

    void clear() {
        for (int i = 0; i < kSums; ++i) std::fill_n(sums_.cell[i], n_cells_, 0.0);
    }
    void add(std::int64_t s, double amount) {
        const auto at = place(s);
        for (int i = 0; i < kSums; ++i) {
            double a = amount;
            for (int j = 1; j < kSlots; ++j) a *= (is_above(i, j) ? terms_.v[j] : terms_.u[j])[s];
            sums_.cell[i][at] += a;
        }
    }
    // The sum of what all terms that were added before the last refresh() give to t.
    double with(std::int64_t t) const {
        double total = 0.0;
        for (int i = 0; i < kSums; ++i) {
            double a = sums_.sum[i][place(t) + (i & 1) + (i & 2 ? n_columns() : 0)];
            for (int j = 1; j < kSlots; ++j) a *= (is_above(i, j) ? terms_.u[j] : terms_.v[j])[t];
            total += a;
        }
        return total;
    }
    void refresh() {
        for (std::int64_t row = 0; row < n_rows(); ++row) sum_columns(row * n_columns());
        if constexpr (kSlots == 3) sum_rows();
    }

private:
    static constexpr int kColumn = kSlots - 1, kRow = kSlots - 2;  // slots

    RankGrid(const Form& f, std::int32_t outside, Arena memory)
        : stride_(f.c.stride),
          terms_(memory, kSlots, stride_),
          n_cells_(find_ranks(f, outside, memory)),
          sums_(memory, kSlots, n_cells_) {}

    // Gathers and ranks the terms; returns the number of cells. The marks lie where the sums come later:
    // `later` is a copy of the memory.
    std::int64_t find_ranks(const Form& f, std::int32_t outside, const Arena& memory) {
        for (int j = 0; j < kSlots; ++j) gather(f, j, j == outside);
        const auto& atoms = f.tables.model().atoms;
        for (int j = 1; j < kSlots; ++j) {
            const auto q = f.tables.model().feature_of(f.atom[j * stride_]);
            Arena later = memory;
            set_ranks(f, j, q, j == outside, take_marks(later, atoms.begin[q + 1] - atoms.begin[q]));
        }
        return n_rows() * n_columns();
    }

    static bool is_above(int sum, int slot) { return sum >> (kColumn - slot) & 1; }

    std::int64_t n_columns() const { return n_ranks_[kColumn]; }
    std::int64_t n_rows() const { return kSlots == 3 ? n_ranks_[kRow] : 1; }
    std::int64_t place(std::int64_t t) const {
        return (kSlots == 3 ? terms_.rank[kRow][t] * n_columns() : 0) + terms_.rank[kColumn][t];
    }

    void gather(const Form& f, int slot, bool outside) {
        const auto* atom = f.atom + slot * stride_;
        const double* table = f.tables.tail.data();
        for (std::int64_t i = 0; i < f.c.n_terms; ++i) {
            const bool below = outside && !f.tables.event[atom[i]], above = outside && !below;
            terms_.u[slot][i] = above ? 1.0 : table[2 * atom[i]];
            terms_.v[slot][i] = below ? 1.0 : table[2 * atom[i] + 1];
        }
    }

    // Ranks the atoms of a slot among those that occur. One rank stays empty: between those below x and those
    // above it if the feature is outside, whose factors across x are 0; else at the end. So does another one
    // at the end, for with() looks at the rank after that of a term.
    void set_ranks(const Form& f, int slot, std::int32_t q, bool outside, std::int32_t* rank_of) {
        const auto& atoms = f.tables.model().atoms;
        const auto first = atoms.begin[q], n = atoms.begin[q + 1] - first;
        const auto* atom = f.atom + slot * stride_;
        std::fill_n(rank_of, n, 0);
        for (std::int64_t i = 0; i < f.c.n_terms; ++i) rank_of[atom[i] - first] = 1;
        const auto above = outside ? f.tables.first_above[q] - first : n;
        std::int32_t next = 0;
        empty_[slot] = -1;
        for (std::int32_t a = 0; a < n; ++a) {
            if (a == above) empty_[slot] = next++;
            if (rank_of[a]) rank_of[a] = next++;
        }
        if (empty_[slot] < 0) empty_[slot] = next++;
        n_ranks_[slot] = next + 1;
        for (std::int64_t i = 0; i < f.c.n_terms; ++i) terms_.rank[slot][i] = rank_of[atom[i] - first];
    }

    // Sums the cells of a row from below and from above. No sum goes beyond the empty rank.
    void sum_columns(std::int64_t row) {
        double run[kSums] = {};
        const auto n = n_columns(), empty = empty_[kColumn];
        for (std::int64_t k = 0; k < n; ++k) {
            const auto up = row + k, down = row + n - 1 - k;
            for (int i = 0; i < kSums; i += 2) {
                run[i] = k == empty ? 0.0 : run[i] + sums_.cell[i][up];
                run[i + 1] = n - 1 - k == empty ? 0.0 : run[i + 1] + sums_.cell[i + 1][down];
                sums_.sum[i][up] = run[i];
                sums_.sum[i + 1][down] = run[i + 1];
            }
        }
    }
    void sum_rows() {
        const auto n = n_rows(), empty = empty_[kRow];
        const auto add_row = [&](int i, std::int64_t to, std::int64_t from) {
            double* sum = sums_.sum[i];
            const auto m = n_columns();
            for (std::int64_t k = 0; k < m; ++k) sum[to * m + k] += sum[from * m + k];
        };
        for (std::int64_t row = 1; row < n; ++row)
            for (int i = 0; i < 2; ++i)
                if (row != empty) add_row(i, row, row - 1);
        for (auto row = n - 1; row-- > 0;)
            for (int i = 2; i < kSums; ++i)
                if (row != empty) add_row(i, row, row + 1);
    }

    std::int64_t stride_;
    std::int64_t n_ranks_[kSlots], empty_[kSlots];
    RankedTerms terms_;
    std::int64_t n_cells_;
    RankSums sums_;
};

// The number of terms per block; all of them where pairs one by one take less.
PREDGAP_INLINE std::int64_t block_of(const Form& f) {
    if (f.c.n_terms < 2 * kLeastBlock) return f.c.stride;
    const auto& atoms = f.tables.model().atoms;
    std::int64_t n_ranks[2] = {1, 1};
    for (std::int32_t j = 1; j < f.c.size && f.c.size <= kMostBlockSlots; ++j) {
        const auto q = f.tables.model().feature_of(f.atom[j * f.c.stride]);
        n_ranks[j - 1] = atoms.begin[q + 1] - atoms.begin[q];
    }
    return terms_per_block(f.c, n_ranks[0], n_ranks[1]);
}

// Takes the terms from first to n, whose factors in the sorted slot are u_s v_t for s before t, and gives the
// sum over pairs in different blocks. What the blocks before a term give it is added to `product`, if given.
template <int kSlots>
double with_earlier_blocks(const Form& f, RankGrid<kSlots>& grid, const double* weight, std::int64_t first,
                           std::int64_t n, std::int64_t block, double* product) {
    double total = 0.0;
    grid.clear();
    for (auto begin = first; begin < n && !f.stopped();) {
        const auto end = std::min((begin / block + 1) * block, n);
        for (auto t = begin; begin > first && t < end; ++t) {
            const double with = grid.v()[t] * grid.with(t);
            total += weight[t] * with;
            if (product) product[t] += with;
        }
        for (auto s = begin; end < n && s < end; ++s) grid.add(s, weight[s] * grid.u()[s]);
        if (end < n) grid.refresh();
        begin = end;
    }
    return 2.0 * total;
}

template <int kSlots>
void add_later_blocks(const Form& f, RankGrid<kSlots>& grid, const double* weight, std::int64_t n,
                      std::int64_t block, double* product) {
    grid.clear();
    for (auto end = n; end > 0 && !f.stopped();) {
        const auto begin = (end - 1) / block * block;
        for (auto t = begin; end < n && t < end; ++t) product[t] += grid.u()[t] * grid.with(t);
        for (auto s = begin; begin > 0 && s < end; ++s) grid.add(s, weight[s] * grid.v()[s]);
        if (begin > 0) grid.refresh();
        end = begin;
    }
}

// The sum over pairs of terms in different blocks, and their part of the products.
template <int kSlots, bool kProduct>
double between_blocks(const Form& f, std::int32_t outside, std::int64_t block) {
    RankGrid<kSlots> grid(f, outside);
    const std::int64_t n = f.c.n_terms;
    std::int64_t above = 0;  // where the sorted slot is outside: the first term above x
    while (outside == 0 && above < n && !f.tables.event[f.atom[above]]) ++above;
    double total = 0.0;
    for (std::int64_t k = 0; k < f.width; ++k) {
        const double* weight = f.weight + k * f.n_weights;
        double* product = kProduct ? f.product + k * f.n_weights : nullptr;
        if (outside == 0) total += with_earlier_blocks(f, grid, weight, 0, above, block, product);
        total += with_earlier_blocks(f, grid, weight, above, n, block, product);
        if (kProduct) add_later_blocks(f, grid, weight, n, block, product);
    }
    return total;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
