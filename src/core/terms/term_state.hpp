// The state that the kernels keep of one row's terms while units of features join the subset.
#pragma once

#include <cstdint>

#include "model/row_work.hpp"
#include "model/units.hpp"
#include "noise/row_tables.hpp"
#include "terms/row_terms.hpp"
#include "terms/set_factors.hpp"

namespace predgap {

struct ComponentState {
    double cross;             // of a component with one unit outside: the last term of its gain
    std::int32_t n_outside;   // units that are not in the subset; in curves, features
    std::int32_t product_at;  // the step in which G W was computed
    std::int32_t cross_at;    // the step of the product that `cross` was computed from; -1 for none
    bool is_stale;            // true if weights or n_outside changed since form or product were computed
    bool has_weight;          // true if any of its weights is not 0; on a plan, if any may be
    bool has_changed;         // true if it is listed among those whose part of a gain has changed
};

// The factors of a closed form; see terms/closed_forms.hpp.
struct Closed {
    double first, second, both;
};

// A component with a closed form and one feature outside the subset, with all that its gain needs.
struct ClosedGain {
    Closed factors;                // with that feature outside
    double shift[2];               // E tau of its atoms; 0 of the second of one term
    std::int32_t term, parent[2];  // weights; the terms without those atoms
    std::int32_t component, unit, parent_component;
};

// Where a component is in the frontier, and the components there that have one feature more than it.
struct FrontierLink {
    static constexpr std::int32_t kNone = -1;

    std::int32_t place;  // in the frontier, or in that of closed forms
    std::int32_t part;   // its part of the gain of its unit, where the uses of that feature are
    std::int32_t first_larger, next_larger;  // the first one with a feature more; the next one beside it
};

// What a unit of one feature outside the subset would add, from parts that are kept; see terms/frontier.hpp.
struct GainOfUnit {
    double closed;      // the sum of the parts with closed forms
    std::int32_t main;  // the component of its main effect
    std::int32_t feature;
    std::int32_t n_closed, n_others;  // parts with closed forms, and others but for the main effect
    bool is_stale;                    // true if one of the closed ones changed since they were summed
};

// The versions of a component in a curve: the weights that it had after some of the steps, and the form that
// it has now.
struct Versions {
    static constexpr std::int32_t kMost = 8;                          // that wait for their forms
    static constexpr std::int32_t kMostSlots = 8, kMostTerms = 124;   // of their component
    static constexpr std::int64_t kMostKept = std::int64_t{1} << 20;  // doubles, of all components

    double form;            // the last one that is known
    std::int32_t since;     // the step that it counts from
    std::int32_t complete;  // the step in which its last feature comes
    std::int32_t last;      // the step that changed the weights last, from then on
    std::int32_t parent;    // the component without its last feature
    std::int32_t n_coming;  // how often its weights change from the step on in which it is complete
    std::int32_t n, room;
    std::int32_t step[kMost];  // in which the versions were made
    std::int64_t kept;         // where they begin

    PREDGAP_INLINE void begin(std::int32_t last_feature, std::int32_t without) {
        form = 0.0;
        since = n = room = 0;
        complete = last_feature;
        last = -1;
        parent = without;
        n_coming = 1;
    }
};

// What is asked of a state: it decides which arrays the state has.
struct TermUse {
    enum class Kind : std::uint8_t { gap, covariances, curve, gains };
    Kind kind = Kind::gap;
    const Units* units = nullptr;  // whose gains are asked for
    std::int32_t n_steps = 0;      // of a curve
    bool keeps_grams = false;      // of gains: Gram matrices are kept where there is room; not in copies
    // Of gains: with so many features and units, parts are kept; of fewer most change at each step.
    static constexpr std::int32_t kManyUnits = 80;
    std::int32_t many_units = kManyUnits;
    CellRule cell_rule = CellRule::cheapest;

