#include "planner/routes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/prices.hpp"

namespace predgap {

using std::int32_t;

Routes::Routes(NodeArrays arrays, const LevelSets& sets, const std::function<void()>& check)
    : model(std::move(arrays), sets, check), features(model.n_features()) {
    for (const auto& output : model.output) pairs.emplace_back(output, model.atoms);
    for (const auto& group : model.group) {
        auto made = Plan::make(model, group, check);
        if (!made) {
            plan.clear();
            break;
        }
        plan.push_back(std::move(made));
    }
    const std::vector<std::uint8_t> all(static_cast<std::size_t>(model.n_features()), 1);
    double longest = 0.0;
    for (const auto& own : plan)
        longest += price_of_plan(*own, own->count(nullptr), model,
                                 {Question::greedy, all.data(), model.n_features(), &features})
                       .work.nanoseconds();
    rows_are_short = !plan.empty() && longest < rule::kInterruptible;
    plan_is_cheap = !plan.empty() && longest < rule::kAlwaysPlan;
}

// ---- rows to price calls without data --------------------------------------------------------------------

namespace {

// A sequence that is always the same.
class Draws {
public:
    std::size_t below(std::size_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::size_t>((state_ >> 33) % n);
    }

private:
    std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

// The thresholds of each feature, ascending. Trees are grown until few rows are left, so their last splits
// are where the rows are, and as many: only splits of which both children are leaves count, if there are any.
std::vector<std::vector<double>> last_thresholds(const Model& model) {
    const auto& trees = model.all_trees;
    const auto is_leaf = [&](int32_t node) { return trees.feature[static_cast<std::size_t>(node)] == kLeaf; };
    std::vector<std::vector<double>> found(static_cast<std::size_t>(model.n_features()));
    for (std::size_t node = 0; node < trees.feature.size(); ++node)
        if (trees.feature[node] != kLeaf && model.atoms.of_node[node] >= 0 && is_leaf(trees.left[node]) &&
            is_leaf(trees.right[node]))
            found[static_cast<std::size_t>(trees.feature[node])].push_back(trees.threshold[node]);
    for (const auto q : model.features) {
        auto& own = found[static_cast<std::size_t>(q)];
        if (own.empty())
            own.assign(model.atoms.threshold.begin() + model.atoms.begin[q],
                       model.atoms.threshold.begin() + model.atoms.begin[q + 1]);
        std::sort(own.begin(), own.end());
    }
    return found;
}

}  // namespace

// Each number is at n quantiles of its thresholds, in an order of its own.
std::vector<double> Routes::typical_rows(int32_t n_rows) const {
    const auto n = static_cast<std::size_t>(n_rows), d = static_cast<std::size_t>(model.n_features());
    std::vector<double> rows(n * d, 0.0);
    const auto thresholds = last_thresholds(model);
    Draws draws;
    std::vector<std::size_t> row(n);
    for (const auto q : model.features) {
        const auto& own = thresholds[static_cast<std::size_t>(q)];
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = n; i > 1; --i) std::swap(row[i - 1], row[draws.below(i)]);
        for (std::size_t i = 0; i < n; ++i) {
            auto& value = rows[row[i] * d + static_cast<std::size_t>(q)];
            if (model.cells.categorical(q))
                value = static_cast<double>(draws.below(static_cast<std::size_t>(model.cells.count(q))));
            else if (!own.empty())
                value = own[(2 * i + 1) * own.size() / (2 * n)];
        }
    }
    return rows;
}

}  // namespace predgap
