// The rows of a call, and how they are run: on threads, while the calling thread watches for interruption.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "noise/row_tables.hpp"
#include "planner/question.hpp"

namespace predgap {

// Rows as kernels read them. All arrays are row-major and outlive the call.
struct RowArrays {
    std::int64_t n;
    const double* x;              // (n, n_features) cast as the model casts them, or cells; NaN is missing
    const double *below, *above;  // (n, n_thresholds) tails of features with Law::table, else null
    const std::uint8_t* still;    // (n, n_features) values that do not move, or null

    RawRow row(const Model& model, std::int64_t r) const {
        const std::int64_t d = model.n_features(), k = model.n_thresholds();
        return {x + r * d, below ? below + r * k : nullptr, above ? above + r * k : nullptr,
                still ? still + r * d : nullptr};
    }
};

struct Answer {
    double bound = 0.0;  // every gap of the answer is within it; infinite if nothing is proven
    Method method = Method::exact;
};

// One array per row, or one for all.
template <class T>
struct PerRow {
    const T* data;
    bool shared;
    const T* row(std::int64_t r, std::int64_t width) const { return shared ? data : data + r * width; }
};

// What is asked of each row, as far as it decides how long a row may take.
struct Asked {
    Question::Kind kind;
    const Units* units;  // that are ranked
    std::int32_t n = 0;  // places, or units of which all subsets are asked
};

// The time that the rows of a call take, as far as it is known: what is planned of those that were begun, and
// more if more was counted of those that are done.
class Forecast {
public:
    void add(double nanoseconds, bool is_new_row) {
        nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
        if (is_new_row) n_rows_.fetch_add(1, std::memory_order_relaxed);
    }
    double nanoseconds_of_row() const {
        const auto n = n_rows_.load(std::memory_order_relaxed);
        return n > 0 ? nanoseconds_.load(std::memory_order_relaxed) / static_cast<double>(n) : 0.0;
    }

private:
    std::atomic<double> nanoseconds_{0.0};
    std::atomic<std::int64_t> n_rows_{0};
};

// How a call is run.
struct Running {
    int n_threads;
    std::function<bool(std::int64_t)> poll;  // told the rows done; false stops
    Forecast& forecast;
};

constexpr auto kPollInterval = std::chrono::milliseconds(50);

// All pieces on the calling thread, for pieces that are known to be short: starting a thread takes longer
// than many a call. As run_pieces otherwise.
template <class Make, class Run, class Poll>
bool run_here(std::int64_t n_pieces, Make make, Run run, Poll poll) {
    std::atomic<bool> stop{false};
    auto state = make();
    auto polled = std::chrono::steady_clock::now();
    bool told = false;
    for (std::int64_t i = 0; i < n_pieces; ++i) {
        run(state, i, stop);
        if (const auto now = std::chrono::steady_clock::now(); now - polled > kPollInterval) {
            if (!poll(i + 1)) return false;
            polled = now;
            told = true;
        }
    }
    return !told || poll(n_pieces);
}

// make() builds a worker's own state; run(state, piece, stop) does one piece. poll(done) is called on the
// calling thread now and then, and if so also at the end, and stops everything by returning false. True if
// all pieces were done.
template <class Make, class Run, class Poll>
bool run_pieces(std::int64_t n_pieces, int n_threads, Make make, Run run, Poll poll) {
    std::atomic<std::int64_t> next{0}, done{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable finished;
    std::exception_ptr failure;
    bool told = false;
    int n_working = static_cast<int>(std::clamp<std::int64_t>(n_pieces, 1, std::max(1, n_threads)));

    const auto work = [&] {
        try {
            auto state = make();
            for (auto i = next++; i < n_pieces && !stop; i = next++) {
                run(state, i, stop);
                ++done;
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            stop = true;
        }
        const std::lock_guard lock(mutex);
        --n_working;
        finished.notify_one();
    };

    std::vector<std::thread> threads;
    const int n_workers = n_working;
    try {
        for (int i = 0; i < n_workers; ++i) threads.emplace_back(work);
    } catch (...) {  // no more threads to be had: those that started do all the work
        const std::lock_guard lock(mutex);
        n_working -= n_workers - static_cast<int>(threads.size());
        if (threads.empty()) throw;
    }
    {
        std::unique_lock lock(mutex);
        while (!finished.wait_for(lock, kPollInterval, [&] { return n_working == 0; })) {
            lock.unlock();
            if (!stop && !poll(done.load())) stop = true;  // not again: its exception is set
            told = true;
            lock.lock();
        }
    }
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    return !stop && (!told || poll(n_pieces));
}

// All rows of a call; are_short: a row ends so soon that it need not be interruptible.
template <class Make, class Run>
bool run_rows(std::int64_t n_rows, const Running& how, bool are_short, Make make, Run run) {
    if (how.n_threads == 1 && are_short) return run_here(n_rows, make, run, how.poll);
    return run_pieces(n_rows, how.n_threads, make, run, how.poll);
}

}  // namespace predgap
