// The forms of components, the push, curves, gains and gaps of all subsets.
#include "checks.hpp"

namespace predgap::test {
namespace {

// The thresholds of each feature that so many terms need.
int enough_thresholds(int size, int n_terms) {
    int n = 2;
    while (std::pow(n, size) < 1.5 * n_terms) ++n;
    return n;
}

Data numbers(Random& random, int n_features, int n_thresholds) {
    Data data;
    for (int q = 0; q < n_features; ++q) data.push_back(number(random, n_thresholds));
    return data;
}
std::vector<int> up_to(int n) {
    std::vector<int> found;
    for (int q = 0; q < n; ++q) found.push_back(q);
    return found;
}

// One component of a size with so many terms, and those of its parts.
std::unique_ptr<Row> one_component(Random& random, int size, int n_terms, int width) {
    const auto n = size == 1 ? n_terms : enough_thresholds(size, n_terms);
    auto row = std::make_unique<Row>(numbers(random, size, n));
    Terms terms;
    add_terms(random, *row, up_to(size), n_terms, width, terms);
    row->lay_out(terms);
    REQUIRE(row->terms() == terms);
    return row;
}

// Some components on few features, which have parts in common.
std::unique_ptr<Row> some_components(Random& random, const Data& data, int n_components, int width,
                                     int most_size = 4, int most_terms = 40) {
    auto row = std::make_unique<Row>(data);
    Terms terms{{{}, std::vector<Real>(static_cast<std::size_t>(width), 0)}};
    for (int i = 0; i < n_components; ++i) {
        auto features = random.shuffled(row->n_features);
        features.resize(static_cast<std::size_t>(1 + random.below(std::min(most_size, row->n_features))));
        double room = 1.0;
        for (const auto q : features) room *= row->n_atoms(q);
        const auto most = static_cast<int>(std::min(room / 2.0 + 1.0, static_cast<double>(most_terms)));
        add_terms(random, *row, features, 1 + random.below(most), width, terms);
    }
    row->lay_out(terms);
    REQUIRE(row->terms() == terms);
    return row;
}

constexpr int kSmall[] = {1, 2, 3, 4, 5, 7, 8, 9}, kLarge[] = {127, 128, 129, 500};

TEST_CASE("forms of small components") {
    for (int size = 1; size <= 9; ++size)
        for (const auto n_terms : kSmall)
            for (int width = 1; width <= 3; ++width) {
                Random random(static_cast<std::uint64_t>(1000 * size + 10 * n_terms + width));
                CAPTURE(size);
                CAPTURE(n_terms);
                CAPTURE(width);
                const auto row = one_component(random, size, n_terms, width);
                check_gap(*row);
                if (size < 8) check_covariances(*row);
            }
}

TEST_CASE("forms of large components") {
    for (int size = 1; size <= 4; ++size)
        for (const auto n_terms : kLarge)
            for (const int width : {1, 3}) {
                Random random(static_cast<std::uint64_t>(1000 * size + n_terms + 7 * width));
                CAPTURE(size);
                CAPTURE(n_terms);
                CAPTURE(width);
                const auto row = one_component(random, size, n_terms, width);
                check_gap(*row);
                if (n_terms < 500) check_covariances(*row);
            }
}

TEST_CASE("gains of one component: each feature outside, in every order of three") {
    for (int size = 1; size <= 8; ++size)
        for (const auto n_terms : {1, 2, 3, 9, 40, 127, 128, 300})
            for (const int width : {1, 2}) {
                if ((size > 3 && n_terms > 40) || (size > 5 && n_terms > 9) || (width > 1 && n_terms > 200))
                    continue;
                Random random(static_cast<std::uint64_t>(1000 * size + n_terms + 7 * width));
                CAPTURE(size);
                CAPTURE(n_terms);
                CAPTURE(width);
                const auto row = one_component(random, size, n_terms, width);
                for (int turn = 0; turn < std::min(size, 3); ++turn) {
                    auto order = up_to(size);
                    std::rotate(order.begin(), order.begin() + turn, order.end());
                    check_gains(*row, singles(size), order, turn % 2 == 0);
                }
            }
}

TEST_CASE("rows of several components") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const int n_features = 3 + random.below(5), width = 1 + random.below(3);
        const auto data = numbers(random, n_features, 2 + random.below(6));
        const auto row = some_components(random, data, 3 + random.below(5), width);
        const auto units = random_units(random, n_features);
        const auto n_units = static_cast<int>(units.size());
        check_gap(*row);
        check_covariances(*row);
        check_curve(*row, singles(n_features), random.shuffled(n_features));
        check_curve(*row, units, random.shuffled(n_units));
        check_gains(*row, singles(n_features), random.shuffled(n_features), false);
        check_gains(*row, singles(n_features), random.shuffled(n_features), true);
        check_gains(*row, units, random.shuffled(n_units), true);
        check_subsets(*row, singles(n_features));
        check_subsets(*row, units);
    }
}