    static TermUse gap() { return {}; }
    static TermUse covariances() { return {.kind = Kind::covariances}; }
    static TermUse curve(std::int32_t n) { return {.kind = Kind::curve, .n_steps = n}; }
    static TermUse gains(const Units& of) { return {.kind = Kind::gains, .units = &of}; }
};

struct TermState {
    TermState() = default;
    TermState(const TermState&) = delete;  // `sets` may be its own
    TermState& operator=(const TermState&) = delete;

    const RowTerms* terms = nullptr;
    const RowTables* tables = nullptr;
    const Units* units = nullptr;  // whose gains are asked for, if any
    RowWork* work = nullptr;       // looked at between components

    Buffer<double> weight;   // (width, n_weights) W
    Buffer<double> product;  // (width, n_weights) G W of complete components that have weight, else 0
    Buffer<double> shifted;  // (width, n_weights) W E tau of the slot outside
    Buffer<double> scratch;
    SetFactors own_sets;
    const SetFactors* sets = nullptr;  // its own, or those of the state that it is a copy of
    Buffer<ComponentState> component;
    Buffer<std::int32_t> active_components;  // of gaps: components that may have weight, ascending
    Buffer<double> gram;                     // Gram matrices, with those features outside that are
    bool keeps_grams = false;                // true if these are kept
    Buffer<Closed> closed;                   // (n_components) of those that have closed forms
    Buffer<double> form;             // (n_components, room) Q of complete components, else 0; or of gains
    Buffer<double> main_mean;        // (n_features, width) mean of a feature's main effect, if it is outside
    Buffer<double> gain;             // (n_units)
    Buffer<std::uint8_t> in_subset;  // (n_features)
    Buffer<Use> frontier;            // components with one unit outside, which is one feature, and its slot
    Buffer<ClosedGain> closed_frontier;  // likewise, of those with closed forms
    // If the parts of gains are kept, which these are:
    Buffer<FrontierLink> link;        // (n_components)
    Buffer<std::int32_t> changed;     // components whose part of a gain has changed
    Buffer<double> part;              // (uses, width) parts of the gains of each feature
    Buffer<GainOfUnit> gain_of_unit;  // (n_units) of the units that are left
    Buffer<std::int32_t> left;        // units of one feature outside the subset
    std::int64_t n_frontier = 0, n_closed_frontier = 0, n_changed = 0, n_left = 0;
    std::int32_t step = 0;

    Buffer<Versions> versions;  // (n_components) of curves
    Buffer<double> kept;        // weights of the versions
    std::int64_t n_kept = 0;
    Buffer<std::int32_t> step_of;         // (n_features)
    Buffer<std::int32_t> due, due_begin;  // components by the step in which they are complete
    Buffer<double> ended;                 // (n_steps) forms that count from a step to the present one

    // The state of units of several features, which are taken one after the other; see unit_gain.hpp.
    struct Received {
        std::int32_t component;  // in the subset, to which the unit would add weight
        std::int32_t from;       // the first component that does; its `cross` keeps the form of what is added
        bool is_stale;
    };
    Buffer<double> trial;  // (width, n_weights) weights if the unit were taken, or what it would add
    Buffer<Received> received;
    Buffer<std::int32_t> receiver;  // (n_components) its place among the received
    std::int32_t n_received = 0;

    // Begins with these weights, with no feature in the subset, and with all that the use needs. The weights
    // are taken; see Placed for those that are asked for again.
    void begin(const RowTerms& row_terms, const RowTables& row_tables, RowWork& row_work, const TermUse& use,
               Buffer<double>& weights);
    // Copies another state in the same step, which must stay where it is.
    void copy(const TermState& other);
    // The bytes of all of it, and of what a copy has.
    double bytes() const;
    double bytes_of_copy() const;

private:
    void begin_gains(std::int32_t many_units);
    void begin_parts();
    void begin_curve();
};

}  // namespace predgap
