// Finds the components of the collected terms, orders both, and lays them out.
#include "terms/term_store.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "terms/form_scratch.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

void KeyTable::clear(int32_t first) {
    first_ = first;
    hash_.clear();
    if (slots_.size() == 0 || stamp_ == std::numeric_limits<std::uint32_t>::max()) {
        slots_.reset(0);
        rehash(1 << 9);
    }
    ++stamp_;
}

double KeyTable::bytes() const {
    const auto n_slots = std::bit_ceil(static_cast<uint64_t>(2 * hash_.size()));
    return hash_.used_bytes() + static_cast<double>(n_slots * sizeof(Slot));
}

void KeyTable::rehash(int64_t n) {
    const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
    Buffer<Slot> old = std::move(slots_);
    slots_ = Buffer<Slot>(size);
    for (auto& slot : slots_) slot.stamp = 0;
    mask_ = size - 1;
    shift_ = 64 - std::countr_zero(static_cast<uint64_t>(size));
    for (const auto& slot : old) {
        if (slot.stamp != stamp_ || stamp_ == 0) continue;
        auto i = place(uint64_t{hash_[slot.number - first_]} << 32);
        while (slots_[i].stamp == stamp_) i = (i + 1) & mask_;
        slots_[i] = slot;
    }
}

TermStore::TermStore(const Model& model) : model_(model), hash_(model.n_atoms()) {
    for (int32_t a = 0; a < model.n_atoms(); ++a) hash_[a] = scrambled(static_cast<uint64_t>(a));
}

void TermStore::clear(int32_t width) {
    width_ = width;
    keys_.clear(1);
    component_keys_.clear(1);
    component_.clear();
    slots_.clear();
    term_.clear();
    term_.push({0, 0, -1, -1});
    weight_.clear();
    weight_.grow(width);
    std::fill_n(weight_.data(), width, 0.0);
}

double TermStore::bytes() const {
    // Beside each term: the hash of its features, its component, its place, and three orders. Beside each
    // component: its place, the number of its terms, and an order. Beside each atom: its hash, and where its
    // terms come.
    constexpr double kOfTerm = sizeof(uint64_t) + 6.0 * sizeof(int32_t), kOfComponent = 3.0 * sizeof(int32_t);
    return keys_.bytes() + term_.used_bytes() + slots_.used_bytes() + weight_.used_bytes() +
           kOfTerm * size() + component_keys_.bytes() + component_.used_bytes() +
           kOfComponent * static_cast<double>(component_.size()) + hash_.used_bytes() +
           static_cast<double>(hash_.size() + 1) * sizeof(int32_t);
}

// Finds the component of each term: that of its prefix, with one more feature.
void TermStore::find_components() {
    constexpr int32_t kAhead = 12;
    component_keys_.clear(1);
    component_.clear();
    component_.push({0, -1, 0, false});
    component_of_.reset(size());
    component_of_[0] = 0;
    // Like that of a term, the hash of a component is the sum over its features: it is known early.
    features_hash_.reset(size());
    features_hash_[0] = 0;
    const auto look_ahead = [&](int32_t t) {
        const auto feature = static_cast<uint64_t>(model_.feature_of(term_[t].atom));
        features_hash_[t] = features_hash_[term_[t].prefix] + scrambled(feature);
        component_keys_.prefetch(features_hash_[t]);
    };
    for (int32_t t = 1; t < std::min(size(), 1 + kAhead); ++t) look_ahead(t);
    for (int32_t t = 1; t < size(); ++t) {
        if (t + kAhead < size()) look_ahead(t + kAhead);
        component_keys_.make_room(1);
        const auto prefix = component_of_[term_[t].prefix], feature = model_.feature_of(term_[t].atom);
        const auto next = static_cast<int32_t>(component_.size());
        const auto found = component_keys_.find_or_add(key(prefix, feature), features_hash_[t], next);
        component_of_[t] = found;
        if (found != next) continue;
        component_.push({prefix, feature, component_[prefix].size + 1,
                         component_[prefix].has_sets || model_.cells.categorical(feature)});
    }
}

int32_t TermStore::find_or_add(int32_t prefix, int32_t atom) {
    make_room(1);
    const auto* before = slots_.data() + term_[prefix].slots;
    const auto end = prefix + 1 < size() ? int64_t{term_[prefix + 1].slots} : slots_.size();
    const auto n = static_cast<int32_t>(end - term_[prefix].slots);
    uint64_t hash = hash_of(atom);
    for (int32_t j = 0; j < n; ++j) hash += hash_of(before[j].atom);
    return find_or_add(prefix, atom, hash, n + 1, [&](Slot* slot) {
        before = slots_.data() + term_[prefix].slots;  // it may have moved
        for (int32_t j = 0; j < n; ++j) {
            const auto shorter = key(before[j].parent, atom);
            slot[j] = {before[j].atom, keys_.find_or_add(shorter, hash - hash_of(before[j].atom), -1)};
        }
        slot[n] = {atom, prefix};
    });
}

