// Collects the sets of each feature that rows use, and fills the square of their determinants.
#include "terms/kept_sets.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

namespace {

// True if the complement of a set is the side with the smaller mass.
bool is_heavy(int32_t set, const RowTables& tables) {
    const auto& noise = *tables.laws().categories;
    return noise.inside[set] > noise.outside[set];
}

// A word of the side with the smaller mass: 64 of its cells.
uint64_t side_of(int32_t set, std::size_t word, const RowTables& tables) {
    const auto& model = tables.model();
    const auto bits = model.set_atoms.bits(set)[word];
    return is_heavy(set, tables) ? model.cells.full_word(model.set_atoms.feature[set], word) & ~bits : bits;
}

}  // namespace

// The most sets of a feature that are kept. All features that have sets share the room for determinants, 256
// MB; the cells of one take at most as much.
int64_t KeptSets::most_sets(const Model& model, int32_t q) {
    constexpr int64_t kMostSets = 2048, kMostDeterminants = 1 << 25, kMostCells = 1 << 26;
    const int64_t n = model.set_atoms.begin[q + 1] - model.set_atoms.begin[q];
    if (n == 0) return 0;
    int64_t n_features = 0;
    for (const auto p : model.features) n_features += model.set_atoms.begin[p + 1] > model.set_atoms.begin[p];
    const auto share = std::sqrt(static_cast<double>(kMostDeterminants) / static_cast<double>(n_features));
    return std::min({n, kMostSets, static_cast<int64_t>(share), kMostCells / model.cells.count(q)});
}

double KeptSets::bytes(const Model& model, const std::uint8_t* features) {
    double sum = 0.0;
    for (const auto q : model.features) {
        if (!features[q] || !model.cells.categorical(q)) continue;
        const auto n = static_cast<double>(most_sets(model, q)),
                   n_cells = static_cast<double>(model.cells.count(q));
        if (n == 0.0) continue;
        const auto stride = static_cast<double>(stride_of(most_sets(model, q)));
        sum += stride * (stride + 2.0) * sizeof(double) + n * 3.0 * sizeof(int32_t) +
               n * 0.5 * n_cells * sizeof(int32_t) + n_cells * SetSquare::kColumns * sizeof(double);
    }
    return sum;
}

// Lists the used sets that are not kept yet; false if there is no room for them.
bool KeptSets::list_new(const Buffer<int32_t>& used, const RowTables& tables, const int32_t* number) {
    new_.clear();
    for (const auto set : used)
        if (number[set] < 0) new_.push(set);
    if (stride_ == 0 && new_.size() > 0) make_room(tables.model(), tables.model().set_atoms.feature[new_[0]]);
    return set_.size() + new_.size() <= most_;
}

void KeptSets::forget(int32_t* number) {
    for (const auto set : set_) number[set] = -1;
    set_.clear();
    cell_.clear();
    begin_.reset(1, 0);
}

void KeptSets::make_room(const Model& model, int32_t q) {
    most_ = most_sets(model, q);
    stride_ = stride_of(most_);
    determinant_.reset(stride_ * stride_);
    side_.reset(stride_, 0.0);
    sign_.reset(stride_, 0.0);
    begin_.reset(1, 0);
}

void KeptSets::add_side(int32_t set, const RowTables& tables) {
    const auto& model = tables.model();
    const auto q = model.set_atoms.feature[set];
    const double* mass = tables.laws().categories->mass.data() + model.cells.begin[q];
    double sum = 0.0;
    for (std::size_t w = 0; w < model.cells.n_words(q); ++w)
        for (auto side = side_of(set, w, tables); side; side &= side - 1) {
            const auto z = static_cast<int32_t>(64 * w) + std::countr_zero(side);
            sum += mass[z];
            cell_.push(z);
        }
    side_[set_.size()] = sum;
    sign_[set_.size()] = is_heavy(set, tables) ? -1.0 : 1.0;
    begin_.push(static_cast<int32_t>(cell_.size()));
    set_.push(set);
}

// Fills the determinants from a set on. They belong to no row in particular, so what they take, which is not
// much, is not counted.
void KeptSets::fill_from(int64_t first, const RowTables& tables, const RowWork& work) {
    const auto& model = tables.model();
    const auto& noise = *tables.laws().categories;
    const auto q = model.set_atoms.feature[set_[0]];
    member_.reset(model.cells.count(q) * SetSquare::kColumns);
    const SetSquare square{.n = set_.size(),
                           .stride = stride_,
                           .n_cells = model.cells.count(q),
                           .begin = begin_.data(),
                           .cell = cell_.data(),
                           .mass = noise.mass.data() + model.cells.begin[q],
                           .total = noise.total[q],
                           .side = side_.data(),
                           .sign = sign_.data(),
                           .member = member_.data(),
                           .determinant = determinant_.data()};
    for (first -= first % SetSquare::kColumns; first < square.n; first += SetSquare::kColumns)
        if (!work.stopped()) kernels().fill_set_square(square, first);
}

bool KeptSets::add(const Buffer<int32_t>& used, const RowTables& tables, int32_t* number,
                   const RowWork& work) {
    if (!list_new(used, tables, number)) {
        forget(number);
        if (!list_new(used, tables, number)) return false;
    }
    if (new_.size() == 0) return true;
    const auto n_before = set_.size();
    for (const auto set : new_) {
        number[set] = static_cast<int32_t>(set_.size());
        add_side(set, tables);
    }
    fill_from(n_before, tables, work);
    const bool is_stopped = work.stopped();
    if (is_stopped) forget(number);
    return !is_stopped;
}

}  // namespace predgap
