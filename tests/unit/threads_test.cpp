// Threads × sizes × lifetimes, and threads in great numbers.
#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <ostream>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::fill_pattern;
using hakmem_test::kEdges;
using hakmem_test::kMiB;
using hakmem_test::kMidLimit;
using hakmem_test::number_in;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::statistics_json;
using hakmem_test::stats_at_rest;
using hakmem_test::stats_now;

enum class Lifetime { kFreedAtOnce, kFirstInFirstOut, kLastInFirstOut, kRandom };

struct Cell {
    std::size_t threads;
    Lifetime lifetime;
};

void PrintTo(const Cell &cell, std::ostream *out) {
    static const std::array<const char *, 4> names = {"FreedAtOnce", "FirstInFirstOut", "LastInFirstOut",
                                                      "Random"};
    *out << cell.threads << "Threads" << names[static_cast<std::size_t>(cell.lifetime)];
}

// The blocks of one thread and one size, taken out in the order of the lifetime.
class Holder {
  public:
    Holder(std::size_t size, Lifetime lifetime, Random &random)
        : size_(size), lifetime_(lifetime), random_(random) {
    }

    bool add() {
        void *block = hak_malloc(size_);
        if (block == nullptr) {
            return false;
        }
        const std::uint64_t stamp = random_.next();
        fill_pattern(block, size_, stamp);
        held_.push_back({block, stamp});
        return true;
    }

    bool remove() {
        std::size_t index = 0;
        if (lifetime_ == Lifetime::kLastInFirstOut || lifetime_ == Lifetime::kFreedAtOnce) {
            index = held_.size() - 1;
        } else if (lifetime_ == Lifetime::kRandom) {
            index = random_.below(held_.size());
        }
        const Held held = held_[index];
        held_[index] = lifetime_ == Lifetime::kFirstInFirstOut ? held_.front() : held_.back();
        if (lifetime_ == Lifetime::kFirstInFirstOut) {
            held_.pop_front();
        } else {
            held_.pop_back();
        }
        const bool intact = pattern_intact(held.block, size_, held.stamp);
        hak_free(held.block);
        return intact;
    }

    std::size_t count() const {
        return held_.size();
    }

  private:
    struct Held {
        void *block;
        std::uint64_t stamp;
    };

    std::size_t size_;
    Lifetime lifetime_;
    Random &random_;
    std::deque<Held> held_;
};

