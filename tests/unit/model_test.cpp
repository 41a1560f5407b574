// Random operations by several threads that exchange blocks, checked against a reference model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/live_map.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::fill_pattern;
using hakmem_test::kMiB;
using hakmem_test::LiveMap;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::stats_at_rest;

constexpr std::size_t kThreads = 4;
constexpr std::size_t kOperationsPerThread = scaled(2'000'000);
constexpr std::size_t kSlots = 4096;
constexpr std::size_t kLiveBytesPerThread = 64 * kMiB;
constexpr std::size_t kSweepPeriod = kOperationsPerThread / 10; // in any build, sanitized ones too

struct Block {
    void *at = nullptr;
    std::size_t size = 0;   // how much of it carries the pattern
    std::size_t usable = 0; // what the reference holds as its extent
    std::uint64_t stamp = 0;
};

class Mailbox {
  public:
    void put(const Block &block) {
        const std::lock_guard<std::mutex> guard(mutex_);
        blocks_.push_back(block);
    }

    std::vector<Block> take_all() {
        const std::lock_guard<std::mutex> guard(mutex_);
        return std::move(blocks_);
    }

  private:
    std::mutex mutex_;
    std::vector<Block> blocks_;
};

struct Shared {
    LiveMap live;
    std::array<Mailbox, kThreads> mailboxes;
    std::atomic<bool> failed{false};
    std::atomic<std::size_t> operations{0};
};

class Worker {
  public:
    Worker(Shared &shared, std::size_t number)
        : shared_(shared), number_(number), random_(number), slots_(kSlots) {
    }

    void run() {
        std::size_t done = 0;
        std::size_t next_sweep = kSweepPeriod;
        for (; done < kOperationsPerThread && !shared_.failed.load(std::memory_order_relaxed); done++) {
            step();
            if (done % 64 == 0) {
                done += read_mail();
            }
            if (done >= next_sweep) {
                sweep();
                next_sweep += kSweepPeriod;
            }
        }
        shared_.operations += done;
    }

    // Frees all that this worker holds or was sent; for one thread, after the others have stopped.
    void finish() {
        for (Block &slot : slots_) {
            if (slot.at != nullptr) {
                release(slot);
            }
        }
        for (Block &block : shared_.mailboxes[number_].take_all()) {
            live_bytes_ += block.usable;
            release(block);
        }
    }

  private:
    void fail(const char *what, const void *at, std::size_t size) {
        if (!shared_.failed.exchange(true)) {
            std::ostringstream where;
            where << what << ": block " << at << " of " << size << " bytes, in thread " << number_;
            ADD_FAILURE() << where.str();
        }
    }

    // Nine of ten sizes are tiny, and the rare ones reach all the way up: that is how programs allocate, and
    // it keeps the memory that has to be touched small.
    std::size_t random_size() {
        const std::uint64_t kind = random_.below(100);
        if (kind < 90) {
            return random_.log_uniform(10);
        }
        return kind < 99 ? random_.log_uniform(16) : random_.log_uniform(23);
    }

    void step() {
        const std::uint64_t kind = random_.below(1'000'000);
        if (kind < 10) {
            hak_collect();
        } else if (kind < 100) {
            hak_tiny_magazine_flush_all();
        } else if (kind < 1000) {
            const int count = hak_tiny_class_count();
            const auto size_class = static_cast<int>(random_.below(static_cast<std::uint64_t>(count)));
            if (hak_tiny_magazine_flush(size_class) < 0) {
                fail("flush of a tiny class failed", nullptr, hak_size_class_bytes(size_class));
            }
        } else {
            Block &slot = slots_[random_.below(kSlots)];
            if (slot.at != nullptr) {
                use(slot);
            } else if (live_bytes_ < kLiveBytesPerThread) {
                allocate(slot);
            }
        }
    }

    void allocate(Block &slot) {
        const std::size_t size = random_size();
        const std::uint64_t kind = random_.below(20);
        std::size_t alignment = size <= 8 ? 8 : 16;
        void *at = nullptr;
        if (kind < 12) {
            at = hak_malloc(size);
        } else if (kind < 15) {
            at = hak_realloc(nullptr, size);
        } else if (kind < 18) {
            const std::size_t count = 1 + random_.below(8);
            at = hak_calloc(count, (size + count - 1) / count);
            if (at != nullptr && !all_zero(at, size)) {
                fail("calloc gave memory that is not zero", at, size);
            }
        } else {
            alignment = std::size_t{1} << random_.below(17);
            at = hak_aligned_alloc(alignment, size);
        }
        take(slot, at, size, alignment);
    }

