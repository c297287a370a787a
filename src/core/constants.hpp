// The numbers by which the planner prices and chooses. They decide which way an answer is obtained; a
// guaranteed answer keeps its tolerance whatever they are. (`kExactShare` is a part of what exact means.)
// What a row may take while it runs is counted at the speeds of model/row_work.hpp.
//
// `kSpeeds` are nanoseconds of one thing of each kind, measured: `make constants` measures them again, on the
// models that the planner is fitted to (benchmarks/constants.py). `typical` are ratios of counts, found by
// counting on the same models. `rule` are decisions.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace predgap {

enum class Speed : std::uint8_t {
    row,
    atom,
    box,
    plan_component,
    spread,
    weight,
    node,
    node_of_model,
    walked_node,
    entry,
    limited_entry,
    new_term,
    new_component,
    term,
    pair,
    set,
    component,
    pair_again,
    set_again,
    component_again,
    pair_gained,
    set_gained,
    component_gained,
    gap_by_pairs,
    leaf,
    split,
};

struct NamedSpeed {
    Speed speed;
    const char* name;
    double nanoseconds;
    const char* of;
};

constexpr std::size_t kNSpeeds = 26;
constexpr std::array<NamedSpeed, kNSpeeds> kSpeeds{{
    {Speed::row, "row", 5000.0, "a row, whatever is asked"},
    {Speed::atom, "atom", 3.0, "an event on a feature, whose tails are computed"},
    // the shared plan
    {Speed::box, "box", 1.5, "a box that is tested"},
    {Speed::plan_component, "plan_component", 2.0, "a component of the plan that is looked at"},
    {Speed::spread, "spread", 3.5, "a signed term that gets the change of a box"},
    {Speed::weight, "weight", 1.0, "a weight that is cleared"},
    // terms compiled for the row
    {Speed::node, "node", 95.0, "a node that the walk of a tree comes to"},
    {Speed::node_of_model, "node_of_model", 2.0, "a node of the model, whether the walk comes to it or not"},
    {Speed::walked_node, "walked_node", 130.0,
     "a node that the walk comes to, in prices that are counted on some trees"},
    {Speed::entry, "entry", 24.0, "a product of bounds of a box"},
    {Speed::limited_entry, "limited_entry", 44.0,
     "the same, beside: to decide whether it is left out, and to find the limit"},
    {Speed::new_term, "new_term", 75.0, "a term that entries are merged to"},
    {Speed::new_component, "new_component", 200.0, "a component that is laid out"},
    // the terms of one gap
    {Speed::term, "term", 6.0, "a term that is pushed"},
    {Speed::pair, "pair", 0.08, "a slot of a pair of terms of numbers"},
    {Speed::set, "set", 1.1, "a nanosecond of forms with categories, as terms/grid_choice.cpp counts it"},
    {Speed::component, "component", 15.0, "a component"},
    // beside: what a curve computes again, because features that come later change weights
    {Speed::pair_again, "pair_again", 0.108, "a slot of a pair of terms, in a later version"},
    {Speed::set_again, "set_again", 0.4, "a nanosecond of forms with categories, in a later version"},
    {Speed::component_again, "component_again", 70.0, "a component"},
    // beside: what a greedy ranking computes again, with the gains of all candidates
    {Speed::pair_gained, "pair_gained", 0.2916, "a slot of a pair of terms, in a later version"},
    {Speed::set_gained, "set_gained", 3.2, "a nanosecond of forms with categories, in a later version"},
    {Speed::component_gained, "component_gained", 189.0, "a component"},
    // pairs of leaves
    {Speed::gap_by_pairs, "gap_by_pairs", 4000.0, "a gap"},
    {Speed::leaf, "leaf", 280.0, "a leaf that the row can reach"},
    {Speed::split, "split", 27.0, "a split that eight leaves of another tree meet"},
}};
constexpr bool are_in_order() {
    for (std::size_t i = 0; i < kNSpeeds; ++i)
        if (static_cast<std::size_t>(kSpeeds[i].speed) != i) return false;
    return true;
}
static_assert(are_in_order());