bool live_and_die(std::size_t size, Lifetime lifetime, Random &random) {
    const std::size_t held = lifetime == Lifetime::kFreedAtOnce ? 1 : size <= kMidLimit ? 1000 : 8;
    const std::size_t rounds = scaled(size <= kMidLimit ? 20'000 : 200);
    Holder holder(size, lifetime, random);
    bool intact = true;
    for (std::size_t i = 0; i < rounds; i++) {
        intact &= holder.add();
        if (holder.count() > held) {
            intact &= holder.remove();
        }
    }
    while (holder.count() > 0) {
        intact &= holder.remove();
    }
    return intact;
}

class Matrix : public testing::TestWithParam<Cell> {};

TEST_P(Matrix, BlocksOfEverySizeKeepTheirContents) {
    const Cell cell = GetParam();
    run_threads(cell.threads, [&](std::size_t number) {
        Random random(number);
        for (std::size_t size : kEdges) {
            EXPECT_TRUE(live_and_die(size, cell.lifetime, random)) << size << " bytes in thread " << number;
        }
    });
}

std::vector<Cell> cells() {
    std::vector<Cell> all;
    for (std::size_t threads : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
        for (Lifetime lifetime : {Lifetime::kFreedAtOnce, Lifetime::kFirstInFirstOut,
                                  Lifetime::kLastInFirstOut, Lifetime::kRandom}) {
            all.push_back({threads, lifetime});
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndLifetimes, Matrix, testing::ValuesIn(cells()),
                         testing::PrintToStringParamName());

TEST(Threads, SixtyFourOnFewCoresKeepTheirBlocksApart) {
    run_threads(64, [](std::size_t number) {
        Random random(number);
        for (int round = 0; round < 4; round++) {
            for (std::size_t size : {16uL, 100uL, 1000uL, 5000uL, 60'000uL, 100'000uL}) {
                Holder holder(size, Lifetime::kRandom, random);
                for (std::size_t i = 0; i < scaled(1000); i++) {
                    ASSERT_TRUE(holder.add()) << size;
                    if (holder.count() > 50) {
                        ASSERT_TRUE(holder.remove()) << size << " bytes in thread " << number;
                    }
                }
                while (holder.count() > 0) {
                    ASSERT_TRUE(holder.remove()) << size << " bytes in thread " << number;
                }
            }
        }
    });
    hak_tiny_magazine_flush_all();
    EXPECT_EQ(stats_at_rest().live_blocks, 0u);
}

// What short threads leave to each other, freed by a thread that did not allocate it.
class Heirlooms {
  public:
    void exchange(void *block) {
        void *old = nullptr;
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            old = blocks_[next_];
            blocks_[next_] = block;
            next_ = (next_ + 1) % blocks_.size();
        }
        hak_free(old);
    }

    void free_all() {
        for (void *&block : blocks_) {
            hak_free(block);
            block = nullptr;
        }
    }

  private:
    std::mutex mutex_;
    std::array<void *, 256> blocks_{};
    std::size_t next_ = 0;
};

void short_life(Heirlooms &heirlooms, Random &random) {
    std::array<void *, 24> blocks{};
    for (void *&block : blocks) {
        const std::size_t size = random.log_uniform(13);
        block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        std::memset(block, 0x5A, size);
    }
    for (void *block : blocks) {
        if (random.one_in(8)) {
            heirlooms.exchange(block);
        } else {
            hak_free(block);
        }
    }
}

TEST(Threads, AHundredThousandShortOnesLeaveNothingBehind) {
    const std::size_t total = scaled(100'000);
    Heirlooms heirlooms;
    Random seeds(0);
    run_in_thread([&] { short_life(heirlooms, seeds); });
    const ResidentMeter meter;
    std::ptrdiff_t highest = 0;
    for (std::size_t i = 0; i < total && !testing::Test::HasFailure(); i += 2) {
        const std::uint64_t stream = seeds.next();
        std::thread left([&, stream] {
            Random random(stream);
            short_life(heirlooms, random);
        });
        std::thread right([&, stream] {
            Random random(stream + 1);
            short_life(heirlooms, random);
        });
        left.join();
        right.join();
        if (i % 1000 == 0) {
            highest = std::max(highest, meter.growth());
        }
    }
    meter.expect_growth_within(32 * kMiB, "after the last thread");
#if !HAKMEM_TEST_SANITIZED
    EXPECT_LE(highest, static_cast<std::ptrdiff_t>(48 * kMiB)) << "at some moment in between";
#endif
    heirlooms.free_all();
    hak_collect();
    meter.expect_growth_within(4 * kMiB, "after hak_collect");
    const hak_stats_t stats = stats_at_rest();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_LE(stats.heaps_active + stats.heaps_abandoned, 64u)
        << "heaps of threads that ended are used again";
}

// By how much the metadata has grown when so many threads at once have had a heap.
std::ptrdiff_t grows_with_heaps_of(std::size_t threads) {
    const hak_stats_t before = stats_now();
    std::atomic<std::size_t> arrived{0};
    run_threads(threads, [&](std::size_t) {
        hak_free(hak_malloc(100));
        arrived++;
        while (arrived < threads) { // so that each has a heap of its own
            std::this_thread::yield();
        }
    });
    hak_collect();
    const hak_stats_t after = stats_now();
    return static_cast<std::ptrdiff_t>(after.metadata_bytes - before.metadata_bytes);
}

// A thread's heap has much room that few threads come to use; made of memory that was used, it was all
// resident. So was that of heaps which are made together with it, and for which no thread may ever come.
TEST(Threads, HeapsMadeOfFreedMemoryKeepLittleOfIt) {
    constexpr std::size_t kThreads = 24;
    constexpr std::size_t kOneBeyondHeapsAlone = 7;
    hak_option_set("retain_min", "1G"); // what is freed stays resident
    std::array<void *, kThreads> blocks{};
    for (void *&block : blocks) {
        block = hak_malloc(kMiB);
        std::memset(block, 1, kMiB);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    for (const std::size_t threads : {kOneBeyondHeapsAlone, kThreads}) {
        EXPECT_LE(grows_with_heaps_of(threads),
                  static_cast<std::ptrdiff_t>(threads * (kMiB / 12) + kMiB / 2));
    }
    hak_option_set("retain_min", "2816K");
}

// What may stay free is a share of what the program has, of which the heaps of its threads are no part.
TEST(Threads, TheirHeapsAreNoMemoryInUse) {
    constexpr std::size_t kThreads = 120;
    const auto limit = [] { return number_in(statistics_json(), "memory", "retained_limit_bytes"); };
    hak_option_set("retain_grace", "0");
    const std::uint64_t before = limit();
    grows_with_heaps_of(kThreads);
    EXPECT_EQ(limit(), before);
    hak_option_set("retain_grace", "128M");
}

TEST(Threads, ThatOnlyFreeALittleNeedNoHeap) {
    std::vector<void *> blocks;
    for (std::size_t size : kEdges) {
        blocks.push_back(hak_malloc(size));
    }
    const hak_stats_t before = stats_now();
    for (void *block : blocks) {
        run_in_thread([&] { hak_free(block); });
    }
    const hak_stats_t after = stats_now();
    EXPECT_EQ(after.heaps_active + after.heaps_abandoned, before.heaps_active + before.heaps_abandoned);
    EXPECT_LT(after.live_bytes, before.live_bytes);
}

// A thread's heap goes with it, in a destructor; what later ones allocate comes from one heap for all.
class LateDestructor {
  public:
    LateDestructor() {
        EXPECT_EQ(pthread_key_create(&key, run), 0);
    }
    ~LateDestructor() {
        pthread_key_delete(key);
    }
    void in_a_thread() {
        std::thread([] {
            hak_free(hak_malloc(1)); // so that it has a heap
            pthread_setspecific(key, reinterpret_cast<void *>(std::uintptr_t{2}));
        }).join();
    }

  private:
    static void run(void *rounds) {
        const auto left = reinterpret_cast<std::uintptr_t>(rounds) - 1;
        if (left > 0) {
            pthread_setspecific(key, reinterpret_cast<void *>(left)); // once more, after the heap has gone
            return;
        }
        for (const std::size_t size : kEdges) {
            void *block = size <= kMidLimit ? hak_malloc(size) : nullptr;
            hak_free(block);
        }
    }
    static inline pthread_key_t key;
};

TEST(Threads, WhatLateDestructorsLeaveIsCollected) {
    LateDestructor destructor;
    for (int i = 0; i < 3; i++) { // sets up what stays for good
        destructor.in_a_thread();
        hak_collect();
    }
    const hak_stats_t before = stats_now();
    EXPECT_EQ(before.cached_bytes, 0u);
    destructor.in_a_thread();
    hak_collect();
    const hak_stats_t after = stats_now();
    EXPECT_EQ(after.cached_bytes, 0u);
    EXPECT_EQ(after.slabs_in_use, before.slabs_in_use);
}

} // namespace
