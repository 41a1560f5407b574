// fork while every block is sampled: the child has the whole profile, and a heap that works.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/lanes.h"
#include "support/scale.h"

namespace {

using hakmem_test::kLanes;
using hakmem_test::Sampling;
using hakmem_test::scaled;

void allocate_and_free() {
    for (const std::size_t size : kLanes) {
        hak_free(hak_malloc(size));
    }
}

// Not through gtest, whose locks another thread may have held.
int run_child(const std::vector<void *> &blocks) {
    allocate_and_free();
    for (void *block : blocks) {
        hak_free(block);
    }
    const int null = 1;
    return hak_profile_dump(null) == 0 || errno == EBADF ? 0 : 1;
}

TEST(SamplingFork, ChildrenOfAProcessWhoseThreadsAllocateGoOn) {
    const Sampling sampling(1);
    std::vector<void *> blocks;
    for (const std::size_t size : kLanes) {
        blocks.push_back(hak_malloc(size));
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&stop] {
            while (!stop) {
                allocate_and_free();
            }
        });
    }
    for (std::size_t i = 0; i < scaled(50); i++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0) << std::strerror(errno);
        if (child == 0) {
            close(1);
            alarm(60);
            _exit(run_child(blocks));
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    stop = true;
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    EXPECT_EQ(hakmem_test::heap_profile_now().header.live.blocks, 0);
}

// How many samples the calling process takes of 2 MiB, one in 16 KiB, besides those that it has.
long samples_of_its_own() {
    const double before = hakmem_test::heap_profile_now().header.total.blocks;
    for (int i = 0; i < 2'000; i++) {
        hak_free(hak_malloc(1'000));
    }
    return std::lround(hakmem_test::heap_profile_now().header.total.blocks - before);
}

TEST(SamplingFork, EachChildSamplesForItself) {
    const Sampling sampling(std::size_t{16} << 10);
    hak_free(hak_malloc(1'000));
    std::set<long> counts;
    for (int i = 0; i < 12; i++) {
        std::array<int, 2> ends{};
        ASSERT_EQ(pipe(ends.data()), 0) << std::strerror(errno);
        const pid_t child = fork();
        ASSERT_GE(child, 0) << std::strerror(errno);
        if (child == 0) {
            const long samples = samples_of_its_own();
            _exit(write(ends[1], &samples, sizeof samples) == sizeof samples ? 0 : 1);
        }
        long samples = 0;
        EXPECT_EQ(read(ends[0], &samples, sizeof samples), static_cast<ssize_t>(sizeof samples));
        counts.insert(samples);
        close(ends[0]);
        close(ends[1]);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
    }
    EXPECT_GT(counts.size(), 1U); // 122 samples each, give or take 11
}

} // namespace
