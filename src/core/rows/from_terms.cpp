#include "rows/from_terms.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "rows/search.hpp"
#include "simd/kernels.hpp"

namespace predgap {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

// ---- gaps and curves -------------------------------------------------------------------------------------

double gap_of(Placed& terms) {
    double sum = 0.0;
    for (auto& state : terms.begin(TermUse::gap())) sum += kernels().gap(state);
    return std::max(sum, 0.0);
}

double error_scale_of(const Placed& terms) {
    double sum = 0.0;
    Buffer<double> scale;
    for (std::size_t g = 0; g < terms.states().size(); ++g) {
        terms.read_error_scales(g, scale);
        for (int64_t i = 1; i < scale.size(); ++i) sum += scale[i];
    }
    return sum;
}

std::vector<int32_t> used_places(const Model& model, const Units& units, const int32_t* order, int32_t n) {
    std::vector<uint8_t> is_used(static_cast<std::size_t>(model.n_features()), 0);
    for (const auto q : model.features) is_used[static_cast<std::size_t>(q)] = 1;
    std::vector<int32_t> used;
    for (int32_t i = 0; i < n; ++i)
        if (any_of(units.members(order[i]), is_used)) used.push_back(i);
    return used;
}

double fill_places(const std::vector<int32_t>& used, const std::vector<double>& found, int32_t n,
                   double* gaps) {
    double total = 0.0, gap = 0.0;
    std::size_t next = 0;
    for (int32_t i = 0; i < n; ++i) {
        if (next < used.size() && used[next] == i) gap = found[next++];
        total += gaps[i] = gap;
    }
    return total / std::max(n, 1);
}

double curve_of(Placed& terms, const Units& units, const int32_t* order, int32_t n, double* gaps) {
    const auto used = used_places(terms.model(), units, order, n);
    std::vector<int32_t> steps;
    for (const auto i : used) steps.push_back(order[i]);
    std::vector<double> found(used.size(), 0.0);
    for (auto& state : terms.begin(TermUse::curve(n)))
        kernels().curve(state, units, steps.data(), static_cast<int32_t>(steps.size()), found.data());
    for (auto& gap : found) gap = std::max(gap, 0.0);
    return fill_places(used, found, n, gaps);
}

void subset_gaps_of(Placed& terms, SubsetGaps& memory, const Units& units, const int32_t* chosen, int32_t m,
                    double* gaps) {
    const auto n = int64_t{1} << m;
    std::fill_n(gaps, n, 0.0);
    for (auto& state : terms.begin(TermUse::gap())) memory.add(state, units, chosen, m, gaps);
    for (int64_t i = 0; i < n; ++i) gaps[i] = std::max(gaps[i], 0.0);
}

// ---- rankings --------------------------------------------------------------------------------------------

std::vector<uint8_t> open_units(const RowTables& tables, const Units& units) {
    std::vector<uint8_t> is_open(static_cast<std::size_t>(units.size()));
    for (int32_t u = 0; u < units.size(); ++u)
        is_open[static_cast<std::size_t>(u)] = any_of(units.members(u), tables.is_open);
    return is_open;
}

void leave_unranked(const Units& units, const Places& places) {
    std::fill_n(places.score, units.size(), std::numeric_limits<double>::quiet_NaN());
}

namespace {

// The error scales of the subset so far, and of what each candidate would add. Those of the components are
// read when they are asked for first; from then on those of the units that were taken since are looked at.
class ErrorScales {
public:
    ErrorScales(const Placed& terms, const Units& units) : terms_(terms), units_(units) {}

    // order: the units so far.
    void read(Candidates& c, std::span<const int32_t> order) {
        if (group_.empty()) {
            begin(c);
        } else {
            for (const auto u : order.subspan(n_read_))
                for (std::size_t g = 0; g < group_.size(); ++g) look_at_uses(g, u, c);
        }
        n_read_ = order.size();
        c.base_error = base_error_;
    }

private:
    struct Group {
        Buffer<double> scale;
        std::vector<uint8_t> n_outside;  // units of each component when it was looked at; 2: or more
    };

