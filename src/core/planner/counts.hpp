// Counts of the model and of a row, from which the planner chooses. Each is found when it is asked for first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/prices.hpp"
#include "planner/routes.hpp"
#include "terms/row_compilation.hpp"

namespace predgap {

class RowCounts {
public:
    // The tables and the compilation are those of the row that is in place.
    RowCounts(const Routes& routes, const RowTables& tables, RowCompilation& compilation, RowWork& work)
        : routes_(routes), tables_(tables), compilation_(compilation), work_(work) {}

    // Forgets the counts: another row is in place, or other features of it are open.
    void forget();

    const Routes& routes() const { return routes_; }
    const Model& model() const { return routes_.model; }
    const RowTables& tables() const { return tables_; }

    // The features that move and that some tree uses.
    double n_moving(const Question& question) const;
    // The price of the plans' terms on these.
    Price plan(const Question& question);
    // The terms that a compilation makes of so many entries.
    EvaluationCounts compiled_terms(double n_entries, bool is_pruned, const Question& question);
    // Terms that the plans have on the features that are likely to cross a threshold.
    const EvaluationCounts& lively_terms(const Question& question);
    // The entries of those that an exact compilation counts that are not negligible.
    double not_negligible(const RowCompilation::Totals& totals) const;
    // The units that move and that trees use, in the order of a curve, or of their main effects.
    std::vector<std::int32_t> likely_order(const Question& question);
    Price pairs(const Question& question);
    // The bound to aim at: the tolerance of what the answer will be, as far as main effects tell.
    double target(const Question& question, double tolerance);

    // Counts of a compilation: from about so many trees; from some of them; with a limit that is guessed, or
    // that is found by counts of all trees.
    RowCompilation::Totals look(double n_trees);
    RowCompilation::Totals count(double limit, const Question& question, bool roughly);
    RowCompilation::Totals guess_limit(double target, const Question& question, double& limit);
    RowCompilation::Totals find_limit(double target, const Question& question, double& limit);
    double counted_share() const { return compilation_.counted_share(); }
    double scale() { return compilation_.scale(); }

    // An exact compilation of this row did not fit into memory, whatever was counted.
    bool has_overflowed() const { return has_overflowed_; }
    void note_overflow() { has_overflowed_ = true; }

private:
    std::vector<std::uint8_t> features_likely_to_cross(const Question& question) const;

    const Routes& routes_;
    const RowTables& tables_;
    RowCompilation& compilation_;
    RowWork& work_;  // that counting takes
    std::optional<EvaluationCounts> lively_terms_;
    bool has_overflowed_ = false;
};

}  // namespace predgap
