// Which heap a thread gets: that of the thread whose blocks it has taken over, or the one that it had before.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <pthread.h>

#include "hakmem.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace {

using hakmem_test::counter;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;

// From 256 B on a thread may get blocks of slabs that others have left, too.
constexpr std::size_t kSizesOfNoAdoptedSlab = 200;

// What is handed on from thread to thread, each of which replaces all of it.
class Inheritance {
  public:
    void replace_all(Random &random) {
        for (void *&block : blocks_) {
            hak_free(block);
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
        run_threads(kChains, [&](std::size_t i) {
            Random random(g * kChains + i);
            chains[i].replace_all(random);
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

// Wherever each is in the list of heaps that wait.
TEST(Succession, AThreadThatLostItsHeapWhileItSleptGetsItBack) {
    constexpr std::size_t kSleepers = 8;
    std::vector<Inheritance> blocks(kSleepers);
    std::vector<pthread_mutex_t> doors(kSleepers);
    std::vector<std::thread> sleepers;
    std::atomic<std::size_t> filled{0};
    const std::uint64_t reclaimed = counter("heaps_reclaimed");
    for (std::size_t i = 0; i < kSleepers; i++) {
        pthread_mutex_init(&doors[i], nullptr);
        pthread_mutex_lock(&doors[i]);
        sleepers.emplace_back([&, i] {
            Random random(i);
            blocks[i].replace_all(random);
            filled++;
            pthread_mutex_lock(&doors[i]);
            pthread_mutex_unlock(&doors[i]);
            blocks[i].replace_all(random);
        });
    }
    const auto all_are_gone = [&] {
        hak_collect();
        return filled == kSleepers && counter("heaps_reclaimed") - reclaimed >= kSleepers;
    };
    ASSERT_TRUE(hakmem_test::happens(all_are_gone));
    const std::uint64_t before = counter("remote_freed_blocks");
    for (std::size_t i = 0; i < kSleepers; i++) {
        pthread_mutex_unlock(&doors[(3 * i) % kSleepers]);
        sleepers[(3 * i) % kSleepers].join();
    }
    EXPECT_LE(counter("remote_freed_blocks") - before, kSleepers * blocks[0].size() / 10);
    for (std::size_t i = 0; i < kSleepers; i++) {
        blocks[i].drop();
        pthread_mutex_destroy(&doors[i]);
    }
}

} // namespace
