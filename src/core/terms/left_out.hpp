// Bounds of how far the pieces that are left out of a row's terms can move its gaps.
#pragma once

#include <cstdint>

#include "noise/row_tables.hpp"

namespace predgap {

// A piece is at most its size, and 0 unless x' crosses every atom of the piece. So E|D G| of two sums of
// pieces is at most the sum over pieces j of D and k of G of size_j size_k P(x' crosses the atoms of j, and
// one chosen atom of k, its anchor).
class LeftOut {
public:
    explicit LeftOut(const Model& model);

    void clear(const RowTables& tables);
    // Adds a box that stays, or pieces that are left out: of so much size in all, with this anchor.
    void add_box(std::int32_t anchor, double size) { box_[anchor] += size; }
    void add_size(std::int32_t anchor, double size) { size_[anchor] += size; }
    // Adds pieces that are left out: the sum of their sizes times the probabilities that they happen; and of
    // those with an atom.
    void add_mean(double mean) { all_ += mean; }
    void add_mean(std::int32_t atom, double mean) { mean_[atom] += mean; }

    // Upper bounds of E|D|, E[D^2] and E|D G|, where D is the sum of all pieces that are left out, and G that
    // of all boxes.
    double mean() const { return all_; }
    double square() const { return product(size_); }
    double with_boxes() const { return product(box_); }

    double bytes() const { return box_.used_bytes() + size_.used_bytes() + mean_.used_bytes(); }

private:
    double product(const Buffer<double>& size) const;
    double of_thresholds(const Buffer<double>& size, std::int32_t far, std::int32_t end,
                         std::int32_t step) const;
    double of_sets(const Buffer<double>& size, std::int32_t begin, std::int32_t end) const;

    const RowTables* tables_ = nullptr;
    Buffer<double> box_, size_, mean_;  // (n_atoms)
    double all_ = 0.0;
};

}  // namespace predgap