    void begin(Candidates& c) {
        for (std::size_t g = 0; g < terms_.states().size(); ++g) {
            auto& own = group_.emplace_back();
            terms_.read_error_scales(g, own.scale);
            own.n_outside.assign(static_cast<std::size_t>(own.scale.size()), 2);
            for (int32_t i = 1; i < own.scale.size(); ++i) look_at(g, i, c);
        }
    }

    void look_at_uses(std::size_t g, int32_t unit, Candidates& c) {
        const auto& terms = *terms_.states()[g].terms;
        for (const auto q : units_.members(unit))
            for (auto i = terms.use_begin[q]; i < terms.use_begin[q + 1]; ++i)
                look_at(g, terms.use[i].component, c);
    }

    void look_at(std::size_t g, int32_t component, Candidates& c) {
        const auto& state = terms_.states()[g];
        auto& own = group_[g];
        auto& before = own.n_outside[static_cast<std::size_t>(component)];
        const auto now = static_cast<uint8_t>(std::min(state.component[component].n_outside, 2));
        if (now == before) return;
        before = now;
        if (now == 0) {
            base_error_ += own.scale[component];
            return;
        }
        const auto* feature = state.terms->feature.data() + state.terms->component[component].features;
        while (state.in_subset[*feature]) ++feature;
        c.error_scale[static_cast<std::size_t>(units_.of(*feature))] += own.scale[component];
    }

