// fork while every block is sampled: the child has the whole profile, and a heap that works.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
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

} // namespace
