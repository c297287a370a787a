#include "algorithm1.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace predgap {

namespace {

using std::int32_t;

// Two nested walks over all nodes that keep, per feature, the interval of the path and its factor.
class Algorithm1 {
public:
    Algorithm1(const EnsembleView& e, const double* x, const double* scale, const std::uint8_t* subset)
        : e_(e),
          x_(x),
          scale_(scale),
          subset_(subset),
          l_(e.n_features, -kInfinity),
          r_(e.n_features, kInfinity),
          factor_(e.n_features, 1.0) {
        for (auto node : e.root) {
            while (e.feature[node] != kLeaf)
                node = x[e.feature[node]] < e.threshold[node] ? e.left[node] : e.right[node];
            prediction_ += e.value[node];
        }
    }

    double run() {
        for (const auto root : e_.root) visit(root, 1.0, kLeaf);
        return prediction_ * prediction_ + sum_;
    }

private:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    double cdf(int32_t q, double t) const {
        return 0.5 * std::erfc((x_[q] - t) / scale_[q] * 0.70710678118654752440);
    }

    double factor(int32_t q) const {
        if (l_[q] >= r_[q]) return 0.0;
        if (!subset_[q]) return l_[q] <= x_[q] && x_[q] < r_[q] ? 1.0 : 0.0;
        return cdf(q, r_[q]) - cdf(q, l_[q]);
    }

    void visit(int32_t node, double prod, int32_t outer) {
        if (prod == 0.0) return;  // also keeps prod / factor defined
        if (e_.feature[node] == kLeaf) {
            if (outer == kLeaf) {
                sum_ -= 2.0 * prediction_ * e_.value[node] * prod;
                for (const auto root : e_.root) visit(root, prod, node);
            } else {
                sum_ += e_.value[outer] * e_.value[node] * prod;
            }
            return;
        }
        const auto q = e_.feature[node];
        const double l = l_[q], r = r_[q], f = factor_[q], t = e_.threshold[node];
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
    std::vector<double> l_, r_, factor_;
    double prediction_ = 0.0, sum_ = 0.0;
};

}  // namespace

double algorithm1_gap(const EnsembleView& e, const double* x, const double* scale,
                      const std::uint8_t* subset) {
    return Algorithm1(e, x, scale, subset).run();
}

}  // namespace predgap