    void take(Block &slot, void *at, std::size_t size, std::size_t alignment) {
        if (at == nullptr) {
            fail("allocation failed", at, size);
            return;
        }
        const std::size_t usable = hak_usable_size(at);
        if (usable < size || hak_good_size(size) < size) {
            fail("usable or good size below the request", at, size);
        }
        if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0) {
            fail("misaligned", at, size);
        }
        if (!shared_.live.claim(at, usable)) {
            fail("overlaps a live block", at, size);
        }
        // Half of the blocks are used to the last usable byte, as programs that ask for the usable size do.
        slot = {at, random_.one_in(2) ? usable : size, usable, random_.next()};
        live_bytes_ += usable;
        fill_pattern(at, slot.size, slot.stamp);
    }

    void use(Block &slot) {
        const std::uint64_t kind = random_.below(20);
        if (kind < 11) {
            release(slot);
        } else if (kind < 15) {
            resize(slot);
        } else if (kind < 17) {
            check(slot);
        } else {
            live_bytes_ -= slot.usable;
            shared_.mailboxes[random_.below(kThreads)].put(slot);
            slot = Block{};
        }
    }

    void check(const Block &block) {
        if (!pattern_intact(block.at, block.size, block.stamp)) {
            fail("contents changed", block.at, block.size);
        }
        if (hak_usable_size(block.at) != block.usable) {
            fail("usable size changed", block.at, block.size);
        }
    }

    void release(Block &block) {
        check(block);
        forget(block);
        hak_free(block.at);
        block = Block{};
    }

    void forget(const Block &block) {
        live_bytes_ -= block.usable;
        if (!shared_.live.release(block.at, block.usable)) {
            fail("was overlapped by another block", block.at, block.size);
        }
    }

    void resize(Block &block) {
        const Block old = block;
        const std::size_t size =
            random_.one_in(2) ? random_size() : old.size + random_.below(old.size / 2 + 16);
        check(old);
        forget(old);
        block = Block{};
        void *at = hak_realloc(old.at, size);
        if (size == 0) {
            if (at != nullptr) {
                fail("realloc to 0 gave a block", at, size);
            }
            return;
        }
        if (at != nullptr && !pattern_intact(at, old.size, std::min(old.size, size), old.stamp)) {
            fail("realloc lost contents", at, size);
        }
        take(block, at, size, size <= 8 ? 8 : 16);
    }

    std::size_t read_mail() {
        std::vector<Block> blocks = shared_.mailboxes[number_].take_all();
        for (Block &block : blocks) {
            live_bytes_ += block.usable;
            Block &slot = slots_[random_.below(kSlots)];
            const std::uint64_t kind = random_.below(4);
            if (kind == 0 && slot.at == nullptr) {
                slot = block;
            } else if (kind == 1 && slot.at == nullptr) {
                resize(block);
                slot = block;
            } else {
                release(block);
            }
        }
        return blocks.size();
    }

    void sweep() {
        for (const Block &slot : slots_) {
            if (slot.at != nullptr) {
                check(slot);
            }
        }
    }

    Shared &shared_;
    std::size_t number_;
    Random random_;
    std::vector<Block> slots_;
    std::size_t live_bytes_ = 0;
};

TEST(Model, RandomOperationsOfManyThreadsNeverLoseOrShareABlock) {
    auto shared = std::make_unique<Shared>();
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::size_t i = 0; i < kThreads; i++) {
        workers.push_back(std::make_unique<Worker>(*shared, i));
    }
    run_threads(kThreads, [&](std::size_t i) { workers[i]->run(); });
    if (HasFailure()) {
        return;
    }
    EXPECT_GE(shared->operations.load(), kThreads * kOperationsPerThread);
    for (const std::unique_ptr<Worker> &worker : workers) {
        worker->finish();
    }
    hak_tiny_magazine_flush_all();
    const hak_stats_t stats = stats_at_rest();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
}

TEST(Model, OneThreadAloneGetsTheSamePromises) {
    auto shared = std::make_unique<Shared>();
    Worker worker(*shared, 0);
    worker.run();
    worker.finish();
    // The other mailboxes were never read: what was sent to them is freed by workers that only finish.
    for (std::size_t i = 1; i < kThreads; i++) {
        Worker(*shared, i).finish();
    }
    hak_tiny_magazine_flush_all();
    EXPECT_EQ(stats_at_rest().live_blocks, 0u);
}

} // namespace
