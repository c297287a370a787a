// The shared plan of a small model: the terms of every possible row, laid out once; only weights are a row's.
//
// Boxes are those of the leaves. An interval with two bounds is split into two boxes with one bound each, so
// that every set of a box's features is one term: with tau_upper where x is inside or not, and with
// -tau_lower always.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "noise/row_tables.hpp"
#include "terms/box_index.hpp"
#include "terms/grid_choice.hpp"
#include "terms/row_terms.hpp"

namespace predgap {

// The counts of what the kernels evaluate: components, their terms, the work of forms of numbers (see
// pairs_of_form) and the nanoseconds of those with categories; and how much of that work a curve does again,
// in which features that come later change the weights of components that are complete.
struct EvaluationCounts {
    double components = 0, terms = 0;
    double pairs = 0, pairs_again = 0, sets = 0, sets_again = 0;

    EvaluationCounts& operator+=(const EvaluationCounts& other) {
        components += other.components;
        terms += other.terms;
        pairs += other.pairs;
        pairs_again += other.pairs_again;
        sets += other.sets;
        sets_again += other.sets_again;
        return *this;
    }
};

class Plan {
public:
    // Null if the model's terms are too many. check() is called now and then, and ends it by throwing.
    static std::unique_ptr<Plan> make(const Model& model, const TreeGroup& group,
                                      const std::function<void()>& check);

    const RowTerms& terms() const { return terms_; }

    // A box's literals that x fails, and those that it may cross, as bits.
    struct Masks {
        std::uint32_t fails, open;
    };
    // Arrays of one row.
    struct Scratch {
        Buffer<Masks> mask;               // (n_boxes)
        Buffer<std::uint32_t> literal;    // see kFails
        Buffer<double> value;             // (n_trees, width) where x is
        Buffer<std::uint64_t> candidate;  // bits of boxes; see BoxIndex
        Buffer<std::int32_t> reached;     // boxes that the noise can reach
        std::int64_t n_reached = 0;
        Buffer<double> change;     // (n_boxes, width) what reaching one of these changes
        Buffer<std::int64_t> job;  // parts of boxes by the number of their free literals; see spread

        double used_bytes() const;
    };
    // The bytes of the scratch and the state of a row: for gaps, for the gains of features or of units of
    // several, or for a curve.
    enum class Use : std::uint8_t { gaps, gains, gains_of_units, curve };
    double row_bytes(Use use) const;
    // The weights of a row when its open features may move; weights is (width, n_weights).
    void spread(const RowTables& tables, Scratch& scratch, Buffer<double>& weights) const;
    // The scale of rounding errors of each component; after spread.
    void error_scales(const RowTables& tables, const Scratch& scratch, Buffer<double>& scale) const;
    // sum over trees of the largest possible |T(x') - T(x)|; after spread.
    double largest_change(const Scratch& scratch) const;

    std::int64_t n_boxes() const { return static_cast<std::int64_t>(boxes_.size()); }
    double n_components() const { return static_cast<double>(terms_.n_components()); }
    // Counts what is evaluated for a subset, or for all features (null).
    EvaluationCounts count(const std::uint8_t* subset) const;
    double n_terms() const { return all_.terms; }
    // The number of signed terms that get the change of a box, if x passes every second test.
    double typical_spread() const { return typical_spread_; }
    // The bytes of all arrays that rows share.
    double bytes() const;

private:
    Plan(const Model& model, const TreeGroup& group) : model_(model), group_(group) {}

    static constexpr std::uint32_t kFails = 1, kOpen = 1 << 16;  // of a literal; those of a box are shifted
    static constexpr double kMostEntries = 1.5e6;
    static constexpr int kBuckets = 6;                // parts with 0 ... 4 free literals, and with more
    static constexpr std::size_t kMostLiterals = 12;  // of one box

    // A leaf's test on one feature: the event of atom lo does not hold, that of hi does (-1 for none), or x
    // is missing.
    struct Literal {
        std::int32_t feature, lo, hi;
        bool missing;
        bool is_passable() const { return lo < 0 || lo != hi; }
        auto operator<=>(const Literal&) const = default;
    };
    struct Box {
        std::int32_t literals, n_literals;
        std::int32_t members, n_members;
        std::int32_t parts, n_parts;
    };
    // A box with one bound per feature: term * 2 + (1 if subtracted) of each set of its literals.
    struct Part {
        std::uint32_t forced;  // literals that must be in the set
        std::int32_t entries;
    };
    class Builder;

    // Counts of the components that are evaluated over their cells, if all features move.
    struct Grids {
        double n = 0, scratch = 0, kept = 0;  // doubles: of the largest one; that a curve keeps of all
    };

    void count_changes();
    EvaluationCounts add_up(const std::uint8_t* subset) const;
    bool has_all(const Component& c, const std::uint8_t* subset) const;
    void test_numbers(std::int32_t q, std::int32_t above, std::uint32_t open, std::uint32_t* state) const;
    void test_categories(const RowTables& tables, std::int32_t q, std::uint32_t open,
                         std::uint32_t* state) const;
    void test_literals(const RowTables& tables, Buffer<std::uint32_t>& state) const;
    void list_jobs(Scratch& scratch, std::int64_t* n_jobs) const;
    void test_boxes(const RowTables& tables, Scratch& scratch) const;
    void keep_values(const Box& box, Scratch& scratch) const;
    void find_changes(Scratch& scratch) const;
    template <int kFree>
    void spread_parts(const Scratch& scratch, const std::int64_t* job, std::int64_t n, double* weights) const;
    void spread_part(const Scratch& scratch, std::int64_t job, double* weights) const;

    const Model& model_;
    const TreeGroup& group_;
    RowTerms terms_;
    std::vector<Literal> literals_;            // by feature
    std::vector<std::uint32_t> is_bounded_;    // beside literals_: kOpen if it has bounds, else 0
    std::vector<std::int32_t> literal_begin_;  // (n_features + 1)
    std::vector<std::int32_t> box_literal_;
    std::vector<Box> boxes_;
    BoxIndex index_;
    std::vector<std::int32_t> member_tree_;  // leaves of boxes
    std::vector<double> member_value_;       // (n_members, width)
    std::vector<Part> parts_;
    std::vector<std::int32_t> part_box_;  // beside parts_
    std::vector<std::int32_t> entry_;
    std::vector<std::int32_t> component_of_;  // (n_weights)
    std::vector<double> pairs_, sets_;        // (n_components) see EvaluationCounts
    std::vector<double> changes_;             // (n_components) see count_changes
    EvaluationCounts all_;                    // of all features
    Grids of_gaps_, of_curve_;
    double typical_spread_ = 0.0;
};

}  // namespace predgap
