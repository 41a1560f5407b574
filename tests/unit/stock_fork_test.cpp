// Stocks across a fork of a process whose other threads build and drop.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/population.h"
#include "support/random.h"

namespace {

using hakmem_test::Population;

constexpr std::size_t kDropped = 10'000;

// What another thread's stock has when the process forks is the child's once.
TEST(StockFork, IsWholeInAChildOfABusyProcess) {
    hakmem_test::test_seed(); // chosen by the first who asks, who must not be one that the fork leaves behind
    std::atomic<bool> done{false};
    std::vector<std::thread> busy;
    for (std::uint64_t thread = 0; thread < 2; thread++) {
        busy.emplace_back([&done, thread] {
            Population population(110 + thread, kDropped);
            while (!done.load(std::memory_order_relaxed)) {
                population.build();
                population.drop(3, 4);
            }
        });
    }
    for (int i = 0; i < 30; i++) {
        const pid_t child = fork();
        if (child == 0) {
            Population population(120, kDropped);
            for (int round = 0; round < 3; round++) {
                population.build();
                population.drop(1, 1);
            }
            std::thread([&] { // takes over a heap that the fork has left without its thread
                Population others(121, kDropped);
                others.build();
                population.build();
                others.drop(1, 1);
                population.drop(1, 1);
                if (!others.intact()) {
                    _exit(2);
                }
            })
                .join();
            _exit(population.intact() ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    done.store(true, std::memory_order_relaxed);
    for (std::thread &thread : busy) {
        thread.join();
    }
}

} // namespace