// Ratios of counts.
namespace typical {

// Compiled terms.
constexpr double kTermsOfEntry = 0.42;   // others are merged
constexpr double kScattered = 1.2;       // compiled terms are laid out less well than those of a plan
constexpr double kOutputOfForm = 0.63;   // what one more output adds to the forms of a term
constexpr double kOutputOfEntry = 0.06;  // and to its compilation
constexpr double kOfSubsets = 0.03;      // of a gap: one of all subsets, for most components stay as they are
constexpr double kUncachedComponents = 1.2e4;                  // so many components do not stay in the cache
constexpr double kUncachedTerms = 5e5;                         // nor so many terms, while they are found
constexpr double kBytesOfEntry = 68.0, kBytesOfOutput = 12.0;  // with its terms, merged by half, and states
constexpr double kBytesOfCurve = 1.3, kBytesOfGreedy = 1.1;    // states of these are larger

// Entries that are left of those that an exact compilation counts: products of many features are small and
// left out, unless the noise is wide. kMany entries of a node are halved by a noise as narrow as kRare, in
// halvings of the probability to cross a threshold.
constexpr double kMany = 130.0, kLeastLeft = 0.45, kRare = 13.0;

// Terms without a plan. Of so many features are those that hold most terms; the pairs of a set of features
// with n terms are n^2 / 2, or with more than `block` terms as many as blocks of terms leave.
constexpr double kFeaturesOfTerm = 2.5, kTermsOfComponent = 6.0, kTermsOfSmallSet = 5.0;
constexpr double kBlockPruned = 170.0, kBlockExact = 1500.0;     // what is pruned is of many features
constexpr double kCellOfEntry = 1.1, kSetsOfPairs = 10.0;        // nanoseconds of forms with categories
constexpr double kNumbersAlone = 0.25;                           // of the pairs, where there are categories
constexpr double kChangesOfFeature = 1.0 / 4.6, kSettled = 3.0;  // versions of a component in a curve

// Terms with a plan: so much of it at most, for whatever x is, some of its terms are of other rows.
constexpr double kMostOfPlan = 0.8, kCrowdOfPlan = 40.0, kPairsPower = 2.2, kSetsPower = 1.3;
constexpr double kEntriesOfTerm = 0.4;  // at least, of a term that the plan has

// The bound of a compilation, of scale * largest change * splits * limit: 0.01 to 0.1 on boosted models.
constexpr double kBoundOfLimit = 0.06;

// Pairs of leaves, before any walk.
constexpr double kLeavesOfNode = 0.5;    // that a walk comes to
constexpr double kLookedAtNode = 150.0;  // nanoseconds of a node, to look at some trees, if all features move

// Prices that are counted on some of the trees: nanoseconds of planning and of pairs for one that is counted
// at the speeds of model/row_work.hpp, of an atom whose tables are filled, and of a model that left the
// cache.
constexpr double kOfCounted = 1.35, kOpenedAtom = 6.0, kCold = 1e5;

}  // namespace typical

// Nanoseconds of the forms of components with categories, over cells and over pairs of terms; see
// terms/grid_choice.cpp.
namespace of_categories {

constexpr double kCell = 0.4;               // of a grid, for each axis
constexpr double kTerm = 20.0, kRow = 4.0;  // that is added to cells, and each row of cells that it changes
constexpr double kFourCells = 0.4;          // of such a row
constexpr double kChanged = 0.2;            // of the terms, in a later version of kept cells
constexpr double kPairSlot = 0.35;          // of a pair of terms
constexpr double kVersion = 0.2, kOutput = 0.4;  // of a pair, for each further version, and output

}  // namespace of_categories

// Nanoseconds under noise that moves features together, of a row of its table: by walks, and from boxes.
namespace of_walks {

constexpr double kVisit = 3.5, kCell = 3.0;  // of a node, and of a feature
constexpr double kTurns = 0.35;              // of the splits on a path from which a walk goes on

}  // namespace of_walks
namespace of_boxes {

constexpr double kVisit = 6.0, kBox = 150.0;  // of a node, and of a box that is found
constexpr double kPair = 1.7, kValues = 3.2;  // of a pair of boxes: for a mean, and for Shapley values
constexpr double kSubset = 1.0;               // of the gaps of all subsets, for each unit

}  // namespace of_boxes

