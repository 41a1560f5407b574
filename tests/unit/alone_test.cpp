// The first thread gives blocks back without locked instructions while there is no other: none may be lost
// when others come, of the program's or the library's own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "heap/alone.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::number_in;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::scaled;
using hakmem_test::shuffle;
using hakmem_test::statistics_json;

constexpr std::size_t kBytes = 48;
// Slabs that heaps may keep at hand.
constexpr std::uint64_t kMayStayBytes = 8 * 64 * kKiB;

struct Shuffled {
    explicit Shuffled(std::size_t n, std::size_t bytes = kBytes) : blocks(n), count(n) {
        for (void *&block : blocks) {
            block = hak_malloc(bytes);
        }
        Random random(5);
        shuffle(blocks, random);
    }
    void free_from_to(std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; i++) {
            hak_free(blocks[i]);
        }
    }
    PointerArray blocks;
    std::size_t count;
};

// A block that was lost would keep its slab for ever.
void expect_nothing_left(const std::string &before) {
    hak_collect();
    const std::string now = statistics_json();
    EXPECT_LE(number_in(now, "memory", "live_blocks"), number_in(before, "memory", "live_blocks") + 20);
    EXPECT_LE(number_in(now, "tiny", "slab_bytes"), number_in(before, "tiny", "slab_bytes") + kMayStayBytes);
}

TEST(Alone, IsSoUntilThereIsAThread) {
#if !HAKMEM_TEST_SANITIZED
    hak_free(hak_malloc(1));
    EXPECT_TRUE(heap_is_alone());
#endif
    std::thread([] {}).join();
    EXPECT_FALSE(heap_is_alone()) << "libc does not say when the last one is over";
}

TEST(Alone, NoBlockIsLost) {
    const std::string before = statistics_json();
    for (int round = 0; round < 3; round++) {
        Shuffled all(scaled(100'000));
        all.free_from_to(0, all.count);
    }
    expect_nothing_left(before);
}

// Each of these frees so few blocks that they go to their slabs one by one when it ends, while the first
// thread frees others of the same words.
TEST(Alone, NoBlockIsLostWhenThreadsCome) {
    constexpr std::size_t kThreads = 6;
    constexpr std::size_t kOfThread = 30;
    const std::string before = statistics_json();
    for (std::size_t round = 0; round < scaled(100); round++) {
        Shuffled all(2000, 1024);
        std::vector<std::thread> others;
        for (std::size_t i = 0; i < kThreads; i++) {
            others.emplace_back([&all, i] { all.free_from_to(i * kOfThread, (i + 1) * kOfThread); });
        }
        all.free_from_to(kThreads * kOfThread, all.count);
        for (std::thread &other : others) {
            other.join();
        }
    }
    expect_nothing_left(before);
}

#ifndef __SANITIZE_THREAD__
// The library's own thread starts when the first slabs are free, in the midst of a magazine's way back.
TEST(Alone, NoBlockIsLostWhenTheLibrarysThreadComesAndGoes) {
    hak_option_set("background_thread", "2");
    hak_option_set("decay_ms", "20");
    const std::string before = statistics_json();
    for (int round = 0; round < 5; round++) {
        Shuffled all(scaled(100'000));
        all.free_from_to(0, all.count / 2);
        usleep(60'000);
        all.free_from_to(all.count / 2, all.count);
        usleep(60'000);
    }
    hak_option_set("background_thread", "1");
    hak_option_set("decay_ms", "500");
    expect_nothing_left(before);
}

// A child of fork is alone again, whoever else there was.
TEST(Alone, NoBlockIsLostInAChild) {
    const std::string before = statistics_json();
    Shuffled all(scaled(100'000));
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            hak_free(hak_malloc(kBytes));
        }
    });
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        all.free_from_to(0, all.count);
        hak_collect();
        const std::uint64_t left = number_in(statistics_json(), "tiny", "slab_bytes");
        _exit(left <= kMayStayBytes ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    stop.store(true, std::memory_order_relaxed);
    other.join();
    all.free_from_to(0, all.count);
    expect_nothing_left(before);
}
#endif

} // namespace
