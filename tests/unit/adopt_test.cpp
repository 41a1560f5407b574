// Adopting slabs: what one thread has left free in its slabs serves the others before new memory does.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::counter;
using hakmem_test::fill_pattern;
using hakmem_test::kMiB;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;

class Adopt : public testing::TestWithParam<std::size_t> {};

// One thread fills slabs, frees three of four blocks, and then does nothing that would take some back.
TEST_P(Adopt, WhatAThreadHasLeftFreeServesOthersWhileItSleeps) {
    const std::size_t size = GetParam();
    const std::size_t count = 32 * kMiB / size;
    std::promise<void> left;
    std::promise<void> done;
    std::thread owner([&] {
        std::vector<void *> blocks;
        for (std::size_t i = 0; i < count; i++) {
            blocks.push_back(hak_malloc(size));
        }
        for (std::size_t i = 0; i < count; i++) {
            if (i % 4 != 0) {
                hak_free(blocks[i]);
            }
        }
        hak_tiny_magazine_flush_all();
        left.set_value();
        done.get_future().wait();
        for (std::size_t i = 0; i < count; i += 4) {
            hak_free(blocks[i]);
        }
    });
    left.get_future().wait();
    const std::uint64_t created = counter("slabs_created");
    const std::uint64_t adopted = counter("slabs_adopted");
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < count / 2; i++) {
        blocks.push_back(hak_malloc(size));
    }
    EXPECT_GT(counter("slabs_adopted") - adopted, 0u);
    // Those of the vector and the thread; 16 MiB would be 256 of them.
    EXPECT_LE(counter("slabs_created") - created, 16u);
    for (void *block : blocks) {
        hak_free(block);
    }
    done.set_value();
    owner.join();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Adopt, testing::Values(100, 1000, 5000, 20'000),
                         testing::PrintToStringParamName());

struct Held {
    void *block;
    std::size_t size;
    std::uint64_t stamp;
};

// Blocks that threads leave for each other.
class Exchange {
  public:
    void put(const Held &held) {
        const std::lock_guard<std::mutex> guard(lock_);
        held_.push_back(held);
    }
    std::vector<Held> take() {
        const std::lock_guard<std::mutex> guard(lock_);
        return std::exchange(held_, {});
    }

  private:
    std::mutex lock_;
    std::vector<Held> held_;
};

bool release(const Held &held) {
    const bool intact = pattern_intact(held.block, held.size, held.stamp);
    hak_free(held.block);
    return intact;
}

// Each thread grows in one size, drops most of it, leaves some for its neighbour, and goes on to the next
// size, in which another has just done the same.
TEST(Adopt, SlabsThatGoToAndFroKeepTheirBlocksApart) {
    constexpr std::size_t kThreads = 6;
    constexpr std::array<std::size_t, 4> kSizes = {64, 700, 3000, 9000};
    constexpr std::size_t kBytes = 4 * kMiB;
    std::array<Exchange, kThreads> exchanges;
    std::array<bool, kThreads> intact{};
    const std::uint64_t adopted = counter("slabs_adopted");
    run_threads(kThreads, [&](std::size_t me) {
        Random random(me + 1);
        std::vector<Held> kept;
        bool ok = true;
        for (std::size_t round = 0; round < scaled(60); round++) {
            const std::size_t size = kSizes[(round + me) % kSizes.size()];
            for (std::size_t bytes = 0; bytes < kBytes; bytes += size) {
                const Held held = {hak_malloc(size), size, random.next()};
                fill_pattern(held.block, size, held.stamp);
                kept.push_back(held);
            }
            std::vector<Held> next;
            for (const Held &held : kept) {
                const std::size_t fate = random.below(16);
                if (fate == 0) {
                    next.push_back(held);
                } else if (fate == 1) {
                    exchanges[(me + 1) % kThreads].put(held);
                } else {
                    ok &= release(held);
                }
            }
            kept = std::move(next);
            for (const Held &held : exchanges[me].take()) {
                ok &= release(held);
            }
        }
        for (const Held &held : kept) {
            ok &= release(held);
        }
        intact[me] = ok;
    });
    for (std::size_t i = 0; i < kThreads; i++) {
        EXPECT_TRUE(intact[i]) << "thread " << i;
        for (const Held &held : exchanges[i].take()) {
            EXPECT_TRUE(release(held));
        }
    }
    EXPECT_GT(counter("slabs_adopted") - adopted, 0u);
}

} // namespace
