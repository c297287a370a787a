// Quadratic forms of components with categories, as sums over the cells of their features.
//
// Let h be the sum of W tau over the terms, at each cell; where a feature is in the cell of x, it is 0. Its
// part that no feature can be left out of is what remains when its means along all axes are subtracted, one
// axis after the other; the form is the mean square of that. Along the axis of a feature outside the subset
// nothing is subtracted. h is built up from x outwards, and of a number the probability of a cell is the
// difference of two tails on its side of x, so that small masses keep their digits.
#pragma once

#include "terms/form.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

// All 16 sets of four cells: 1 for a cell in the set, else 0.
alignas(32) constexpr double kFourCells[16][4] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {1, 1, 0, 0},
                                                  {0, 0, 1, 0}, {1, 0, 1, 0}, {0, 1, 1, 0}, {1, 1, 1, 0},
                                                  {0, 0, 0, 1}, {1, 0, 0, 1}, {0, 1, 0, 1}, {1, 1, 0, 1},
                                                  {0, 0, 1, 1}, {1, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}};

class GridForm {
public:
    GridForm(const Form& f, const CellGrid& grid, std::int32_t outside)
        : GridForm(f, grid, outside, f.scratch) {}

    // Fills the cells with h, the sum of W tau over the terms, for one output.
    void fill(std::int64_t output) {
        const double* weight = f_.weight + output * f_.n_weights;
        for (std::int64_t v = 0; v < g_.n_cells / 4; ++v) fours(cell_)[v] = four(0.0);
        for (std::int32_t t = 0; t < f_.c.n_terms; ++t)
            if (weight[t] != 0.0) add_term(t, weight[t], cell_);
        for (std::int32_t i = 0; i < g_.n_numeric; ++i) sum_outwards(i, cell_);
    }
    // Fills the cells with h for the only output, where `kept` has the terms that were added before, and then
    // their weights: most have not changed since.
    void refill(double* kept) {
        double* before = kept + g_.n_cells;
        for (std::int32_t t = 0; t < f_.c.n_terms; ++t) {
            if (f_.weight[t] == before[t]) continue;
            add_term(t, f_.weight[t] - before[t], kept);
            before[t] = f_.weight[t];
        }
        if (g_.n_numeric == 0) copy(kept, cell_, g_.n_cells);
        for (std::int32_t i = 0; i < g_.n_numeric; ++i) sum_outwards(i, i == 0 ? kept : cell_);
    }
    void centre() {
        for (std::int32_t i = 0; i <= last_; ++i)
            if (g_.slot[i] != outside_) i == last_ ? centre_rows() : centre_axis(i);
    }
    double mean() const { return sum_of<false>(0, 0); }
    double mean_square() const { return sum_of<true>(0, 0); }

    // Writes E[tau V] of each term, where V is what the cells have; they are used up.
    void write_products(std::int64_t output) {
        weigh(0, 0, 1.0);
        for (std::int32_t i = 0; i < g_.n_numeric; ++i) sum_inwards(i);
        for (std::int32_t t = 0; t < f_.c.n_terms; ++t) {
            const Four own = four(sign(t));
            each_four(t, [&](std::int64_t v, const Four& is_in) { fours(row_)[v] = is_in * own; });
            Four total = four(0.0);
            each_row(t, 0, 0, [&](std::int64_t row) {
                const Four* from = fours(cell_ + row);
                for (std::int64_t v = 0; v < g_.row() / 4; ++v) total += from[v] * fours(row_)[v];
            });
            f_.product[output * f_.n_weights + t] = sum(total);
        }
    }

private:
    GridForm(const Form& f, const CellGrid& grid, std::int32_t outside, Arena memory)
        : f_(f),
          g_(grid),
          last_(grid.n_axes - 1),
          outside_(outside),
          arrays_(memory, grid, f.c.n_terms),
          cell_(arrays_.cell),
          mean_(arrays_.mean),
          row_(arrays_.row) {
        for (std::int32_t i = 0; i <= last_; ++i)
            feature_[i] = f.tables.model().feature_of(f.atom[g_.slot[i] * f.c.stride]);
        for (std::int32_t i = 0; i <= last_; ++i)
            i < g_.n_numeric ? place_terms(i, arrays_.marks) : read_masses(i);
    }