void TermStore::lay_out(RowTerms& out, Buffer<double>& weights) {
    out.width = width_;
    find_components();
    order_components(out);
    weights.reset(int64_t{width_} * out.n_weights, 0.0);
    order_terms(out);
    const auto* terms = listed_.data() + 1;
    for (int32_t i = 1; i < out.n_components(); terms += out.component[i].n_terms, ++i)
        write_slots(out, out.component[i], terms);
    for (int32_t t = 1; t < size(); ++t)
        for (int32_t k = 0; k < width_; ++k)
            weights[int64_t{k} * out.n_weights + place[t]] = weight_[int64_t{t} * width_ + k];
    list_uses(out);
}

// The number of thresholds of the feature of a slot; 1 if there is no such slot.
int64_t TermStore::thresholds_of(const Component& c, const int32_t* feature, int32_t slot) const {
    if (slot >= c.size) return 1;
    const auto q = feature[c.features + slot];
    return model_.atoms.begin[q + 1] - model_.atoms.begin[q];
}

int64_t TermStore::scratch_of(const Component& c, const int32_t* feature, int32_t width) const {
    const auto* own = feature + c.features;
    const auto n_sets =
        std::count_if(own, own + c.size, [&](int32_t q) { return model_.cells.categorical(q); });
    return form_scratch(c, width, n_sets, thresholds_of(c, feature, 1), thresholds_of(c, feature, 2));
}

double TermStore::pairs_of(const Component& c, const int32_t* feature) const {
    return pairs_of_form(c, thresholds_of(c, feature, 1), thresholds_of(c, feature, 2));
}

// Orders components by size and number of terms: those alike follow each other, and branches are foreseen.
void TermStore::order_components(RowTerms& out) {
    const auto n = component_.size();
    n_terms_.reset(n, 0);
    for (const auto c : component_of_) ++n_terms_[c];
    constexpr int32_t kLengths = 32;
    int32_t largest = 0;
    for (const auto& c : component_) largest = std::max(largest, c.size);
    const auto bucket = [&](int64_t c) {
        const auto kind = 2 * component_[c].size + component_[c].has_sets;
        return kind * kLengths + std::min(n_terms_[c], kLengths) - 1;
    };
    Buffer<int64_t> next(2 * (largest + 1) * kLengths + 1);
    std::fill(next.begin(), next.end(), 0);
    for (int64_t c = 0; c < n; ++c) ++next[bucket(c) + 1];
    for (int64_t k = 0; k + 1 < next.size(); ++k) next[k + 1] += next[k];
    order_.reset(n);
    component_place.reset(n);
    for (int64_t c = 0; c < n; ++c) {
        const auto at = next[bucket(c)]++;
        order_[at] = static_cast<int32_t>(c);
        component_place[c] = static_cast<int32_t>(at);
    }
    out.component.reset(n);
    int64_t slots = 0, n_features = 0;
    out.n_weights = 0;
    out.most_scratch = 0;
    for (int64_t i = 0; i < n; ++i) {
        const auto& c = component_[order_[i]];
        const auto n_terms = n_terms_[order_[i]], stride = i ? stride_of(n_terms) : RowTerms::kRoom;
        out.component[i] = {
            c.size, n_terms, out.n_weights, stride, slots, static_cast<int32_t>(n_features), c.has_sets, 0};
        out.n_weights += stride;
        slots += int64_t{stride} * c.size;
        n_features += c.size;
    }
    out.n_weights = (out.n_weights + 4) / 4 * 4;  // closed forms read a weight past the only one
    list_alike(out);
    out.atom.reset(slots);
    out.parent.reset(slots);
    out.feature.reset(n_features);
    out.parent_component.reset(n_features, RowTerms::kNoComponent);
    for (int64_t i = 1; i < n; ++i) {
        auto c = order_[i];
        for (auto slot = out.component[i].size; slot-- > 0; c = component_[c].prefix)
            out.feature[out.component[i].features + slot] = component_[c].feature;
        if (out.component[i].has_sets) find_leading(out, out.component[i]);
        out.most_scratch =
            std::max(out.most_scratch, scratch_of(out.component[i], out.feature.data(), width_));
    }
}

void TermStore::list_alike(RowTerms& out) {
    out.alike.clear();
    for (int32_t c = 1; c < out.n_components(); ++c) {
        const auto& own = out.component[c];
        if (!is_closed(own)) continue;
        const auto n = out.alike.size();
        if (n > 0 && out.alike[n - 1].size == own.size && out.alike[n - 1].n_terms == own.n_terms)
            ++out.alike[n - 1].n;
        else
            out.alike.push({c, 1, own.size, own.n_terms});
    }
}