// Decisions, with times in nanoseconds.
namespace rule {

constexpr double kAlwaysPlan = 1e6;      // a plan that answers all in this is taken without a price
constexpr double kInterruptible = 20e6;  // shorter rows are ended between rows only
constexpr double kCheap = 50e6;          // up to this an exact answer may be taken,
constexpr double kShort = 10e6;          // and up to this always: a longer curve or ranking only
constexpr double kWorthIt = 1.5;         // if it takes at most so many times what a bounded one takes
constexpr double kUnsure = 1.6;  // counts of compiled terms are rough: so much more must be cheap, too
constexpr double kNeverCrossed = 1e-24;  // of features that are crossed less likely hardly a product is left

// A look at some trees before a plan is taken: for about this share of the plan's time, and not if the fewest
// trees that tell something take more than the second one.
constexpr double kLookOfPlan = 0.12, kMostLook = 0.3, kFewTrees = 2.0;

// Pairs of leaves are priced by walks, where they might be cheap.
constexpr double kFewFeatures = 12.0;  // that move, at most
constexpr double kLongBesideWalks = 8e6, kRoughPairs = 5.0;
constexpr int kLooksAtPrefixes = 6;                         // of a curve or a ranking
constexpr double kLongPairs = 10e9, kUncertainPairs = 3.0;  // longer prefixes may be far harder

// Bounded answers: the share of the tolerance that is aimed at, for main effects do not tell all.
constexpr double kAimOfOrder = 0.85, kAimOfCurve = 0.6, kAimOfGap = 0.75;
constexpr double kHopeless = 1e4;  // times the scale: a bound that says nothing; experience does not either
constexpr double kFarFromLimit = 4.0;  // of time and memory: then a rough count suffices

// Exact gaps: a bound below this share of the gap is none.
constexpr double kExactShare = 1e-13;
constexpr double kFewEntries = 1e4;   // of these it is not worth to leave some out,
constexpr double kMostCounted = 0.4;  // nor where a guess of the limit would look at so many of the nodes

// The limit for a target of the bound: guessed by counts of some trees until the bound is a share of the
// target between near and aim, for that of all trees may be larger, that of sets of categories most of all;
// or found by counts of all trees until it is at most the target and not much less.
constexpr double kAimOfGuess = 0.65, kNearTarget = 0.4;
constexpr double kAimOfGuessWithSets = 0.4, kNearTargetWithSets = 0.25;
constexpr double kKnownFrom = 5.0;  // a bound within so many times of the aim tells the limit
constexpr int kTriesOfGuess = 3, kTriesOfCount = 12;
constexpr double kSlackOfCount = 0.15;

// After a bound that was so many times too large: the bound grows a little slower than the limit.
inline double smaller_limit(double share) { return std::clamp(0.7 * std::pow(share, -1.1), 1e-6, 0.7); }

// After a bound that was not met.
constexpr int kTries = 4;
constexpr double kFarOff = 10.0;  // times the tolerance: then exactly, unless that takes longer than
constexpr double kLongExact = 2e9;

// Prices that are counted on some of the trees: about so many entries, but so many trees, or a share of them.
constexpr double kSampledEntries = 4e5, kLeastTrees = 8.0, kMostTrees = 32.0, kMostShareOfTrees = 1.0 / 3.0;
constexpr double kMostTrial =
    5e9;  // nanoseconds, as they are counted, of all of this: else the price is rough
constexpr double kSureRetry = 2.0;  // times the tolerance: a bound from which another try is priced

// First places: a coarse ranking names the likely units, and two more.
constexpr double kCoarse = 1e-4, kMostCoarseEntries = 4e6;
constexpr double kAlmostCoarse = 1e-5;  // a pruned ranking with this tolerance costs about as little
constexpr std::int32_t kMorePlaces = 2;

constexpr double kMostEntries =
    1e7;  // of a compilation; with up to three outputs they fit into the memory of a row

}  // namespace rule

}  // namespace predgap
