// Tails, and the tables of thresholds that are filled from them.
#include <limits>

#include "checks.hpp"

namespace predgap::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kUlp = 0x1p-52;

Real normal_below(Real z) { return 0.5L * std::erfc(-z / std::sqrt(2.0L)); }

// Both tails are near the exact ones, relative to their own size; below the normal numbers, to the least of
// these.
void check_tail(double found, Real exact, double most, double at) {
    CAPTURE(at);
    CAPTURE(found);
    CHECK(std::fabs(found - exact) <= most * exact + 0x1p-1074L);
}

TEST_CASE("tails of the normal law") {
    Random random(1);
    std::vector<double> z{0.0,  -0.0, 1e-300, -1e-300, 5e-324, 1.0,   -1.0,  38.0,   -38.0,
                          38.4, 39.0, -39.0,  40.0,    1e10,   -1e10, 1e300, -1e300, 0.5};
    for (int i = 0; i < 4000; ++i) z.push_back(random.between(-38.5, 38.5) * random.between(0.0, 1.0));
    while (z.size() % 4) z.push_back(0.0);
    const auto found = everywhere([&](const Kernels& k) {
        std::vector<double> tails;
        alignas(64) double at[4], below[4], above[4];
        for (std::size_t i = 0; i < z.size(); i += 4) {
            std::copy_n(z.begin() + static_cast<std::ptrdiff_t>(i), 4, at);
            k.normal_tails(at, below, above);
            tails.insert(tails.end(), below, below + 4);
            tails.insert(tails.end(), above, above + 4);
        }
        return tails;
    });
    for (std::size_t i = 0; i < z.size(); ++i) {
        const auto at = i / 4 * 8 + i % 4;
        check_tail(found[at], normal_below(std::max(z[i], -39.0)), 6 * kUlp, z[i]);
        check_tail(found[at + 4], normal_below(std::max(-z[i], -39.0)), 6 * kUlp, z[i]);
    }
}

// One request for tables, and what it gives.
struct Filled {
    std::vector<double> tail, crossing, shift;
    std::vector<double> all;
};
struct Asked {
    Law law = Law::normal;
    double parameter = 1.0, x = 0.0, stays = 0.0, moves = 1.0;
    double low = -kInfinity, high = kInfinity;
    std::vector<double> threshold, fixed;
};
Filled fill(const Asked& asked) {
    Filled found;
    const auto n = asked.threshold.size();
    found.all = everywhere([&](const Kernels& k) {
        found.tail = asked.law == Law::table ? asked.fixed : std::vector<double>(2 * n);
        found.crossing.assign(2 * n, 0.5);
        found.shift.assign(n, 0.5);
        std::vector<std::uint8_t> event(n, 2);
        k.fill_tables({.law = asked.law,
                       .parameter = asked.parameter,
                       .x = asked.x,
                       .stays = asked.stays,
                       .moves = asked.moves,
                       .low = std::min(asked.low, asked.x),
                       .high = std::max(asked.high, asked.x),
                       .threshold = asked.threshold.data(),
                       .at = asked.threshold.data(),
                       .fixed = asked.fixed.data(),
                       .n = static_cast<std::int32_t>(n),
                       .tail = found.tail.data(),
                       .crossing = found.crossing.data(),
                       .shift = found.shift.data(),
                       .event = event.data()});
        auto all = found.tail;
        all.insert(all.end(), found.crossing.begin(), found.crossing.end());
        all.insert(all.end(), found.shift.begin(), found.shift.end());
        all.insert(all.end(), event.begin(), event.end());
        return all;
    });
    // What follows from the tails, exactly.
    for (std::size_t i = 0; i < n; ++i) {
        const bool is_above = asked.x < asked.threshold[i];
        CHECK(found.crossing[2 * i] == (is_above ? 0.0 : found.tail[2 * i]));
        CHECK(found.crossing[2 * i + 1] == (is_above ? found.tail[2 * i + 1] : 0.0));
        CHECK(found.shift[i] == (is_above ? -found.tail[2 * i + 1] : found.tail[2 * i]));
        CHECK(found.all[5 * n + i] == (is_above ? 1.0 : 0.0));
    }
    return found;
}

std::vector<double> random_thresholds(Random& random, int n) {
    std::vector<double> found;
    for (int i = 0; i < n; ++i) found.push_back(random.between(-6.0, 6.0));
    found[0] = random.chance(0.5) ? -0.0 : 1e300;
    std::sort(found.begin(), found.end());
    return found;
}

TEST_CASE("tables of the normal and the uniform law") {
    for (int n = 1; n <= 33; ++n)
        for (const auto law : {Law::normal, Law::uniform}) {
            CAPTURE(n);
            Random random(static_cast<std::uint64_t>(n));
            Asked asked;
            asked.law = law;
            asked.threshold = random_thresholds(random, n);
            asked.parameter = random.between(0.1, 5.0);
            asked.x = random.chance(0.2) ? asked.threshold[0] == 1e300 ? 0.0 : asked.threshold[0]
                                         : random.between(-5.0, 5.0);
            if (random.chance(0.5)) asked.stays = 0.25;
            asked.moves = 1.0 - asked.stays;
            if (random.chance(0.3)) asked.low = -2.0, asked.high = 3.0;
            const auto found = fill(asked);
            for (std::size_t i = 0; i < asked.threshold.size(); ++i) {
                const double c = asked.threshold[i];
                // x' is from `low` to `high`, or from x on where x is outside of these.
                Real below = law == Law::normal
                                 ? normal_below((static_cast<Real>(c) - asked.x) / asked.parameter)
                                 : std::clamp((static_cast<Real>(c) - asked.x + asked.parameter) /
                                                  (2.0L * asked.parameter),
                                              0.0L, 1.0L);
                Real above = law == Law::normal
                                 ? normal_below((static_cast<Real>(asked.x) - c) / asked.parameter)
                                 : std::clamp((static_cast<Real>(asked.x) - c + asked.parameter) /
                                                  (2.0L * asked.parameter),
                                              0.0L, 1.0L);
                if (c <= std::min(asked.low, asked.x)) below = 0, above = 1;
                if (c > std::max(asked.high, asked.x)) below = 1, above = 0;
                below = asked.moves * below + (asked.x < c ? asked.stays : 0.0);
                above = asked.moves * above + (asked.x < c ? 0.0 : asked.stays);
                // (c - x) / scale is rounded: of a tail far out, that counts as often as it is wide.
                const double distance = std::min(std::fabs(c - asked.x) / asked.parameter, 40.0);
                const double most = (8.0 + (law == Law::normal ? distance * distance : 0.0)) * kUlp;
                check_tail(found.tail[2 * i], below, most, c);
                check_tail(found.tail[2 * i + 1], above, most, c);
            }
        }
}

TEST_CASE("tables of given tails") {
    for (int n = 1; n <= 20; ++n)
        for (const auto law : {Law::fixed, Law::table}) {
            CAPTURE(n);
            Random random(static_cast<std::uint64_t>(n));
            Asked asked;
            asked.law = law;
            asked.threshold = random_thresholds(random, n);
            asked.x = asked.threshold[static_cast<std::size_t>(random.below(n))];
            for (int i = 0; i < n; ++i) {
                const double p = std::vector<double>{
                    0.0, 1.0, 1e-300, random.between(0.0, 1.0)}[static_cast<std::size_t>(random.below(4))];
                asked.fixed.push_back(p);
                asked.fixed.push_back(1.0 - p);
            }
            const auto found = fill(asked);
            CHECK(are_same_bits(found.tail, asked.fixed));
        }
}

}  // namespace
}  // namespace predgap::test
