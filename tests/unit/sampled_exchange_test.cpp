// Sampled blocks that threads hand on to each other, while sampling goes on and off, and threads end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::fill_pattern;
using hakmem_test::heap_profile_now;
using hakmem_test::kEveryBlock;
using hakmem_test::kKiB;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::Sampling;
using hakmem_test::scaled;

struct Parcel {
    void *block = nullptr;
    std::size_t size = 0;
};

// Threads allocate, resize, hand on to each other and free blocks, all of which carry a pattern of their own.
class Exchange {
  public:
    void work(std::size_t number, std::size_t operations) {
        Random random(number);
        for (std::size_t i = 0; i < operations && !damaged; i++) {
            const std::size_t slot = random.below(slots_.size());
            Parcel parcel = take(slot);
            if (parcel.block == nullptr) {
                parcel = fresh(random);
            } else if (random.one_in(3)) {
                parcel = resized(parcel, random);
            } else {
                check(parcel, parcel.size);
                hak_free(parcel.block);
                parcel = {};
            }
            put(slot, parcel);
        }
    }

    void clear() {
        for (std::size_t slot = 0; slot < slots_.size(); slot++) {
            const Parcel parcel = take(slot);
            if (parcel.block != nullptr) {
                check(parcel, parcel.size);
                hak_free(parcel.block);
            }
        }
    }

    std::atomic<bool> damaged{false};

  private:
    struct Slot {
        std::mutex mutex;
        Parcel parcel;
    };

    static std::size_t any_size(Random &random) {
        return random.one_in(50) ? random.log_uniform(23) : random.log_uniform(14);
    }

    static std::uint64_t stamp(std::size_t size) {
        return size * 31 + 7;
    }

    static Parcel fresh(Random &random) {
        const std::size_t size = any_size(random);
        Parcel parcel{random.one_in(8) ? hak_aligned_alloc(256, size) : hak_malloc(size), size};
        fill_pattern(parcel.block, size, stamp(size));
        return parcel;
    }

    Parcel resized(const Parcel &old, Random &random) {
        const std::size_t size = 1 + any_size(random);
        Parcel parcel{hak_realloc(old.block, size), size};
        check({parcel.block, old.size}, std::min(size, old.size));
        fill_pattern(parcel.block, size, stamp(size));
        return parcel;
    }

    void check(const Parcel &parcel, std::size_t kept) {
        if (!pattern_intact(parcel.block, parcel.size, kept, stamp(parcel.size))) {
            damaged = true;
        }
    }

    Parcel take(std::size_t slot) {
        const std::lock_guard<std::mutex> guard(slots_[slot].mutex);
        return std::exchange(slots_[slot].parcel, {});
    }

    void put(std::size_t slot, const Parcel &parcel) {
        Parcel there = parcel;
        {
            const std::lock_guard<std::mutex> guard(slots_[slot].mutex);
            std::swap(slots_[slot].parcel, there);
        }
        if (there.block != nullptr) { // another thread was faster
            check(there, there.size);
            hak_free(there.block);
        }
    }

    std::array<Slot, 512> slots_;
};

TEST(Sampling, ContentsAreIntactWhenEveryBlockIsSampled) {
    const Sampling sampling(kEveryBlock);
    Exchange exchange;
    run_threads(4, [&](std::size_t number) { exchange.work(number, scaled(100'000)); });
    exchange.clear();
    EXPECT_FALSE(exchange.damaged);
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
    hak_collect();
}

TEST(Sampling, MayBeSwitchedWhileThreadsAllocate) {
    constexpr std::size_t kThreads = 8;
    Exchange exchange;
    std::atomic<std::size_t> running{kThreads};
    run_threads(kThreads + 1, [&](std::size_t number) {
        if (number < kThreads) {
            exchange.work(number, scaled(50'000));
            running--;
            return;
        }
        Random random(number);
        while (running > 0) {
            hak_profile_start(random.one_in(4) ? kEveryBlock : 1 + random.below(64 * kKiB));
            heap_profile_now();
            hakmem_test::written_by(hak_profile_fragmentation);
            if (random.one_in(2)) {
                hak_profile_stop();
            }
        }
    });
    hak_profile_stop();
    exchange.clear();
    EXPECT_FALSE(exchange.damaged);
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
}

TEST(Sampling, ThreadsThatEndLeaveTheirSampledBlocksToOthers) {
    const Sampling sampling(kEveryBlock);
    for (int round = 0; round < 50; round++) {
        std::vector<void *> blocks;
        run_in_thread([&] {
            for (int i = 0; i < 20; i++) {
                void *block = hak_malloc(64);
                fill_pattern(block, 64, 1);
                blocks.push_back(block);
                hak_free(hak_malloc(64));
            }
        });
        run_in_thread([] { hak_free(hak_malloc(64)); }); // takes over the heap
        for (void *block : blocks) {
            EXPECT_TRUE(pattern_intact(block, 64, 1));
            hak_free(block);
        }
    }
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
}

} // namespace