TEST_CASE("curves in which a component has more versions than wait for their forms") {
    constexpr int kFeatures = 14;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        CAPTURE(seed);
        Random random(seed + 100);
        auto row = std::make_unique<Row>(numbers(random, kFeatures, 4));
        Terms terms;
        const int core = 1 + static_cast<int>(seed % 3);
        for (int q = core; q < kFeatures; ++q) {
            auto features = up_to(core);
            features.push_back(q);
            add_terms(random, *row, features, 4 + random.below(4), 1, terms);
        }
        row->lay_out(terms);
        check_curve(*row, singles(kFeatures), up_to(kFeatures));
        check_curve(*row, singles(kFeatures), random.shuffled(kFeatures));
    }
}

TEST_CASE("gaps of all subsets: large components, and several outputs") {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        CAPTURE(seed);
        Random random(seed + 200);
        const auto row =
            some_components(random, numbers(random, 6, 12), 4, 1 + static_cast<int>(seed % 2), 3, 100);
        check_subsets(*row, singles(6));
    }
}

TEST_CASE("probabilities at their ends") {
    const auto with_ends = [](std::vector<double> likely, int own) {
        return FeatureData{std::move(likely), own, {}, 1.0};
    };
    const Data data{with_ends({1e-300, 1.0, 1e-300, 1e-250}, 1), with_ends({1.0, 1e-300, 1e-30, 0.0}, 3),
                    with_ends({0.0, 0.0, 1.0, 0.0}, 2), with_ends({0.3, 0.0, 0.0, 0.7}, 0),
                    with_ends({1.0, 1e-150, 1e-200, 1e-300}, 0)};
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        Random random(seed + 300);
        const auto row = some_components(random, data, 4, 1 + random.below(2), 4, 20);
        check_gap(*row);
        check_curve(*row, singles(5), random.shuffled(5));
        check_gains(*row, singles(5), random.shuffled(5), true);
        check_subsets(*row, singles(5));
    }
}

TEST_CASE("categories over cells and over pairs of terms") {
    for (std::uint64_t seed = 0; seed < 30; ++seed)
        for (const auto rule : {CellRule::cheapest, CellRule::all}) {
            CAPTURE(seed);
            CAPTURE(static_cast<int>(rule));
            Random random(seed + 400);
            const int width = 1 + random.below(2);
            Data data{category(random, 3 + random.below(6), 4), number(random, 1 + random.below(4)),
                      category(random, 20 + random.below(60), 9), number(random, 2),
                      category(random, 5 + random.below(40), 12)};
            const auto row = some_components(random, data, 4, width, 4, 30);
            const auto units = random_units(random, 5);
            check_gap(*row, rule);
            check_covariances(*row, rule);
            check_curve(*row, singles(5), random.shuffled(5), rule);
            check_gains(*row, singles(5), random.shuffled(5), true, rule);
            check_gains(*row, units, random.shuffled(static_cast<int>(units.size())), true, rule);
            check_subsets(*row, singles(5), rule);
        }
}

// ---- plans of trees ---------------------------------------------------------------------------------------

class Trees {
public:
    Trees(Random& random, const Data& data, int n_trees, int depth, int width)
        : random_(random),
          data_(data),
          width_(width),
          arrays_(node_arrays(static_cast<int>(data.size()), width)) {
        int n_sets = 0;
        for (const auto& own : data) {
            first_set_.push_back(n_sets);
            n_sets += static_cast<int>(own.sets.size());
        }
        for (int t = 0; t < n_trees; ++t) {
            arrays_.root.push_back(grow(depth));
            arrays_.target.push_back(width > 1 ? -1 : 0);
        }
    }
    const NodeArrays& arrays() const { return arrays_; }