void TermStore::find_leading(const RowTerms& out, Component& c) const {
    int32_t most = 0;
    for (int32_t j = 0; j < c.size; ++j) {
        const auto q = out.feature[c.features + j];
        const auto n = model_.set_atoms.begin[q + 1] - model_.set_atoms.begin[q];
        if (n <= most) continue;
        c.leading = static_cast<std::int16_t>(j);
        most = n;
    }
}

// Orders terms by component, and in it by their atoms in the leading slot: first all of them by these.
void TermStore::order_terms(RowTerms& out) {
    const auto n = size(), n_atoms = model_.n_atoms();
    leading_.reset(n);
    next_.reset(n_atoms + 1, 0);
    for (int32_t t = 1; t < n; ++t) {
        const auto slot = out.component[component_place[component_of_[t]]].leading;
        leading_[t] = slot ? slots_[term_[t].slots + slot].atom : term_[t].first_atom;
        ++next_[leading_[t] + 1];
    }
    for (int32_t a = 0; a < n_atoms; ++a) next_[a + 1] += next_[a];
    by_atom_.reset(n);
    for (int32_t t = 1; t < n; ++t) by_atom_[next_[leading_[t]]++] = t;

    next_.reset(out.n_components());
    for (int32_t i = 0, listed = 0; i < out.n_components(); listed += out.component[i++].n_terms)
        next_[i] = listed;
    listed_.reset(n);
    listed_[0] = 0;
    for (int32_t k = 0; k + 1 < n; ++k) {
        const auto t = by_atom_[k];
        listed_[next_[component_place[component_of_[t]]]++] = t;
    }
    place.reset(n);
    const int32_t* term = listed_.data();
    for (const auto& c : out.component)
        for (int32_t j = 0; j < c.n_terms; ++j) place[*term++] = c.first_term + j;
}

// Writes the atoms and the parents of a component's terms. Room past the last term repeats its atoms; its
// weights are 0.
void TermStore::write_slots(RowTerms& out, const Component& c, const int32_t* terms) {
    constexpr int32_t kAhead = 8;  // terms of a component lie anywhere
    auto *atom = out.atom.data() + c.slots, *parent = out.parent.data() + c.slots;
    for (int32_t i = 0; i < c.n_terms; ++i) {
        if (terms + i + kAhead < listed_.end())
            __builtin_prefetch(slots_.data() + term_[terms[i + kAhead]].slots);
        const auto* slot = slots_.data() + term_[terms[i]].slots;
        for (int32_t j = 0; j < c.size; ++j) {
            atom[int64_t{j} * c.stride + i] = slot[j].atom;
            parent[int64_t{j} * c.stride + i] = place[slot[j].parent];
        }
    }
    for (int32_t j = 0; j < c.size; ++j)
        for (auto i = c.n_terms; i < c.stride; ++i) {
            atom[int64_t{j} * c.stride + i] = atom[int64_t{j} * c.stride + c.n_terms - 1];
            parent[int64_t{j} * c.stride + i] = RowTerms::kRoom - 1;
        }
    const auto* slot = slots_.data() + term_[terms[0]].slots;
    for (int32_t j = 0; j < c.size; ++j)
        out.parent_component[c.features + j] = component_place[component_of_[slot[j].parent]];
}

void TermStore::list_uses(RowTerms& out) {
    const auto d = model_.n_features();
    out.use_begin.reset(d + 1, 0);
    for (const auto q : out.feature) ++out.use_begin[q + 1];
    for (int32_t q = 0; q < d; ++q) out.use_begin[q + 1] += out.use_begin[q];
    out.use.reset(out.feature.size());
    for (int32_t i = 1; i < out.n_components(); ++i)
        for (int32_t slot = 0; slot < out.component[i].size; ++slot)
            out.use[out.use_begin[out.feature[out.component[i].features + slot]]++] = {i, slot};
    for (auto q = d; q > 0; --q) out.use_begin[q] = out.use_begin[q - 1];
    out.use_begin[0] = 0;
}

void place_grams(RowTerms& terms) {
    constexpr int32_t kMostSlots = 4, kMostTerms = 124;  // more are taken in blocks
    constexpr int64_t kMost = 1 << 17;                   // doubles
    terms.gram_at.reset(terms.n_components(), RowTerms::kNoGram);
    int64_t n = 0;
    for (int32_t c = 1; c < terms.n_components() && terms.width == 1; ++c) {
        const auto& own = terms.component[c];
        const auto size = int64_t{own.stride} * own.stride;
        if (own.size < 2 || own.size > kMostSlots || own.has_sets || is_closed(own) ||
            own.stride > kMostTerms || n + size > kMost)
            continue;
        terms.gram_at[c] = static_cast<int32_t>(n);
        n += size;
    }
    terms.n_gram = static_cast<int32_t>(n);
}

}  // namespace predgap
