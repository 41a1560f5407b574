// Threads that start together and are joined together.
#ifndef HAKMEM_TEST_THREADS_H
#define HAKMEM_TEST_THREADS_H

#include <atomic>
#include <cstddef>
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

// Runs `body` in a thread of its own and waits for the thread to be gone.
template <typename Body>
void run_in_thread(Body &&body) {
    std::thread(std::forward<Body>(body)).join();
}

} // namespace hakmem_test

#endif