    // What the trees give at a cell of each feature.
    std::vector<Real> at(const Row& row, const std::vector<int>& cell) const {
        std::vector<Real> sum(static_cast<std::size_t>(width_), 0);
        for (auto node : arrays_.root) {
            while (arrays_.feature[static_cast<std::size_t>(node)] != kLeaf) {
                const auto at = static_cast<std::size_t>(node);
                const auto z = cell[static_cast<std::size_t>(arrays_.feature[at])];
                const auto set = arrays_.category_set[at];
                const bool left =
                    set == kNumeric ? z < arrays_.threshold[at] : holds(row.model.cells.set(set), z);
                node = left ? arrays_.left[at] : arrays_.right[at];
            }
            for (std::size_t k = 0; k < sum.size(); ++k)
                sum[k] += arrays_.value[static_cast<std::size_t>(node) * sum.size() + k];
        }
        return sum;
    }

private:
    int grow(int depth) {
        if (depth == 0) {
            std::vector<double> value;
            for (int k = 0; k < width_; ++k) value.push_back(random_.between(-1.0, 1.0));
            return add_leaf(arrays_, value);
        }
        const auto q = random_.below(static_cast<int>(data_.size()));
        const auto& own = data_[static_cast<std::size_t>(q)];
        const auto n_sets = static_cast<int>(own.sets.size());
        const auto set = n_sets ? first_set_[static_cast<std::size_t>(q)] + random_.below(n_sets) : kNumeric;
        const double threshold = 1.0 + random_.below(static_cast<int>(own.likely.size()) - 1);
        const auto node = add_split(arrays_, q, threshold, set, static_cast<std::size_t>(width_));
        const auto left = grow(random_.chance(0.1) ? 0 : depth - 1), right = grow(depth - 1);
        arrays_.left[static_cast<std::size_t>(node)] = left;
        arrays_.right[static_cast<std::size_t>(node)] = right;
        return node;
    }

    Random& random_;
    const Data& data_;
    int width_;
    std::vector<int> first_set_;
    NodeArrays arrays_;
};

// The terms give what the trees give: f(z) - f(x) is the sum of W times the product of tau(z).
void check_plan(Random& random, const Row& row, const Trees& trees) {
    std::vector<int> own, cell;
    for (int q = 0; q < row.n_features; ++q) own.push_back(row.own_cell(q));
    const auto terms = row.terms();
    for (int i = 0; i < 20; ++i) {
        cell.clear();
        for (int q = 0; q < row.n_features; ++q)
            cell.push_back(
                random.below(static_cast<int>(row.probability[static_cast<std::size_t>(q)].size())));
        const auto there = trees.at(row, cell), here = trees.at(row, own);
        for (std::size_t k = 0; k < there.size(); ++k) {
            Real sum = 0, scale = 0;
            for (const auto& [atoms, weight] : terms) {
                Real product = weight[k];
                scale += std::fabs(product);
                for (const auto a : atoms) product *= row.tau(a, cell);
                sum += product;
            }
            check_close(static_cast<double>(sum), there[k] - here[k], scale, "sum of the terms of a plan");
        }
    }
}

TEST_CASE("plans of trees") {
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        CAPTURE(seed);
        Random random(seed + 500);
        const int n_features = 3 + random.below(4), width = 1 + static_cast<int>(seed % 3);
        auto data = numbers(random, n_features, 2 + random.below(5));
        if (seed % 4 == 3) data[1] = category(random, 6, 5);
        const Trees trees(random, data, 4 + random.below(10), 2 + random.below(3), width);
        Row row(data, trees.arrays());
        row.take_plan();
        check_plan(random, row, trees);
        const auto units = random_units(random, n_features);
        check_gap(row);
        check_covariances(row);
        check_curve(row, singles(n_features), random.shuffled(n_features));
        check_gains(row, singles(n_features), random.shuffled(n_features), true);
        check_gains(row, units, random.shuffled(static_cast<int>(units.size())), true);
        check_subsets(row, singles(n_features));
    }
}

}  // namespace
}  // namespace predgap::test
