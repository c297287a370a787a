// The terms of a shared plan that matter to one row.
#pragma once

#include "noise/row_tables.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

class Compaction {
public:
    // Copies the terms that are not negligible, and all that these need, with their weights. A term is
    // negligible if |weight| * P(all of its atoms are crossed) is at most `negligible` times the largest main
    // effect of its features; terms of one feature never are.
    void run(const RowTerms& all, const Buffer<double>& all_weights, const RowTables& tables,
             const double* main_effect, double negligible, RowTerms& kept, Buffer<double>& weights);
    // Where a component of the plan went, or RowTerms::kNoComponent.
    Buffer<std::int32_t> component_place;

private:
    void mark(const RowTerms& all, const Buffer<double>& all_weights, const RowTables& tables,
              const double* main_effect, double negligible);
    void copy_component(const RowTerms& all, const Component& from, RowTerms& kept, const Component& to);

    Buffer<std::uint8_t> is_kept_;  // (n_weights) of the plan
    Buffer<std::int32_t> n_kept_;   // (n_components)
    Buffer<std::int32_t> place_;    // (n_weights)
};

}  // namespace predgap
