// Reads rows, and fills the tables of the features that move.
#include "noise/row_tables.hpp"

#include <algorithm>
#include <cmath>

#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::uint64_t;

RowTables::RowTables(const Model& model, const NoiseLaws& laws) : model_(model), laws_(laws) {
    const auto d = model.n_features();
    x.reset(d, 0.0);
    first_above.reset(d, 0);
    for (auto* flags : {&missing, &moves, &is_open}) flags->reset(d, 0);
    tail.reset(2 * model.n_thresholds(), 0.0);
    crossing.reset(2 * model.n_thresholds(), 0.0);
    shift.reset(model.n_atoms(), 0.0);
    event.reset(model.n_atoms(), 0);
}

double RowTables::bytes() const {
    return x.used_bytes() + missing.used_bytes() + moves.used_bytes() + is_open.used_bytes() +
           first_above.used_bytes() + tail.used_bytes() + crossing.used_bytes() + shift.used_bytes() +
           event.used_bytes();
}

double RowTables::bytes_of(const Model& model) {
    constexpr double kOfFeature = sizeof(double) + sizeof(int32_t) + 3 * sizeof(std::uint8_t),
                     kOfThreshold = 4 * sizeof(double), kOfAtom = sizeof(double) + sizeof(std::uint8_t);
    return kOfFeature * model.n_features() + kOfThreshold * model.n_thresholds() + kOfAtom * model.n_atoms();
}

void RowTables::load(const RawRow& row) {
    const auto& atoms = model_.atoms;
    for (const auto q : model_.features) {
        const double value = row.x[q];
        const auto law = laws_.of->law[q];
        x[q] = value;
        missing[q] = std::isnan(value);
        is_open[q] = 0;
        moves[q] = !missing[q] && !(row.still && row.still[q]) && law != Law::still &&
                   (std::isfinite(value) || (law != Law::normal && law != Law::uniform));
        const auto *first = atoms.threshold.data() + atoms.begin[q],
                   *last = atoms.threshold.data() + atoms.begin[q + 1];
        first_above[q] = static_cast<int32_t>(std::upper_bound(first, last, value) - atoms.threshold.data());
        if (law != Law::table || !moves[q]) continue;
        for (auto a = atoms.begin[q]; a < atoms.begin[q + 1]; ++a) {
            tail[2 * a] = row.below[a];
            tail[2 * a + 1] = row.above[a];
        }
    }
}

void RowTables::open(const std::uint8_t* subset) {
    const auto& atoms = model_.atoms;
    for (const auto q : model_.features) {
        is_open[q] = subset[q] && moves[q];
        if (!is_open[q]) continue;
        const auto first = atoms.begin[q];
        if (model_.cells.categorical(q))
            open_sets(q);
        else if (first < atoms.begin[q + 1])
            kernels().fill_tables({.law = laws_.of->law[q],
                                   .parameter = laws_.of->parameter[q],
                                   .x = x[q],
                                   .stays = laws_.of->stays[q],
                                   .moves = laws_.of->moves[q],
                                   .low = std::min(laws_.of->low[q], x[q]),
                                   .high = std::max(laws_.of->high[q], x[q]),
                                   .threshold = atoms.threshold.data() + first,
                                   .at = laws_.of->at.data() + first,
                                   .fixed = laws_.of->fixed.data() + 2 * first,
                                   .n = atoms.begin[q + 1] - first,
                                   .tail = tail.data() + 2 * first,
                                   .crossing = crossing.data() + 2 * first,
                                   .shift = shift.data() + first,
                                   .event = event.data() + first});
    }
}

void RowTables::open_sets(int32_t q) {
    const auto& sets = model_.set_atoms;
    const auto cell = static_cast<int32_t>(x[q]);
    for (auto a = sets.begin[q]; a < sets.begin[q + 1]; ++a) {
        const auto s = a - model_.n_thresholds();
        event[a] = holds(sets.bits(s), cell);
        shift[a] = event[a] ? -laws_.categories->outside[s] : laws_.categories->inside[s];
    }
}

// Subtracts tails on their own side of the median, because a difference of two numbers near 1 has no digits.
double RowTables::mass_between(std::int64_t lo, std::int64_t hi) const {
    const double below = hi >= 0 ? F(hi) : 1.0;
    const double mass =
        below > 0.5 ? (lo >= 0 ? S(lo) : 1.0) - (hi >= 0 ? S(hi) : 0.0) : below - (lo >= 0 ? F(lo) : 0.0);
    return std::max(mass, 0.0);
}

double RowTables::mass(int32_t q, const uint64_t* set) const {
    const auto& arriving = laws_.categories->mass_of.at(q);
    const auto own = static_cast<int32_t>(x[q]);
    if (!holds(set, own)) return arriving.sum([&](std::size_t w) { return set[w]; });
    const auto own_word = static_cast<std::size_t>(own / 64);
    const double others = arriving.sum(
        [&](std::size_t w) { return w == own_word ? set[w] & ~(uint64_t{1} << (own % 64)) : set[w]; });
    return others + laws_.categories->stay[model_.cells.begin[q] + own];
}

// The mass that the region of x has beyond the sum of what arrives in its cells, because x may stay.
double RowTables::stay_beyond_mass(int32_t q) const {
    const auto cell = model_.cells.begin[q] + static_cast<int32_t>(x[q]);
    return laws_.categories->stay[cell] - laws_.categories->mass[cell];
}

// Let m be the masses that arrive, M their sum, and A the side of a set that x is not on. The set's tau has
// the mean e = +-m(A), and the determinant of two sets is +-(M m(A & A') - m(A) m(A')), by the signs of e e'.
// E[tau tau'], which is +-m(A & A') by the same signs, is thus (determinant + e e') / M.
RowTables::SetFactor RowTables::moment(int32_t q) const {
    const double total = laws_.categories->total[q];
    const double share = total > 0.0 ? 1.0 / total : 0.0;
    return {share, share};
}

// The covariance is P(A & A') P(neither) - P(A - A') P(A' - A), up to its sign: unlike P(A & A') - P(A) P(A')
// it does not cancel where A = A'. Of what is in neither, some may be there because x stays.
RowTables::SetFactor RowTables::covariance(int32_t q) const {
    const double more = stay_beyond_mass(q), of_moment = more * moment(q).by_means;
    return {1.0 + of_moment, of_moment};
}

}  // namespace predgap
