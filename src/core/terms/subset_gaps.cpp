// Pushes the features of all subsets, component by component, and adds up the forms of each.
#include "terms/subset_gaps.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint32_t;

namespace {

constexpr int64_t kBlockDoubles = 1 << 16;  // that stay in the cache

// The bits of `set` at the places of `of`, close together.
uint32_t gathered(uint32_t set, uint32_t of) {
    uint32_t found = 0;
    for (int place = 0; of; of &= of - 1, ++place)
        if (set & of & -of) found |= uint32_t{1} << place;
    return found;
}

bool is_stopped(const TermState& s) { return s.work->stopped(); }

int32_t terms_of(const TermState& s, int32_t component) {
    return component == 0 ? 1 : s.terms->component[component].n_terms;
}

}  // namespace

void SubsetGaps::number_units(const TermState& s, const Units& units, const int32_t* chosen, int32_t m) {
    unit_bit_.assign(static_cast<std::size_t>(units.n_features()), 0);
    for (int32_t i = 0; i < m; ++i)
        for (const auto q : units.members(chosen[i]))
            unit_bit_[static_cast<std::size_t>(q)] = uint32_t{1} << i;
    const auto n = static_cast<std::size_t>(s.terms->n_components());
    units_of_.assign(n, 0);
    if (parts_.size() < n) parts_.resize(n);
    for (std::size_t c = 0; c < n; ++c) {
        parts_[c].clear();
        const auto& own = s.terms->component[static_cast<int64_t>(c)];
        for (int32_t j = 0; j < own.size; ++j)
            units_of_[c] |= unit_bit_[static_cast<std::size_t>(s.terms->feature[own.features + j])];
    }
    n_parts_ = 0;
    in_block_.clear();
    for (auto* array : {&pool_, &weight_, &gram_, &form_}) array->clear();
}

// The bytes of all of it, but for the room that rows before have left. What is full is copied to an array
// that is twice as large.
double SubsetGaps::bytes() const {
    constexpr double kGrowing = 2.0;
    const auto n = static_cast<double>(units_of_.size());
    return kGrowing * (pool_.used_bytes() + static_cast<double>(n_parts_ * sizeof(WeightPart)) +
                       static_cast<double>(in_block_.size() * sizeof(in_block_[0]))) +
           weight_.used_bytes() + gram_.used_bytes() + form_.used_bytes() +
           n * (sizeof(units_of_[0]) + sizeof(parts_[0])) +
           static_cast<double>(unit_bit_.size() * sizeof(unit_bit_[0]));
}

// Begins the parts of a component with its own weights, if it has any.
void SubsetGaps::begin_part(const TermState& s, int32_t component) {
    if (component == 0) return;  // nothing changes if nothing is pushed
    const auto& c = s.terms->component[component];
    const auto at = pool_.size();
    pool_.grow(at + int64_t{c.n_terms} * s.terms->width);
    bool any = false;
    for (int64_t k = 0; k < s.terms->width; ++k)
        for (int32_t t = 0; t < c.n_terms; ++t) {
            const double w = s.weight[k * s.terms->n_weights + c.first_term + t];
            pool_[at + k * c.n_terms + t] = w;
            any |= w != 0.0;
        }
    if (!any) return pool_.grow(at);
    parts_[static_cast<std::size_t>(component)].push_back({0, std::numeric_limits<int32_t>::max(), at});
    ++n_parts_;
}

// Gives its parts to the components with one feature less. Features are pushed in descending order, so that
// each set of them comes once.
void SubsetGaps::push_parts(const TermState& s, int32_t component) {
    const auto& c = s.terms->component[component];
    const auto own = static_cast<std::size_t>(component);
    for (int32_t slot = 0; slot < c.size; ++slot) {
        const auto q = s.terms->feature[c.features + slot];
        const auto to = s.terms->parent_component[c.features + slot];
        if (to == RowTerms::kNoComponent) continue;
        const auto n_to = terms_of(s, to), first = to == 0 ? 0 : s.terms->component[to].first_term;
        const auto* atom = s.terms->atom.data() + c.slots + int64_t{slot} * c.stride;
        const auto* parent = s.terms->parent.data() + c.slots + int64_t{slot} * c.stride;
        for (const auto& part : parts_[own]) {
            if (q >= part.lowest || is_stopped(s)) continue;
            s.work->add(nominal::kPushedTerm * c.n_terms * s.terms->width);
            const auto at = pool_.size();
            pool_.grow(at + int64_t{n_to} * s.terms->width);
            std::fill(pool_.data() + at, pool_.end(), 0.0);
            for (int64_t k = 0; k < s.terms->width; ++k) {
                const double* from = pool_.data() + part.weight + k * c.n_terms;
                double* sum = pool_.data() + at + k * n_to - first;
                for (int32_t t = 0; t < c.n_terms; ++t) sum[parent[t]] += from[t] * s.tables->shift[atom[t]];
            }
            const auto rest = (part.units | units_of_[own]) & ~units_of_[static_cast<std::size_t>(to)];
            parts_[static_cast<std::size_t>(to)].push_back({rest, q, at});
            ++n_parts_;
        }
        s.work->hold(RowWork::Arrays::parts, bytes());
    }
}

