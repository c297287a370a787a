// The terms of one row: f(x') - f(x) = sum over terms of weight * product of tau over the term's atoms.
//
// A term is a product of atoms of different features; a component holds all terms on one set of features.
// The structure is laid out once for a model (Plan), or for one row (Compiler); the kernels see no
// difference.
#pragma once

#include <cstdint>

#include "simd/buffer.hpp"

namespace predgap {

struct Component {
    std::int32_t size;        // features
    std::int32_t n_terms;     // with atoms, sorted by those of the leading slot
    std::int32_t first_term;  // of the weights
    std::int32_t stride;      // terms with room: a multiple of four where there are more than two
    std::int64_t slots;       // atom and parent of slot j of term i are at slots + j * stride + i
    std::int32_t features;    // where its features begin
    bool has_sets;            // true if one of them is categorical
    std::int16_t leading;     // the first slot; with categories, that of the one with the most sets
};

// Components of one or two terms on several features, none of them categorical, that follow each other, all
// with as many features and terms: so do their weights and their slots.
struct RunOfEqualShapes {
    std::int32_t first, n;  // components
    std::int32_t size, n_terms;
};
PREDGAP_INLINE constexpr bool is_closed(const Component& c) {
    return c.n_terms <= 2 && c.size > 1 && !c.has_sets;
}

// A component that has a feature, and the feature's place in it.
struct Use {
    std::int32_t component, slot;
};

// A term with the feature, the term without it, and the atom in between.
struct Edge {
    std::int32_t term, parent, atom;
};

// Edges of a feature whose terms have the same first other feature, or none (kNoFeature).
struct EdgeBlock {
    static constexpr std::int32_t kNoFeature = -1;
    std::int32_t other, begin, end;
};

struct RowTerms {
    static constexpr std::int32_t kNoComponent = -1;
    static constexpr std::int32_t kNoGram = -1;
    static constexpr std::int32_t kRoom =
        4;  // the weights of the empty term, and a dummy slot for padding terms

    Buffer<Component> component;            // by ascending size; the first one is that of the empty term
    Buffer<RunOfEqualShapes> alike;         // those of one or two terms on several numbers
    Buffer<std::int32_t> feature;           // of the components, ascending in each
    Buffer<std::int32_t> parent_component;  // beside feature: the component without it, or kNoComponent
    Buffer<std::int32_t> atom, parent;      // of terms and slots; a parent is the term without that atom
    Buffer<std::int32_t> use_begin;         // (n_features + 1)
    Buffer<Use> use;
    Buffer<std::int32_t> block_begin;  // (n_features + 1), of a plan only: the blocks of each feature
    Buffer<EdgeBlock> block;
    Buffer<Edge> edge;                // of all terms with a feature, block by block
    Buffer<std::uint64_t> signature;  // (n_components), of a plan only: bits of its features, modulo 64
    Buffer<std::int32_t> gram_at;     // (n_components), of a plan only: where its Gram matrix is, or kNoGram
    std::int32_t n_gram = 0;          // doubles of all of these
    std::int32_t n_weights = 0;       // of one output, with room
    std::int32_t width = 1;           // outputs
    std::int64_t most_scratch = 0;    // doubles that the forms of the largest component need

    static constexpr std::uint64_t signature_of(std::int32_t feature) {
        return std::uint64_t{1} << feature % 64;
    }
    std::int32_t n_components() const { return static_cast<std::int32_t>(component.size()); }
    // The bytes of the arrays, with and without the room that is left in them.
    double bytes() const {
        return sum_over_arrays([](const auto& array) { return array.bytes(); });
    }
    double used_bytes() const {
        return sum_over_arrays([](const auto& array) { return array.used_bytes(); });
    }

private:
    template <class Of>
    double sum_over_arrays(Of of) const {
        return of(component) + of(alike) + of(feature) + of(parent_component) + of(atom) + of(parent) +
               of(use_begin) + of(use) + of(block_begin) + of(block) + of(edge) + of(signature) + of(gram_at);
    }
};

// The number of terms that a component has room for: forms work on four terms at a time, but closed forms on
// one or two.
constexpr std::int32_t stride_of(std::int32_t n_terms) {
    return n_terms <= 2 ? n_terms : (n_terms + 3) / 4 * 4;
}

}  // namespace predgap
