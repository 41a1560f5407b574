// fork in a process whose other threads allocate: the child's heap works in every lane.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/child.h"
#include "support/lanes.h"
#include "support/no_decay.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"

// support/lost_heap.c
extern "C" bool hakmem_test_lost_heap_releases_its_slab(std::size_t size);
extern "C" bool hakmem_test_lost_claims_are_given_up();
// support/arena_lock.c
extern "C" bool hakmem_test_arena_is_purging();
extern "C" bool hakmem_test_end_of_purging_is_awaited();

namespace {

using hakmem_test::counter;
using hakmem_test::expect_child_to_succeed;
using hakmem_test::fill_pattern;
using hakmem_test::kEdges;
using hakmem_test::kMiB;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::scaled;
using hakmem_test::stats_now;

constexpr std::size_t kHammers = 3;

// Exit codes of a child, which must not report through gtest: its copy of the reporter may be locked for
// good.
enum ChildCode { kFine = 0, kNoMemory = 1, kDamaged = 2, kInherited = 3, kThreadFailed = 4 };

int allocate_and_free_everywhere() {
    for (int round = 0; round < 3; round++) {
        std::array<void *, kEdges.size()> blocks{};
        for (std::size_t i = 0; i < kEdges.size(); i++) {
            blocks[i] = hak_malloc(kEdges[i]);
            if (blocks[i] == nullptr) {
                return kNoMemory;
            }
            fill_pattern(blocks[i], kEdges[i], i);
        }
        for (std::size_t i = 0; i < kEdges.size(); i++) {
            if (!pattern_intact(blocks[i], kEdges[i], i)) {
                return kDamaged;
            }
            hak_free(blocks[i]);
        }
    }
    return kFine;
}

struct Legacy {
    void *block;
    std::size_t size;
};

std::vector<Legacy> make_legacy() {
    std::vector<Legacy> legacy;
    for (std::size_t size : kEdges) {
        void *block = hak_malloc(size);
        fill_pattern(block, size, size);
        legacy.push_back({block, size});
    }
    return legacy;
}

int free_legacy(const std::vector<Legacy> &legacy) {
    for (const Legacy &inherited : legacy) {
        if (!pattern_intact(inherited.block, inherited.size, inherited.size)) {
            return kInherited;
        }
        hak_free(inherited.block);
    }
    return kFine;
}

int in_a_thread() {
    int code = kThreadFailed;
    std::thread([&code] { code = allocate_and_free_everywhere(); }).join();
    return code;
}

// Starting a thread allocates from the sanitizer's own heap, whose locks other threads may have held at the
// fork.
constexpr bool kChildMayStartThreads = !HAKMEM_TEST_SANITIZED;

int run_child(const std::vector<Legacy> &legacy) {
    const int here = allocate_and_free_everywhere();
    const int inherited = free_legacy(legacy);
    const int in_thread = kChildMayStartThreads ? in_a_thread() : static_cast<int>(kFine);
    for (const int code : {here, inherited, in_thread}) {
        if (code != kFine) {
            return code;
        }
    }
    hak_collect();
    return allocate_and_free_everywhere();
}

// Threads that are in the middle of every kind of operation when a fork happens.
class Hammers {
  public:
    Hammers() {
        for (std::size_t i = 0; i < kHammers; i++) {
            threads_.emplace_back([this, i] { hammer(i); });
        }
    }

