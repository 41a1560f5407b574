// Which heap a thread gets: that of the thread before it whose blocks it takes over.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <pthread.h>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::counter;
using hakmem_test::kMiB;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;

// From 256 B on a thread may get blocks of slabs that others have left, too.
constexpr std::size_t kSizesOfNoAdoptedSlab = 200;

// What is handed on from thread to thread, each of which replaces all of it.
class Inheritance {
  public:
    // Frees `argument`, which another thread has made, as the second block.
    void replace_all(Random &random, void *argument) {
        for (void *&block : blocks_) {
            hak_free(block);
            hak_free(argument);
            argument = nullptr;
            block = hak_malloc(1 + random.below(kSizesOfNoAdoptedSlab));
        }
    }
    void drop() {
        for (void *block : blocks_) {
            hak_free(block);
        }
    }
    [[nodiscard]] std::size_t size() const {
        return blocks_.size();
    }

  private:
    std::vector<void *> blocks_ = std::vector<void *>(500);
};

// So many at a time, and each frees first of all what it was left: else the heaps that ended threads have
// left go to whoever comes first, and all that follows is a remote free.
TEST(Succession, AThreadThatFreesWhatOneBeforeItHasLeftGetsItsHeap) {
    constexpr std::size_t kChains = 12;
    const std::size_t generations = scaled(20);
    std::vector<Inheritance> chains(kChains);
    pthread_barrier_t all_have_heaps;
    ASSERT_EQ(pthread_barrier_init(&all_have_heaps, nullptr, kChains), 0);
    std::uint64_t before = 0;
    for (std::size_t g = 0; g < generations; g++) {
        std::vector<void *> arguments;
        for (std::size_t i = 0; i < kChains; i++) {
            arguments.push_back(hak_malloc(100));
        }
        run_threads(kChains, [&](std::size_t i) {
            Random random(g * kChains + i);
            chains[i].replace_all(random, arguments[i]);
            pthread_barrier_wait(&all_have_heaps);
        });
        before = g == 0 ? counter("remote_freed_blocks") : before;
    }
    const std::uint64_t remote = counter("remote_freed_blocks") - before;
    pthread_barrier_destroy(&all_have_heaps);
    // A thread may begin with a slab that was adopted from a heap before its next thread came for it.
    EXPECT_LE(remote, kChains * generations * chains[0].size() / 10);
    for (Inheritance &chain : chains) {
        chain.drop();
    }
}

#if !HAKMEM_TEST_SANITIZED
// Each of them would get slabs of its own for what a thread takes for a moment, and keep them resident.
TEST(Succession, OldBlocksThatNewThreadsFreeDoNotWakeTheHeapsOfLongEndedOnes) {
    constexpr std::size_t kOldThreads = 64;
    constexpr std::size_t kBlocksOfEach = 1000;
    std::vector<void *> table(kOldThreads * kBlocksOfEach);
    pthread_barrier_t all_have_heaps;
    ASSERT_EQ(pthread_barrier_init(&all_have_heaps, nullptr, kOldThreads), 0);
    run_threads(kOldThreads, [&](std::size_t thread) {
        Random random(thread);
        for (std::size_t i = 0; i < kBlocksOfEach; i++) {
            table[thread * kBlocksOfEach + i] = hak_malloc(16 + random.below(500));
        }
        pthread_barrier_wait(&all_have_heaps);
    });
    pthread_barrier_destroy(&all_have_heaps);
    for (std::size_t i = 0; i < table.size(); i++) {
        std::memset(table[i], 1, 16);
    }
    const ResidentMeter meter;
    Random random(1);
    for (std::size_t thread = 0; thread < 2000; thread++) {
        void *&entry = table[random.below(table.size())];
        run_in_thread([&] {
            hak_free(entry);
            entry = hak_malloc(16 + random.below(500));
            std::vector<void *> temporary(2000);
            for (void *&block : temporary) {
                const std::size_t size = 16 + random.below(500);
                block = hak_malloc(size);
                std::memset(block, 1, size);
            }
            for (void *block : temporary) {
                hak_free(block);
            }
        });
    }
    meter.expect_growth_within(12 * kMiB, "after 2000 threads that used 0.5 MiB each");
    for (void *block : table) {
        hak_free(block);
    }
}
#endif

} // namespace
