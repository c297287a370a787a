// One row and its noise: where it lies among the atoms, and how likely each of them is crossed.
#pragma once

#include <cstdint>

#include "model/model.hpp"
#include "noise/category_noise.hpp"
#include "noise/law.hpp"
#include "simd/buffer.hpp"

namespace predgap {

// The noise of every feature, as it is for all rows.
struct NoiseLaws {
    const LawArrays* of;
    const CategoryNoise* categories;  // null if all features are numeric
};

// A row as it comes: cast as the model casts it, or cells; NaN is missing.
struct RawRow {
    const double* x;              // (n_features)
    const double *below, *above;  // (n_thresholds) tails of features with Law::table; null if there are none
    const std::uint8_t* still;    // (n_features) 1 if it does not move in this row; null if all may
};

// The tables of one row. For an atom, which is an event such as {z < c}, tau stands for 1[x' in it] - 1[x in
// it].
class RowTables {
public:
    RowTables(const Model& model, const NoiseLaws& laws);

    // Reads a row. No feature is open before open() is called.
    void load(const RawRow& row);
    // Fills the tables of the features of a subset (n_features) that move in this row, and opens them; the
    // others are closed.
    void open(const std::uint8_t* subset);

    const Model& model() const { return model_; }
    const NoiseLaws& laws() const { return laws_; }
    double value(std::int32_t q) const { return x[q]; }
    double F(std::int64_t atom) const { return tail[2 * atom]; }
    double S(std::int64_t atom) const { return tail[2 * atom + 1]; }
    double reach(std::int64_t atom) const { return shift[atom] < 0 ? -shift[atom] : shift[atom]; }
    // P(c <= x' < c') of two thresholds of a feature; kNoAtom: no limit on this side.
    static constexpr std::int64_t kNoAtom = -1;
    double mass_between(std::int64_t lo, std::int64_t hi) const;
    // P(x' in a set of the feature's cells).
    double mass(std::int32_t q, const std::uint64_t* cells) const;
    // E[tau tau'] of two sets of a feature's categories, or the covariance of tau and tau', from their
    // determinant (see CategoryNoise) and the means of both.
    struct SetFactor {
        double by_determinant, by_means;
        PREDGAP_INLINE bool is_determinant() const { return by_determinant == 1.0 && by_means == 0.0; }
        PREDGAP_INLINE double of(double determinant, double mean, double other_mean) const {
            return by_determinant * determinant + by_means * mean * other_mean;
        }
    };
    SetFactor moment(std::int32_t q) const;
    SetFactor covariance(std::int32_t q) const;

    bool goes_left(const TreeGroup& group, const Node& node) const {
        const auto q = node.feature;
        if (missing[q]) return node.default_left;
        if (node.way != Node::Way::both) return node.way == Node::Way::left;
        if (node.atom >= 0) return node.atom >= first_above[q];
        return holds(model_.cells.set(group.split[~node.atom].set), static_cast<std::int32_t>(x[q]));
    }
    // The child that the row goes to from a split, and the leaf that it comes to in the end.
    std::int32_t child(const EnsembleView& e, std::int32_t node) const {
        return e.goes_left(node, value(e.feature[node])) ? e.left[node] : e.right[node];
    }
    std::int32_t leaf(const EnsembleView& e, std::int32_t node) const {
        while (e.feature[node] != kLeaf) node = child(e, node);
        return node;
    }

    Buffer<double> x;                  // (n_features)
    Buffer<std::uint8_t> missing;      // (n_features)
    Buffer<std::uint8_t> moves;        // (n_features) 1 if the noise can move it in this row
    Buffer<std::uint8_t> is_open;      // (n_features) 1 if it moves and is in the subset
    Buffer<std::int32_t> first_above;  // (n_features) the first threshold above x
    Buffer<double> tail;               // (n_thresholds, 2) F = P(x' < c) and S = P(x' >= c)
    Buffer<double> crossing;           // (n_thresholds, 2) F if c <= x, else 0; S if c > x, else 0
    Buffer<double> shift;              // (n_atoms) E tau
    Buffer<std::uint8_t> event;        // (n_atoms) 1 if x is in it

    // The bytes of all of these; they are the same for all rows of a model.
    double bytes() const;
    static double bytes_of(const Model& model);

private:
    void open_sets(std::int32_t q);
    double stay_beyond_mass(std::int32_t q) const;

    const Model& model_;
    const NoiseLaws laws_;
};

}  // namespace predgap
