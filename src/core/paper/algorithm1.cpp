// Computes the gap as the paper prints it: two nested walks over all nodes of all trees.
#include "paper/algorithm1.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace predgap {

namespace {

using std::int32_t;

// Two nested walks over all nodes that keep, per feature, the interval of the path and its factor.
template <class Real>
class Algorithm1 {
public:
    Algorithm1(const EnsembleView& e, const double* x, const double* scale, const std::uint8_t* subset)
        : e_(e),
          x_(x),
          scale_(scale),
          subset_(subset),
          l_(e.n_features, -kInfinity),
          r_(e.n_features, kInfinity),
          factor_(e.n_features, Real(1)) {
        for (auto node : e.root) {
            while (e.feature[node] != kLeaf)
                node = x[e.feature[node]] < e.threshold[node] ? e.left[node] : e.right[node];
            prediction_ += Real(e.value[node]);
        }
    }

    Real run() {
        for (const auto root : e_.root) visit(root, Real(1), kLeaf);
        return prediction_ * prediction_ + sum_;
    }

private:
    static constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

    Real cdf(int32_t q, Real t) const {
        return Real(0.5) * std::erfc((Real(x_[q]) - t) / Real(scale_[q]) * Real(0.70710678118654752440));
    }

    Real factor(int32_t q) const {
        if (l_[q] >= r_[q]) return Real(0);
        if (!subset_[q]) return l_[q] <= Real(x_[q]) && Real(x_[q]) < r_[q] ? Real(1) : Real(0);
        return cdf(q, r_[q]) - cdf(q, l_[q]);
    }

    void visit(int32_t node, Real prod, int32_t outer) {
        if (prod == Real(0)) return;  // also keeps prod / factor defined
        if (e_.feature[node] == kLeaf) {
            if (outer == kLeaf) {
                sum_ -= Real(2) * prediction_ * Real(e_.value[node]) * prod;
                for (const auto root : e_.root) visit(root, prod, node);
            } else {
                sum_ += Real(e_.value[outer]) * Real(e_.value[node]) * prod;
            }
            return;
        }
        const auto q = e_.feature[node];
        const Real l = l_[q], r = r_[q], f = factor_[q], t = Real(e_.threshold[node]);
        r_[q] = std::fmin(r, t);
        factor_[q] = factor(q);
        visit(e_.left[node], prod / f * factor_[q], outer);
        r_[q] = r;
        l_[q] = std::fmax(l, t);
        factor_[q] = factor(q);
        visit(e_.right[node], prod / f * factor_[q], outer);
        l_[q] = l;
        factor_[q] = f;
    }

    const EnsembleView& e_;
    const double* x_;
    const double* scale_;
    const std::uint8_t* subset_;
    std::vector<Real> l_, r_, factor_;
    Real prediction_ = 0, sum_ = 0;
};

}  // namespace

double algorithm1_gap(const EnsembleView& e, const double* x, const double* scale, const std::uint8_t* subset,
                      bool float32) {
    return float32 ? Algorithm1<float>(e, x, scale, subset).run()
                   : Algorithm1<double>(e, x, scale, subset).run();
}

}  // namespace predgap