    std::int32_t atom(std::int32_t axis, std::int32_t t) const {
        return f_.atom[g_.slot[axis] * std::int64_t{f_.c.stride} + t];
    }
    // tau is 1 or 0 where x is not in the event of the atom, and -1 or 0 where it is. Of a category that is
    // centred, any constant may be added: it is 0 where x' is most likely.
    bool is_complement(std::int32_t axis, std::int32_t atom) const {
        const bool moves = axis >= g_.n_numeric && g_.slot[axis] != outside_ && f_.tables.reach(atom) > 0.5;
        return (f_.tables.event[atom] != 0) != moves;
    }
    double sign(std::int32_t t) const {
        bool is_negative = false;
        for (std::int32_t i = 0; i <= last_; ++i) is_negative ^= is_complement(i, atom(i, t));
        return is_negative ? -1.0 : 1.0;
    }
    // The cells of a category where its part of a term is not 0: one word, 64 of them.
    std::uint64_t changed(std::int32_t axis, std::int32_t atom, std::size_t word) const {
        const auto& model = f_.tables.model();
        const auto set = model.set_atoms.bits(atom - model.n_thresholds())[word];
        return is_complement(axis, atom) ? model.cells.full_word(feature_[axis], word) & ~set : set;
    }

    // ---- places and probabilities of cells ----

    void read_masses(std::int32_t axis) {
        const auto& cells = f_.tables.model().cells;
        const auto& noise = *f_.tables.laws().categories;
        const auto q = feature_[axis];
        const auto own = static_cast<std::int32_t>(f_.tables.x[q]), first = cells.begin[q];
        for (std::int32_t z = 0; z < g_.padded_length(axis); ++z)
            arrays_.probability[axis][z] =
                z >= cells.count(q) ? 0.0 : (z == own ? noise.stay : noise.mass).data()[first + z];
    }

    // A term stands in the cell next to its threshold, away from x.
    void place_terms(std::int32_t axis, std::int32_t* marks) {
        const auto& atoms = f_.tables.model().atoms;
        const auto q = feature_[axis];
        const auto first = atoms.begin[q], n = atoms.begin[q + 1] - first;
        for (std::int32_t a = 0; a < n; ++a) marks[a] = 0;
        for (std::int32_t t = 0; t < f_.c.n_terms; ++t) marks[atom(axis, t) - first] = 1;
        const double* tail = f_.tables.tail.data() + 2 * first;
        double* p = arrays_.probability[axis];
        std::int32_t next = 0, own = 0, last = -1;  // last: the threshold before
        for (std::int32_t a = 0; a < n; ++a) {
            if (!marks[a]) continue;
            const bool above = f_.tables.event[first + a];
            if (!above) {  // the cell below it
                p[next] = tail[2 * a] - (last < 0 ? 0.0 : tail[2 * last]);
                own = next + 1;
            } else if (next == own) {
                p[next] = between(tail, last, a);
            } else {
                p[next] = tail[2 * last + 1] - tail[2 * a + 1];
            }
            marks[a] = above ? next + 1 : next;
            last = a;
            ++next;
        }
        p[next] = tail[2 * last + 1];
        for (std::int32_t i = 0; i <= next; ++i) p[i] = p[i] > 0.0 ? p[i] : 0.0;  // tails are rounded
        own_[axis] = own;
        for (std::int32_t t = 0; t < f_.c.n_terms; ++t) arrays_.place[axis][t] = marks[atom(axis, t) - first];
    }
    // The probability of the cell of x, by the smaller tails.
    static double between(const double* tail, std::int32_t low, std::int32_t high) {
        if (low < 0) return tail[2 * high];
        const double below = tail[2 * high], above = tail[2 * low + 1];
        return below < above ? below - tail[2 * low] : above - tail[2 * high + 1];
    }

