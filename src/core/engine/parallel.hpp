// Runs independent pieces of work on threads, while the calling thread watches for interruption.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace predgap {

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

}  // namespace predgap
