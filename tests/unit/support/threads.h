// Threads that start together, meet, and are joined together.
#ifndef HAKMEM_TEST_THREADS_H
#define HAKMEM_TEST_THREADS_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace hakmem_test {

// Runs body(0) .. body(count - 1), each in a thread of its own, all released at once.
template <typename Body>
void run_threads(std::size_t count, Body body) {
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (std::size_t i = 0; i < count; i++) {
        threads.emplace_back([&go, &body, i] {
            while (!go.load(std::memory_order_acquire)) {
                std::this_thread::yield();
            }
            body(i);
        });
    }
    go.store(true, std::memory_order_release);
    for (std::thread &thread : threads) {
        thread.join();
    }
}

// By the kernel's count.
inline std::size_t thread_count() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// Runs `body` in a thread of its own and waits for the thread to be gone.
template <typename Body>
void run_in_thread(Body &&body) {
    std::thread(std::forward<Body>(body)).join();
}

// Threads that meet at points of the test and sleep in between.
class Meeting {
  public:
    explicit Meeting(std::size_t members) : members_(members) {
    }
    void meet() {
        std::unique_lock<std::mutex> lock(mutex_);
        const std::size_t round = round_;
        if (++arrived_ == members_) {
            arrived_ = 0;
            round_++;
            all_here_.notify_all();
        }
        all_here_.wait(lock, [&] { return round_ != round; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_here_;
    std::size_t members_;
    std::size_t arrived_ = 0;
    std::size_t round_ = 0;
};

} // namespace hakmem_test

#endif
