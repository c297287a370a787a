// Distinct products of atoms, collected one by one and then laid out as RowTerms.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/model.hpp"
#include "simd/buffer.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

// Mixes up the bits of a number; the result is the same for the same input.
constexpr std::uint64_t scrambled(std::uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9;
    i = (i ^ i >> 27) * 0x94d049bb133111eb;
    return i ^ i >> 31;
}

// Finds numbers by exact 64-bit keys, each with a hash that goes with it; cleared in no time.
class KeyTable {
public:
    // Numbers are handed out one after the other from `first` on.
    void clear(std::int32_t first);
    void make_room(std::int64_t n_more) {
        if (2 * (hash_.size() + n_more) > slots_.size()) rehash(2 * (hash_.size() + n_more));
    }
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(slots_.data() + place(hash)); }
    // The bytes of a table that is as large as these keys alone make it.
    double bytes() const;
    // The number of a key; one that is not there gets `next`. Room must have been made.
    std::int32_t find_or_add(std::uint64_t key, std::uint64_t hash, std::int32_t next) {
        for (auto i = place(hash);; i = (i + 1) & mask_) {
            auto& slot = slots_[i];
            if (slot.stamp != stamp_) {
                slot = {key, next, stamp_};
                hash_.push(static_cast<std::uint32_t>(hash >> 32));
                return next;
            }
            if (slot.key == key) return slot.number;
        }
    }

private:
    struct Slot {
        std::uint64_t key;
        std::int32_t number;
        std::uint32_t stamp;  // a slot is free unless it has the table's
    };
    std::int64_t place(std::uint64_t hash) const { return static_cast<std::int64_t>(hash >> shift_); }
    void rehash(std::int64_t n);

    Buffer<Slot> slots_;
    Buffer<std::uint32_t> hash_;  // upper halves, by number, to move to a larger table
    std::int32_t first_ = 0;      // the smallest number
    std::int64_t mask_ = 0;
    int shift_ = 63;
    std::uint32_t stamp_ = 0;
};

// A term is known by the term without its last atom, and that atom; term 0 is the empty one.
class TermStore {
public:
    explicit TermStore(const Model& model);

    void clear(std::int32_t width);
    std::int32_t size() const { return static_cast<std::int32_t>(term_.size()); }

    // An atom of a term, and the term without it.
    struct Slot {
        std::int32_t atom, parent;
    };
    // The sum over a term's atoms is its hash.
    std::uint64_t hash_of(std::int32_t atom) const { return hash_[atom]; }
    void prefetch(std::uint64_t hash) const { keys_.prefetch(hash); }
    void make_room(std::int64_t n_more) { keys_.make_room(n_more); }
    // The term that is the prefix and one more atom; room must have been made. If it is new, fill(slots)
    // writes its atoms, n_atoms of them, and its parents.
    template <class Fill>
    std::int32_t find_or_add(std::int32_t prefix, std::int32_t atom, std::uint64_t hash, std::int32_t n_atoms,
                             Fill fill) {
        const auto next = size(), found = keys_.find_or_add(key(prefix, atom), hash, next);
        return found != next ? found : add(prefix, atom, n_atoms, fill);
    }
    // Finds or adds a term likewise, where all shorter terms are there already.
    std::int32_t find_or_add(std::int32_t prefix, std::int32_t atom);
    // A term of one atom, which the caller knows to be new; it is not found again.
    std::int32_t add_unfound(std::int32_t atom) {
        return add(0, atom, 1, [&](Slot* slot) { *slot = {atom, 0}; });
    }

    // The bytes that these terms take, also while they are laid out, and their components, once they are
    // known.
    double bytes() const;

    // The component of a term, after lay_out().
    std::int32_t component_of(std::int32_t term) const { return component_of_[term]; }
    double* weight(std::int32_t term) { return weight_.data() + std::int64_t{term} * width_; }

    // The number of doubles that the forms of a component need; see form_scratch.
    std::int64_t scratch_of(const Component& c, const std::int32_t* feature, std::int32_t width) const;
    // The work of such a form, if all features are numeric; see pairs_of_form.
    double pairs_of(const Component& c, const std::int32_t* feature) const;
    // Lays out all terms; weights (width, n_weights) are spread likewise.
    void lay_out(RowTerms& out, Buffer<double>& weights);
    Buffer<std::int32_t> place;            // where each term went among the weights
    Buffer<std::int32_t> component_place;  // where each component went

private:
    struct Term {
        std::int32_t slots, prefix, atom, first_atom;  // atom: the last one
    };
    struct Features {
        std::int32_t prefix, feature;  // the component without its last feature, and that feature
        std::int32_t size;
        bool has_sets;
    };
    static std::uint64_t key(std::int32_t high, std::int32_t low) {
        return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint32_t>(low);
    }
    template <class Fill>
    std::int32_t add(std::int32_t prefix, std::int32_t atom, std::int32_t n_atoms, Fill fill) {
        const auto at = static_cast<std::int32_t>(slots_.size());
        slots_.grow(at + n_atoms);
        fill(slots_.data() + at);
        term_.push({at, prefix, atom, slots_[at].atom});
        for (std::int32_t k = 0; k < width_; ++k) weight_.push(0.0);
        return size() - 1;
    }
    std::int64_t thresholds_of(const Component& c, const std::int32_t* feature, std::int32_t slot) const;
    void find_components();
    void order_components(RowTerms& out);
    static void list_alike(RowTerms& out);
    void find_leading(const RowTerms& out, Component& c) const;
    void order_terms(RowTerms& out);
    void write_slots(RowTerms& out, const Component& c, const std::int32_t* terms);
    void list_uses(RowTerms& out);

    const Model& model_;
    Buffer<std::uint64_t> hash_;  // (n_atoms)
    std::int32_t width_ = 1;
    KeyTable keys_, component_keys_;
    Buffer<Term> term_;
    Buffer<Slot> slots_;
    Buffer<double> weight_;  // (terms, width)
    Buffer<Features> component_;
    Buffer<std::uint64_t> features_hash_;            // of each term
    Buffer<std::int32_t> component_of_;              // of each term
    Buffer<std::int32_t> n_terms_, order_, listed_;  // of components; components by size; terms by component
    Buffer<std::int32_t> leading_, by_atom_, next_;  // of each term the leading atom; terms by it; -
};

// Gives numeric components of a few features places for their Gram matrices, as long as there is room.
void place_grams(RowTerms& terms);

}  // namespace predgap
