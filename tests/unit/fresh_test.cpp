// Slabs on memory that was used before, of which a thread needs a block or two: the rest is free, and
// resident.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/resident.h"
#include "support/scale.h"

#if !HAKMEM_TEST_SANITIZED
namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::ResidentMeter;

constexpr std::size_t kThreads = 24;
constexpr std::size_t kLargest = 64 * kKiB;

// Longer than what a thread keeps for its next large block.
void use_memory() {
    constexpr std::size_t kBytes = 1536 * kKiB;
    void *block = hak_malloc(kBytes);
    std::memset(block, 1, kBytes);
    hak_free(block);
}

// One block of each size; the slab that it is the first of lies where other blocks were.
std::vector<void *> one_of_each() {
    std::vector<void *> blocks;
    for (std::size_t size = 1; size <= kLargest; size = hak_good_size(size) + 1) {
        use_memory();
        blocks.push_back(hak_malloc(size));
    }
    return blocks;
}

TEST(Fresh, WhatManyThreadsHaveOfManySizesIsMostlyNotResident) {
    hak_collect();
    const ResidentMeter meter;
    std::atomic<bool> end{false};
    std::atomic<std::size_t> held{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; i++) {
        std::atomic<bool> done{false};
        threads.emplace_back([&] {
            const std::vector<void *> blocks = one_of_each();
            held += blocks.size();
            done = true;
            while (!end) {
                std::this_thread::yield();
            }
            for (void *block : blocks) {
                hak_free(block);
            }
        });
        while (!done) {
            std::this_thread::yield();
        }
    }
    EXPECT_GT(held, kThreads * 20);
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(192 * kMiB));
    end = true;
    for (std::thread &thread : threads) {
        thread.join();
    }
}

} // namespace
#endif