    ~Hammers() {
        stop_ = true;
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

  private:
    void hammer(std::size_t number) {
        Random random(number);
        std::vector<void *> blocks(64);
        while (!stop_) {
            void *&block = blocks[random.below(blocks.size())];
            if (block == nullptr) {
                block = hak_malloc(kEdges[random.below(kEdges.size())]);
            } else if (random.one_in(3)) {
                block = hak_realloc(block, 1 + kEdges[random.below(kEdges.size())]);
            } else {
                hak_free(block);
                block = nullptr;
            }
            if (random.one_in(2000)) {
                hak_collect();
            }
            if (random.one_in(200)) {
                hak_free_at(hak_alloc_at(100, number + 1), 100, number + 1);
            }
        }
        for (void *block : blocks) {
            hak_free(block);
        }
    }

    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

TEST(Fork, ChildrenOfABusyProcessCanUseEveryLane) {
    const std::vector<Legacy> legacy = make_legacy();
    {
        const Hammers hammers;
        for (std::size_t i = 0; i < scaled(200); i++) {
            expect_child_to_succeed([&] { return run_child(legacy); });
            if (HasFatalFailure()) {
                break;
            }
        }
    }
    EXPECT_EQ(free_legacy(legacy), kFine) << "the parent's own blocks, after its children freed their copies";
}

// Its thread may have had it for an instant only, and noted nowhere that it has one.
TEST(Fork, TheSlabOfALostThreadIsReleased) {
    for (const std::size_t size : {std::size_t{48}, std::size_t{1000}, std::size_t{50000}}) {
        EXPECT_TRUE(hakmem_test_lost_heap_releases_its_slab(size)) << size;
    }
}

TEST(Fork, WhatLostThreadsWereAboutToSendIsGivenUp) {
    EXPECT_TRUE(hakmem_test_lost_claims_are_given_up());
}

// While a collect is at the first of what it has to purge, another thread forks, which holds all other locks.
class ForkInACollect {
  public:
    // The child finds no more purged than that.
    explicit ForkInACollect(std::uint64_t purged_most) {
        purged_most_ = purged_most;
        os_fault_listen(hear);
        hak_collect();
        os_fault_listen(nullptr);
        EXPECT_TRUE(forker_.joinable());
        forker_.join();
    }

  private:
    static void hear() {
        if (hakmem_test_arena_is_purging() && !forker_.joinable()) {
            forker_ = std::thread([] {
                expect_child_to_succeed([] { return stats_now().purged_bytes <= purged_most_ ? 0 : 1; });
            });
            while (!hakmem_test_end_of_purging_is_awaited()) {
                std::this_thread::yield();
            }
        }
    }

    static std::thread forker_;
    static std::uint64_t purged_most_;
};
std::thread ForkInACollect::forker_;
std::uint64_t ForkInACollect::purged_most_;

TEST(Fork, WaitsForNoMoreThanTheRangesThatArePurgedJustNow) {
    constexpr std::size_t kSize = 2 * 64 * 1024; // whole slabs: there is nothing else to purge
    constexpr std::size_t kRanges = 200;
    constexpr std::size_t kAtOnce = 16;
    const hakmem_test::NoDecay no_decay;
    hak_option_set("retain_min", "1G");
    hak_collect();
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < 2 * kRanges; i++) {
        blocks.push_back(std::memset(hak_malloc(kSize), 1, kSize));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        hak_free(blocks[i]);
    }
    const ForkInACollect forked(stats_now().purged_bytes + 2 * kAtOnce * kSize);
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        hak_free(blocks[i]);
    }
    hak_option_set("retain_min", "2816K");
    hak_collect();
}

TEST(Fork, FromSeveralThreadsAtOnce) {
    const std::vector<Legacy> legacy = make_legacy();
    std::vector<std::thread> forkers;
    for (int i = 0; i < 3; i++) {
        forkers.emplace_back([&] {
            for (std::size_t round = 0; round < scaled(60) && !HasFatalFailure(); round++) {
                allocate_and_free_everywhere();
                expect_child_to_succeed([&] { return run_child(legacy); });
            }
        });
    }
    for (std::thread &forker : forkers) {
        forker.join();
    }
    EXPECT_EQ(free_legacy(legacy), kFine);
}

TEST(Fork, AGrandchildCanUseEveryLane) {
    const std::vector<Legacy> legacy = make_legacy();
    const Hammers hammers;
    for (int round = 0; round < 20; round++) {
        expect_child_to_succeed([&] {
            const int code = allocate_and_free_everywhere();
            if (code != kFine) {
                return code;
            }
            const pid_t grandchild = fork();
            if (grandchild == 0) {
                _exit(run_child(legacy));
            }
            int status = 0;
            waitpid(grandchild, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
        });
        if (HasFatalFailure()) {
            break;
        }
    }
    free_legacy(legacy);
}

TEST(Fork, ParentAndChildDoNotShareBlocks) {
    unsigned char *block = static_cast<unsigned char *>(hak_malloc(5000));
    fill_pattern(block, 5000, 1);
    expect_child_to_succeed([&] {
        fill_pattern(block, 5000, 2);
        hak_free(block);
        void *again = hak_malloc(5000);
        fill_pattern(again, 5000, 3);
        return static_cast<int>(kFine);
    });
    EXPECT_TRUE(pattern_intact(block, 5000, 1));
    hak_free(block);
}

// A run that its thread keeps: the child, which has lost that thread, gives it back.
TEST(Fork, ReturnsTheRunsThatALostThreadHasKept) {
    constexpr std::size_t kRun = kMiB;
    const auto use = [] {
        for (int i = 0; i < 10; i++) {
            hak_free(std::memset(hak_malloc(kRun), 1, kRun));
        }
    };
    std::atomic<bool> kept{false};
    std::atomic<bool> done{false};
    std::thread busy([&] {
        use();
        kept.store(true, std::memory_order_release);
        while (!done.load(std::memory_order_acquire)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    while (!kept.load(std::memory_order_acquire)) {
        std::this_thread::yield();
    }
    const pid_t child = fork();
    if (child == 0) {
        const bool inherited = stats_now().retained_bytes >= kRun;
        hak_collect();
        const bool returned = stats_now().retained_bytes < kRun / 2;
        use();
        _exit(inherited && returned && counter("large_kept") > 0 ? kFine : kInherited);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, kFine);
    done.store(true, std::memory_order_release);
    busy.join();
}

} // namespace