// The forms of a component for all subsets of the other units that matter to it, block by block.
void SubsetGaps::compute_forms(TermState& s, int32_t component) {
    const auto& parts = parts_[static_cast<std::size_t>(component)];
    others_ = 0;
    for (const auto& part : parts) others_ |= part.units;
    const int n_others = std::popcount(others_);
    const int64_t n_rows = int64_t{terms_of(s, component)} * s.terms->width;
    int n_bits = std::max(n_others, SubsetBlock::kLeastBits);
    while (n_bits > 6 && n_rows << n_bits > kBlockDoubles) --n_bits;
    form_.reset(int64_t{1} << std::max(n_others, n_bits));
    weight_.reset(n_rows << n_bits);
    const int64_t n_terms = terms_of(s, component);
    gram_.reset(n_terms <= SubsetBlock::kMostGram ? n_terms * n_terms : 0);
    s.work->hold(RowWork::Arrays::parts, bytes());
    const uint32_t low = (uint32_t{1} << n_bits) - 1;
    const auto n_blocks = uint32_t{1} << std::max(n_others - n_bits, 0);
    for (uint32_t block = 0; block < n_blocks && !is_stopped(s); ++block) {
        in_block_.clear();
        for (const auto& part : parts) {
            const auto subset = gathered(part.units, others_);
            if ((subset >> n_bits & ~block) == 0)
                in_block_.push_back({subset & low, pool_.data() + part.weight});
        }
        const double n_pairs = gram_.size() > 0 ? 0.5 * static_cast<double>(n_terms * (n_terms + 1)) : 0.0;
        s.work->add((nominal::kWeightOfPart * static_cast<double>(n_rows) +
                     nominal::kSlotOfPair * n_pairs * s.terms->width) *
                    static_cast<double>(int64_t{1} << n_bits));
        kernels().subset_forms(s, component,
                               {in_block_.data(), static_cast<int64_t>(in_block_.size()), n_bits, block == 0,
                                weight_.data(), gram_.data(), form_.data() + (int64_t{block} << n_bits)});
    }
}

// A component counts in all subsets that have its units.
void SubsetGaps::add_forms(int32_t component, uint32_t all, double* gaps) const {
    const auto own = units_of_[static_cast<std::size_t>(component)], rest = all & ~own;
    const double* form = form_.data();
    uint32_t more = 0;
    const auto unused = rest & ~others_;  // whatever of these joins, the form is the same
    for (uint32_t i = 0;; ++i, more = (more - others_) & others_) {
        for (uint32_t any = 0;; any = (any - unused) & unused) {
            gaps[own | more | any] += form[i];
            if (any == unused) break;
        }
        if (more == others_) return;
    }
}

void SubsetGaps::add(TermState& s, const Units& units, const int32_t* chosen, int32_t m, double* gaps) {
    number_units(s, units, chosen, m);
    const auto all = static_cast<uint32_t>((uint64_t{1} << m) - 1);
    for (auto c = s.terms->n_components(); c-- > 0 && !is_stopped(s);) {
        begin_part(s, c);
        if (parts_[static_cast<std::size_t>(c)].empty()) continue;
        push_parts(s, c);
        compute_forms(s, c);
        const int n_rest = m - std::popcount(units_of_[static_cast<std::size_t>(c)]);
        s.work->add(nominal::kWeightOfPart * static_cast<double>(int64_t{1} << n_rest));
        add_forms(c, all, gaps);
    }
}

}  // namespace predgap
