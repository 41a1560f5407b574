// The OS layer fails at any call: an allocation then succeeds or gives NULL, and nothing is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/faults.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::expect_everything_works;
using hakmem_test::fallbacks;
using hakmem_test::fill_pattern;
using hakmem_test::kEveryCall;
using hakmem_test::kMiB;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::stats_at_rest;
using hakmem_test::switch_faults_off;

constexpr std::array<const char *, OS_FAULT_KINDS> kKindNames = {"Reserve", "Commit", "Purge", "Remap"};

// Random operations whose failure is allowed, but not what a failure may break.
class Workload {
  public:
    explicit Workload(std::uint64_t stream) : random_(stream), blocks_(200) {
    }

    void run(std::size_t operations) {
        for (std::size_t i = 0; i < operations && !testing::Test::HasFailure(); i++) {
            Block &block = blocks_[random_.below(blocks_.size())];
            if (block.at == nullptr) {
                allocate(block);
            } else if (random_.one_in(3)) {
                resize(block, 1 + random_size());
            } else {
                release(block);
            }
            if (random_.one_in(500)) {
                hak_collect();
            }
            if (random_.one_in(25)) {
                make_a_huge_block_move();
            }
        }
    }

    void release_all() {
        for (Block &block : blocks_) {
            if (block.at != nullptr) {
                release(block);
            }
        }
    }

    std::size_t failures() const {
        return failures_;
    }

  private:
    struct Block {
        void *at = nullptr;
        std::size_t size = 0;
        std::uint64_t stamp = 0;
    };

    std::size_t random_size() {
        return random_.log_uniform(random_.one_in(20) ? 26 : random_.one_in(4) ? 20 : 14);
    }

    void allocate(Block &block) {
        const std::uint64_t kind = random_.below(4);
        // Looking at every byte of the largest would take most of the time.
        const std::size_t size = kind == 2 ? std::min(random_size(), 4 * kMiB) : random_size();
        errno = 0;
        void *at = kind < 2    ? hak_malloc(size)
                   : kind == 2 ? hak_calloc(1, size)
                               : hak_aligned_alloc(std::size_t{1} << random_.below(22), size);
        if (kind == 2 && at != nullptr) {
            ASSERT_TRUE(all_zero(at, size)) << size;
        }
        keep(block, at, size);
    }

    void make_a_huge_block_move() {
        Block block;
        keep(block, hak_malloc(3 * kMiB), 3 * kMiB);
        void *obstacle = hak_malloc(3 * kMiB);
        if (block.at != nullptr) {
            resize(block, 20 * kMiB);
            release(block);
        }
        hak_free(obstacle);
    }

    void keep(Block &block, void *at, std::size_t size) {
        if (at == nullptr) {
            ASSERT_EQ(errno, ENOMEM) << size;
            failures_++;
            return;
        }
        ASSERT_GE(hak_usable_size(at), size);
        block = {at, size, random_.next()};
        fill_pattern(at, size, block.stamp);
    }

    void resize(Block &block, std::size_t size) {
        errno = 0;
        void *at = hak_realloc(block.at, size);
        if (at != nullptr) {
            ASSERT_TRUE(pattern_intact(at, block.size, std::min(size, block.size), block.stamp))
                << block.size << " to " << size;
        }
        keep(block, at, size);
        ASSERT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
    }

    void release(Block &block) {
        ASSERT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
        hak_free(block.at);
        block = Block{};
    }

    Random random_;
    std::vector<Block> blocks_;
    std::size_t failures_ = 0;
};

enum Outcome { kNoCallFailed = 10, kLostNothing = 11, kBroken = 12 };

Outcome run_round(os_fault kind, long after, long count) {
    const ResidentMeter meter;
    Workload workload(static_cast<std::uint64_t>(after * 3 + count + 1));
    os_fault_set(kind, after, count);
    workload.run(1500);
    workload.release_all();
    hak_collect();
    switch_faults_off();
    const bool failed = workload.failures() + fallbacks() > 0;
    expect_everything_works();
    hak_collect();
    meter.expect_growth_within(4 * kMiB, "after hak_collect with faults switched off");
    EXPECT_EQ(stats_at_rest().live_blocks, 0u);
    return testing::Test::HasFailure() ? kBroken : failed ? kLostNothing : kNoCallFailed;
}