    const Placed& terms_;
    const Units& units_;
    std::vector<Group> group_;
    double base_error_ = 0.0;
    std::size_t n_read_ = 0;  // places
};

// Adds up over the groups of trees what each unit would add.
template <class Add>
void each_gain(std::vector<TermState>& states, Add add) {
    for (auto& state : states) {
        kernels().gains(state);
        add(state.gain);
    }
}

void read_gains(std::vector<TermState>& states, Candidates& c) {
    bool is_first = true;
    each_gain(states, [&](const Buffer<double>& gain) {
        for (const auto u : c.busy())
            c.gain[u] = (is_first ? 0.0 : c.gain[u]) + gain[static_cast<int64_t>(u)];
        is_first = false;
    });
}

}  // namespace

double greedy_of(Placed& terms, const Units& units, const Places& places) {
    const auto is_open = open_units(terms.tables(), units);
    Candidates c(is_open);
    leave_unranked(units, places);
    const double most_error = terms.largest_error(), bound = terms.bound();
    ErrorScales errors(terms, units);
    auto use = TermUse::gains(units);
    use.keeps_grams = true;
    auto& states = terms.begin(use);
    bool is_new = true, knows_errors = false;  // after an idle unit everything stays as it is
    for (int32_t place = 0; place < places.n && !terms.stopped(); ++place) {
        if (is_new) {
            read_gains(states, c);
            knows_errors = false;
        }
        auto best = c.largest();
        if (c.in_doubt(best, most_error)) {
            if (!knows_errors) errors.read(c, {places.order, static_cast<std::size_t>(place)});
            knows_errors = true;
            best = c.best(best);
        }
        places.order[place] = best;
        places.score[best] = c.gain[static_cast<std::size_t>(best)];
        places.proven[place] =
            bound == 0.0 || c.proves(best, [bound](std::size_t) { return bound; }, is_open);
        c.take(best);
        is_new = !c.is_idle[static_cast<std::size_t>(best)];
        if (place + 1 < places.n && is_new)
            for (auto& state : states) kernels().add_unit(state, best);
    }
    return c.base;
}

double beam_of(Placed& terms, SearchOf& search) {
    using States = std::shared_ptr<std::vector<TermState>>;
    const auto& states = terms.begin(TermUse::gains(search.units));
    std::vector<double> gain;
    const auto copied = [](const std::vector<TermState>& from) {
        auto made = std::make_shared<std::vector<TermState>>(from.size());
        for (std::size_t g = 0; g < from.size(); ++g) (*made)[g].copy(from[g]);
        return made;
    };
    const auto gains = [&](const Beam<States>::Entry& entry) {
        gain.assign(static_cast<std::size_t>(search.units.size()), 0.0);
        each_gain(*entry.state, [&](const Buffer<double>& own) {
            for (std::size_t u = 0; u < gain.size(); ++u) gain[u] += own[static_cast<int64_t>(u)];
        });
        return gain.data();
    };
    const auto grown = [&](const States& parent, int32_t unit) {
        auto made = copied(*parent);
        for (auto& state : *made) kernels().add_unit(state, unit);
        return made;
    };
    double copy = 0.0;
    for (const auto& state : states) copy += state.bytes_of_copy();
    // Those of two lengths, and the first.
    terms.work().hold(RowWork::Arrays::copies, copy * (2 * search.width + 1));
    Beam<States> beam(search.chosen, search.n_places, search.width, search.units.size());
    beam.run(copied(states), gains, grown, [&] { return terms.stopped(); });
    return beam.write(search.order, search.gaps);
}

// ---- how the noise spreads in the prediction -------------------------------------------------------------

void moments_of(Placed& terms, double* change, double* covariance) {
    const auto n_outputs = static_cast<int64_t>(terms.model().n_outputs());
    const bool is_joint = terms.model().group[0].width > 1;  // then there is one group
    auto& states = terms.begin(is_joint ? TermUse::covariances() : TermUse::gap());
    for (std::size_t g = 0; g < states.size(); ++g) {
        auto& state = states[g];
        if (is_joint) {
            kernels().covariances(state, covariance);
        } else {
            kernels().gap(state);
            double& variance = covariance[static_cast<int64_t>(g) * (n_outputs + 1)];
            variance = 0.0;
            for (int64_t c = 1; c < state.terms->n_components(); ++c) variance += state.form[c];
        }
        for (int64_t k = 0; k < state.terms->width; ++k)
            change[static_cast<int64_t>(g) + k] = state.weight[k * state.terms->n_weights];
    }
    for (int64_t k = 0; k < n_outputs; ++k) {
        auto& variance = covariance[k * (n_outputs + 1)];
        variance = std::max(variance, 0.0);
    }
}

namespace {

// A component counts for the units of its features.
void add_shares(const TermState& state, const Units& units, const Shares& shares) {
    const auto& terms = *state.terms;
    std::vector<int32_t> own;
    for (int32_t i = 1; i < terms.n_components(); ++i) {
        const double form = std::max(state.form[i], 0.0);
        if (form == 0.0) continue;
        const auto& c = terms.component[i];
        own.clear();
        for (int32_t j = 0; j < c.size; ++j) own.push_back(units.of(terms.feature[c.features + j]));
        std::sort(own.begin(), own.end());
        own.erase(std::unique(own.begin(), own.end()), own.end());
        shares.variance += form;
        const double equal_part = form / static_cast<double>(own.size());
        for (const auto u : own) {
            shares.total[u] += form;
            shares.shapley[u] += equal_part;
        }
        if (own.size() == 1) shares.first[own[0]] += form;
        if (own.size() != 2) continue;
        shares.interaction[int64_t{own[0]} * units.size() + own[1]] += form;
        shares.interaction[int64_t{own[1]} * units.size() + own[0]] += form;
    }
}

}  // namespace

double shares_of(Placed& terms, const Units& units, const Shares& shares) {
    const int64_t n = units.size();
    shares.variance = 0.0;
    for (auto* sums : {shares.first, shares.total, shares.shapley}) std::fill_n(sums, n, 0.0);
    std::fill_n(shares.interaction, n * n, 0.0);
    for (auto& state : terms.begin(TermUse::gap())) {
        kernels().gap(state);
        add_shares(state, units, shares);
    }
    return shares.variance;
}

double main_weights_of(Placed& terms, double* weights) {
    auto& state = terms.begin(TermUse::gap())[0];
    const double gap = kernels().gap(state);
    const auto n_thresholds = terms.model().n_thresholds();
    const auto& own = *state.terms;
    std::fill_n(weights, n_thresholds, 0.0);
    for (int32_t i = 1; i < own.n_components(); ++i) {
        const auto& c = own.component[i];
        if (c.size > 1) break;
        for (int32_t t = 0; t < c.n_terms; ++t)
            if (const auto atom = own.atom[c.slots + t]; atom < n_thresholds)
                weights[atom] = state.weight[c.first_term + t];
    }
    return gap;
}

}  // namespace predgap
