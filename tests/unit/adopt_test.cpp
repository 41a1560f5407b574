// Adopting slabs: what one thread has left free in its slabs serves the others before new memory does.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/equal_blocks.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::counter;
using hakmem_test::fill_pattern;
using hakmem_test::free_blocks;
using hakmem_test::kMiB;
using hakmem_test::make_equal_blocks;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;

// A thread that has filled slabs and freed all blocks but one in `gap`, or one in `gap` where `keeps_most`,
// and then sleeps.
class Sleeper {
  public:
    Sleeper(std::size_t size, std::size_t bytes, std::size_t gap, bool keeps_most)
        : thread_([this, size, bytes, gap, keeps_most] {
              const std::vector<void *> blocks = make_equal_blocks(bytes / size, size);
              for (std::size_t i = 0; i < blocks.size(); i++) {
                  if ((i % gap == 0) != keeps_most) {
                      kept_.push_back(blocks[i]);
                  } else {
                      hak_free(blocks[i]);
                  }
              }
              hak_tiny_magazine_flush_all();
              asleep_.set_value();
              woken_.get_future().wait();
              free_blocks(kept_);
          }) {
        asleep_.get_future().wait();
    }
    ~Sleeper() {
        wake();
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    // It frees what it has kept, and ends.
    void wake() {
        if (thread_.joinable()) {
            woken_.set_value();
            thread_.join();
        }
    }
    const std::vector<void *> &kept() const {
        return kept_;
    }

  private:
    std::vector<void *> kept_;
    std::promise<void> asleep_;
    std::promise<void> woken_;
    std::thread thread_; // the last: it uses the others
};

class Adopt : public testing::TestWithParam<std::size_t> {};

TEST_P(Adopt, WhatAThreadHasLeftFreeServesOthersWhileItSleeps) {
    const std::size_t size = GetParam();
    const Sleeper sleeper(size, 32 * kMiB, 4, false);
    const std::uint64_t created = counter("slabs_created");
    const std::uint64_t adopted = counter("slabs_adopted");
    const std::vector<void *> blocks = make_equal_blocks(16 * kMiB / size, size);
    EXPECT_GT(counter("slabs_adopted") - adopted, 0u);
    // Those of other sizes; 16 MiB would be 256 of them.
    EXPECT_LE(counter("slabs_created") - created, 16u);
    free_blocks(blocks);
}

// The few blocks that others got of them would hold them when their owner has freed the rest.
TEST_P(Adopt, SlabsThatAreNearlyFullStayTheirOwners) {
    const std::size_t size = GetParam();
    const Sleeper sleeper(size, 32 * kMiB, 20, true);
    const std::uint64_t adopted = counter("slabs_adopted");
    const std::vector<void *> blocks = make_equal_blocks(1 * kMiB / size, size);
    EXPECT_EQ(counter("slabs_adopted") - adopted, 0u);
    free_blocks(blocks);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Adopt, testing::Values(300, 1000, 5000, 20'000),
                         testing::PrintToStringParamName());

class AdoptTiny : public testing::TestWithParam<std::size_t> {};

// Writes of one to its blocks would slow down the other's.
TEST_P(AdoptTiny, ThreadsThatRunGetNoBlocksOfTheSameCacheLine) {
    constexpr std::uintptr_t kLineBytes = 64;
    const std::size_t size = GetParam();
    const Sleeper sleeper(size, 8 * kMiB, 4, false);
    std::set<std::uintptr_t> lines;
    for (void *block : sleeper.kept()) {
        const auto first = reinterpret_cast<std::uintptr_t>(block);
        lines.insert(first / kLineBytes);
        lines.insert((first + size - 1) / kLineBytes);
    }
    const std::vector<void *> blocks = make_equal_blocks(4 * kMiB / size, size);
    std::size_t shared = 0;
    for (void *block : blocks) {
        const auto first = reinterpret_cast<std::uintptr_t>(block);
        shared += lines.count(first / kLineBytes) + lines.count((first + size - 1) / kLineBytes);
    }
    EXPECT_EQ(shared, 0u);
    free_blocks(blocks);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdoptTiny, testing::Values(8, 16, 48, 112),
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
    constexpr std::array<std::size_t, 4> kSizes = {300, 700, 3000, 9000};
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
