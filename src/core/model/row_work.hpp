// Counts what the answer for one row has taken so far: what was done, at nominal speeds, and the bytes of its
// arrays. No clock is read, and nothing counts that depends on the rows before: whether a row is given up
// depends on neither the machine, its load, nor the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "simd/lanes.hpp"

namespace predgap {

// The nanoseconds of each thing that is counted, about those of a processor of these years.
namespace nominal {
constexpr double kRow = 5000.0, kAtom = 3.0;  // to begin, and for each atom of the model
constexpr double kWalkedNode = 30.0;          // of a tree that is compiled, or counted
constexpr double kAtomLeftOut = 4.0;          // of the model, where the bound is added up
constexpr double kEntry = 16.0;               // of a box that is multiplied out
constexpr double kLimitOfEntry = 20.0;        // to decide whether it is left out
constexpr double kCompiledTerm = 55.0;        // of one that is new, found and laid out
constexpr double kComponent = 8.0;            // of terms, each time that it is evaluated
constexpr double kUnit = 1.5;                 // outside a subset, whose gain is added up
constexpr double kSlotOfPair = 0.08;          // of a pair of terms of a component
constexpr double kOutput = 0.63;              // of one output, for each further one
constexpr double kPushedTerm = 1.5;           // when a feature joins the subset
constexpr double kReducedNode = 60.0;         // of a tree whose leaves are paired
constexpr double kMetSplit = 20.0;            // of a tree by eight leaves of another
constexpr double kWordOfSet = 1.5;            // of the cells of a box
constexpr double kWeightOfPart = 0.5;         // of all subsets of some units
constexpr double kSampledLevel = 4.0;         // of a tree and a sample
}  // namespace nominal

class RowWork {
public:
    struct Limits {
        double nanoseconds = 120e9, bytes = 1 << 30;
    };

    // Begins a row. Its work ends early if `stop` becomes true, or if it goes beyond the limits.
    void begin(const std::atomic<bool>& stop, const Limits& limits) {
        asked_ = stop_ = &stop;
        limits_ = limits;
        keep_most();
        nanoseconds_ = bytes_ = 0.0;
        held_.fill(0.0);
    }
    // Returns the most nanoseconds and the most bytes that any row took since the last call.
    Limits take_most() {
        keep_most();
        nanoseconds_ = bytes_ = 0.0;
        return std::exchange(most_, {0.0, 0.0});
    }

    PREDGAP_INLINE void add(double nanoseconds) {
        nanoseconds_ += nanoseconds;
        if (nanoseconds_ > limits_.nanoseconds) stop_ = &kAlways;
    }

    // Names the arrays of a row. They are in memory at the same time, so their bytes add up.
    enum class Arrays : std::uint8_t {
        tables,
        main_effects,
        compilation,
        boxes,
        terms,
        states,
        trees,
        parts,
        copies,
        n_kinds
    };
    void hold(Arrays arrays, double bytes) {
        held_[static_cast<std::size_t>(arrays)] = bytes;
        bytes_ = std::max(bytes_, held());
        if (bytes_ > limits_.bytes) stop_ = &kAlways;
    }

    // True if the row ends early, because it was stopped or takes too much. Its results are then void.
    PREDGAP_INLINE bool stopped() const { return stop_->load(std::memory_order_relaxed); }
    bool is_too_much() const { return stop_ == &kAlways && !asked_->load(std::memory_order_relaxed); }

    double nanoseconds() const { return nanoseconds_; }
    double bytes() const { return bytes_; }  // at most, at any time
    double held() const {                    // now
        double sum = 0.0;
        for (const double own : held_) sum += own;
        return sum;
    }
    double held(Arrays arrays) const { return held_[static_cast<std::size_t>(arrays)]; }

private:
    friend class WorkApart;
    static const std::atomic<bool> kAlways;

    void keep_most() {
        most_.nanoseconds = std::max(most_.nanoseconds, nanoseconds_);
        most_.bytes = std::max(most_.bytes, bytes_);
    }

    const std::atomic<bool>* stop_ = nullptr;
    const std::atomic<bool>* asked_ = nullptr;
    Limits limits_, most_{0.0, 0.0};
    double nanoseconds_ = 0.0, bytes_ = 0.0;
    std::array<double, static_cast<std::size_t>(Arrays::n_kinds)> held_{};
};

// Counts what follows apart, with limits of its own, until it is destroyed: trials that are no part of an
// answer.
class WorkApart {
public:
    WorkApart(RowWork& work, const RowWork::Limits& limits) : work_(work), kept_(work) {
        work.limits_ = limits;
        work.stop_ = work.asked_;
        work.nanoseconds_ = work.bytes_ = 0.0;
    }
    WorkApart(const WorkApart&) = delete;
    WorkApart& operator=(const WorkApart&) = delete;
    ~WorkApart() { work_ = kept_; }

private:
    RowWork& work_;
    const RowWork kept_;
};

}  // namespace predgap