    // ---- terms ----

    void add_term(std::int32_t t, double weight, double* cells) {
        const Four amount = four(sign(t) * weight);
        if (last_ == g_.n_numeric) {  // a single row
            each_row(t, 0, 0, [&](std::int64_t row) {
                each_four(
                    t, [&](std::int64_t v, const Four& is_in) { fours(cells + row)[v] += is_in * amount; });
            });
            return;
        }
        each_four(t, [&](std::int64_t v, const Four& is_in) { fours(row_)[v] = is_in * amount; });
        each_row(t, 0, 0, [&](std::int64_t row) { add(row_, cells + row, g_.row()); });
    }
    // visit(v, four cells of the last axis: 1 where a term changes, else 0).
    template <class Visit>
    void each_four(std::int32_t t, Visit visit) const {
        const auto own = atom(last_, t);
        for (std::int64_t v = 0; v < g_.row() / 4;) {
            auto set = changed(last_, own, static_cast<std::size_t>(v / 16));
            for (const auto end = std::min(v + 16, g_.row() / 4); v < end; ++v, set >>= 4)
                visit(v, *fours(kFourCells[set & 15]));
        }
    }
    // visit(where it begins) of all rows that a term changes.
    template <class Visit>
    void each_row(std::int32_t t, std::int32_t axis, std::int64_t at, const Visit& visit) const {
        if (axis == last_) return visit(at);
        if (axis < g_.n_numeric)
            return each_row(t, axis + 1, at + arrays_.place[axis][t] * g_.step[axis], visit);
        const auto own = atom(axis, t);
        for (std::int64_t first = 0; first < g_.length[axis]; first += 64)
            for (auto set = changed(axis, own, static_cast<std::size_t>(first / 64)); set; set &= set - 1)
                each_row(t, axis + 1, at + (first + __builtin_ctzll(set)) * g_.step[axis], visit);
    }

    // ---- along an axis ----

    // visit(first cell) of all lines along an axis; next to each other there are `step` of them.
    template <class Visit>
    void each_line(std::int32_t axis, Visit visit) {
        const auto n = g_.step[axis] * g_.length[axis];
        for (std::int64_t at = 0; at < g_.n_cells && !f_.stopped(); at += n) visit(cell_ + at);
    }
    static void copy(const double* from, double* to, std::int64_t n) {
        for (std::int64_t v = 0; v < n / 4; ++v) fours(to)[v] = fours(from)[v];
    }
    static void add(const double* from, double* to, std::int64_t n) {
        for (std::int64_t v = 0; v < n / 4; ++v) fours(to)[v] += fours(from)[v];
    }
    // Sums along an axis from x outwards. The summands are those of `from`, which may be the cells
    // themselves.
    void sum_outwards(std::int32_t axis, const double* from) {
        const auto step = g_.step[axis], own = own_[axis], n = g_.length[axis];
        each_line(axis, [&](double* line) {
            const double* other = from + (line - cell_);
            const auto sum = [&](std::int64_t i, std::int64_t nearer) {
                for (std::int64_t v = 0; v < step / 4; ++v)
                    fours(line + i * step)[v] = fours(other + i * step)[v] + fours(line + nearer * step)[v];
            };
            const auto low = std::max<std::int64_t>(own - 1, 0), high = std::min(own + 1, n - 1);
            if (from != cell_) copy(other + low * step, line + low * step, (high + 1 - low) * step);
            for (auto i = own - 2; i >= 0; --i) sum(i, i + 1);
            for (auto i = own + 2; i < n; ++i) sum(i, i - 1);
        });
    }
    void sum_inwards(std::int32_t axis) {
        const auto step = g_.step[axis], own = own_[axis];
        each_line(axis, [&](double* line) {
            for (std::int64_t i = 1; i < own; ++i) add(line + (i - 1) * step, line + i * step, step);
            for (auto i = g_.length[axis] - 2; i > own; --i)
                add(line + (i + 1) * step, line + i * step, step);
        });
    }
    void centre_axis(std::int32_t axis) {
        const auto n = g_.step[axis] / 4;
        each_line(axis, [&](double* line) {
            for (std::int64_t v = 0; v < n; ++v) fours(mean_)[v] = four(0.0);
            for (std::int64_t i = 0; i < g_.length[axis]; ++i) {
                const Four p = four(arrays_.probability[axis][i]);
                for (std::int64_t v = 0; v < n; ++v) fours(mean_)[v] += p * fours(line)[i * n + v];
            }
            for (std::int64_t i = 0; i < g_.length[axis]; ++i)
                for (std::int64_t v = 0; v < n; ++v) {
                    Four& own = fours(line)[i * n + v];
                    own = own - fours(mean_)[v];
                }
        });
    }
    void centre_rows() {
        for (std::int64_t at = 0; at < g_.n_cells; at += g_.row()) {
            const Four mean = four(sum_of<false>(last_, at));
            for (Four *own = fours(cell_ + at), *end = own + g_.row() / 4; own < end; ++own)
                *own = *own - mean;
        }
    }