// A sanitizer gets fewer rounds, not shorter ones: a short one does not come to move huge blocks.
// ThreadSanitizer gets the fewest: a round has one thread.
constexpr long kRoundStep =
    HAKMEM_TEST_DIVISOR <= 10 ? std::max(2, HAKMEM_TEST_DIVISOR / 2) : HAKMEM_TEST_DIVISOR;

// Each round is a process of its own that starts without a heap, or most calls would never be made again.
[[noreturn]] void run_every_round(os_fault kind) {
    hakmem_test::test_seed(); // chosen once, for all rounds
    std::size_t reached = 0;
    long first = 0; // another one for each count: together they come to more of the calls
    for (const long count : {1L, 3L, kEveryCall}) {
        for (long after = first++; after <= 50; after += kRoundStep) {
            const pid_t child = fork();
            if (child == 0) {
                std::_Exit(run_round(kind, after, count));
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) == kBroken) {
                std::fprintf(stderr, "broken where %ld calls fail after %ld\n", count, after);
                std::_Exit(1);
            }
            reached += WEXITSTATUS(status) == kLostNothing ? 1 : 0;
        }
    }
    std::fprintf(stderr, "a call failed in %zu rounds\n", reached);
    std::_Exit(reached > 0 ? 0 : 1);
}

class Fault : public testing::TestWithParam<int> {
  protected:
    Fault() : kind_(static_cast<os_fault>(GetParam())) {
    }
    ~Fault() override {
        switch_faults_off();
    }

    os_fault kind_;
};

TEST_P(Fault, AtAnyCallLosesNothing) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(run_every_round(kind_), testing::ExitedWithCode(0), "");
}

TEST_P(Fault, FromTheVeryFirstCallOn) {
    const auto first_use = [this] {
        os_fault_set(kind_, 0, kEveryCall);
        Workload workload(1);
        workload.run(1000);
        workload.release_all();
        switch_faults_off();
        if (kind_ == OS_FAULT_RESERVE || kind_ == OS_FAULT_COMMIT) {
            EXPECT_GT(workload.failures(), 0u) << "memory came from nowhere";
        }
        expect_everything_works();
        std::_Exit(HasFailure() ? 1 : 0);
    };
    // A process of its own, so that the allocator has not started yet.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(first_use(), testing::ExitedWithCode(0), "");
}

// As under a limit that leaves room for little: what is asked for beyond the least must not be missed.
TEST(FaultOnce, OfTheFirstCommitCostsNothing) {
    const auto first_use = [] {
        os_fault_set(OS_FAULT_COMMIT, 0, 1);
        EXPECT_NE(hak_malloc(100), nullptr);
        EXPECT_NE(hak_malloc(1000), nullptr);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(first_use(), testing::ExitedWithCode(0), "");
}

TEST_P(Fault, InNewThreadsLosesNothing) {
    for (long after = 0; after < 12; after++) {
        os_fault_set(kind_, after, kEveryCall);
        run_in_thread([&] {
            Workload workload(static_cast<std::uint64_t>(after));
            workload.run(scaled(2000));
            workload.release_all();
        });
        switch_faults_off();
        run_in_thread(expect_everything_works);
        ASSERT_FALSE(HasFailure()) << "after " << after;
    }
}

TEST_P(Fault, ThatComesAndGoesUnderManyThreadsLosesNothing) {
    // Where nothing fails but moving, all blocks are made, however large.
    const std::size_t operations = scaled(kind_ == OS_FAULT_REMAP ? 15'000 : 50'000);
    std::atomic<std::size_t> running{3};
    run_threads(4, [&](std::size_t number) {
        if (number == 0) {
            Random random(number);
            while (running.load() > 0) {
                os_fault_set(kind_, static_cast<long>(random.below(4)), static_cast<long>(random.below(20)));
                std::this_thread::yield();
            }
            return;
        }
        Workload workload(number);
        workload.run(operations);
        workload.release_all();
        running--;
    });
    switch_faults_off();
    ASSERT_FALSE(HasFailure());
    expect_everything_works();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fault, testing::Range(0, static_cast<int>(OS_FAULT_KINDS)),
                         [](const testing::TestParamInfo<int> &info) {
                             return kKindNames[static_cast<std::size_t>(info.param)];
                         });

} // namespace
