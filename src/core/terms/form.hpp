// A component of a row's terms with all that its quadratic forms need.
#pragma once

#include "terms/form_scratch.hpp"
#include "terms/term_state.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

constexpr std::int32_t kInside = -1;  // no slot is outside the subset

struct Form {
    const Component& c;
    const RowTables& tables;
    const std::int32_t* atom;  // (size, stride)
    const double* weight;      // of its first term; outputs are n_weights apart
    double* product;           // likewise
    std::int64_t n_weights, width;
    Arena scratch;  // its arrays are taken from a copy
    const SetFactors& sets;
    const CellGrid* grid;  // if it is evaluated over its cells
    const RowWork& work;

    PREDGAP_INLINE Form(TermState& s, std::int32_t component) : Form(s, component, s.weight) {}
    PREDGAP_INLINE Form(TermState& s, std::int32_t component, const Buffer<double>& weights)
        : c(s.terms->component[component]),
          tables(*s.tables),
          atom(s.terms->atom.data() + c.slots),
          weight(weights.data() + c.first_term),
          product(s.product.data() + c.first_term),
          n_weights(s.terms->n_weights),
          width(s.terms->width),
          scratch(s.scratch),
          sets(*s.sets),
          grid(c.has_sets ? sets.grid(component) : nullptr),
          work(*s.work) {}

    // True if the row was stopped. All long loops look at it; results are then void.
    PREDGAP_INLINE bool stopped() const { return work.stopped(); }

    PREDGAP_INLINE double dot(std::int32_t s, std::int32_t t) const {
        double sum = weight[s] * weight[t];
        for (std::int64_t k = 1; k < width; ++k) sum += weight[k * n_weights + s] * weight[k * n_weights + t];
        return sum;
    }
};

// Versions of the weights of a component, (n, stride) of them.
struct VersionWeights {
    const double* weight;
    std::int64_t n;
};

}  // namespace
}  // namespace predgap::PREDGAP_ISA