    // ---- all cells ----

    // The mean of the cells from `at` on along this axis and those after it, or of their squares.
    template <bool kSquare>
    double sum_of(std::int32_t axis, std::int64_t at) const {
        if (axis == last_) {
            const Four *own = fours(cell_ + at), *p = fours(arrays_.probability[axis]);
            Four total = four(0.0);
            for (std::int64_t v = 0; v < g_.row() / 4; ++v)
                total += kSquare ? p[v] * own[v] * own[v] : p[v] * own[v];
            return sum(total);
        }
        double total = 0.0;
        for (std::int64_t i = 0; i < g_.length[axis]; ++i)
            if (const double p = arrays_.probability[axis][i]; p > 0.0)
                total += p * sum_of<kSquare>(axis + 1, at + i * g_.step[axis]);
        return total;
    }
    // Multiplies all cells by their probabilities.
    void weigh(std::int32_t axis, std::int64_t at, double p) {
        if (axis < last_) {
            for (std::int64_t i = 0; i < g_.length[axis]; ++i)
                weigh(axis + 1, at + i * g_.step[axis], p * arrays_.probability[axis][i]);
            return;
        }
        Four* own = fours(cell_ + at);
        for (std::int64_t v = 0; v < g_.row() / 4; ++v)
            own[v] = own[v] * (four(p) * fours(arrays_.probability[axis])[v]);
    }

    const Form& f_;
    const CellGrid& g_;
    const std::int32_t last_, outside_;
    std::int32_t feature_[CellGrid::kMostAxes];
    std::int64_t own_[CellGrid::kMostAxes];  // of numbers: the cell of x
    GridArrays arrays_;
    double *cell_, *mean_, *row_;
};

template <bool kProduct>
double form_by_cells(const Form& f, const CellGrid& grid, std::int32_t outside) {
    GridForm by(f, grid, outside);
    double total = 0.0;
    for (std::int64_t k = 0; k < f.width && !f.stopped(); ++k) {
        by.fill(k);
        by.centre();
        total += by.mean_square();
        if (kProduct) by.write_products(k);
    }
    return total;
}

// The form of a component whose form was computed before, from the cells and weights kept since; for one
// output.
double form_of_changes(const Form& f, const CellGrid& grid, double* kept) {
    GridForm by(f, grid, kInside);
    by.refill(kept);
    by.centre();
    return by.mean_square();
}

// The form of a category alone that is outside the subset, and its means.
double form_by_cells_outside(const Form& f, const CellGrid& grid, double* mean) {
    GridForm by(f, grid, 0);
    double total = 0.0;
    for (std::int64_t k = 0; k < f.width; ++k) {
        by.fill(k);
        mean[k] = by.mean();
        total += by.mean_square();
    }
    return total;
}

}  // namespace
}  // namespace predgap::PREDGAP_ISA
