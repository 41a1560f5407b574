// Memory goes back while other threads go on: they need the arena's lock, and free more meanwhile.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/lanes.h"
#include "support/no_decay.h"
#include "support/threads.h"

namespace {

using hakmem_test::kMiB;
using hakmem_test::NoDecay;
using hakmem_test::run_in_thread;

extern "C" bool hakmem_test_arena_is_locked(void); // support/arena_lock.c

int heard_calls, locked_calls;

void look_at_the_lock() {
    heard_calls++;
    locked_calls += hakmem_test_arena_is_locked() ? 1 : 0;
}

// A region of its own, which ends with it: there is none with so much room.
TEST(PurgeBesideOthers, AVeryLargeBlockIsUnmappedWithoutTheArenasLock) {
    auto *block = static_cast<char *>(hak_malloc(600 * kMiB));
    ASSERT_NE(block, nullptr);
    block[0] = 1;
    heard_calls = locked_calls = 0;
    os_fault_listen(look_at_the_lock);
    hak_free(block);
    os_fault_listen(nullptr);
    EXPECT_GT(heard_calls, 0);
    EXPECT_EQ(locked_calls, 0);
}

constexpr int kMostRounds = 200;
thread_local bool collects;
int rounds_of_others;

// As a thread does that goes on working: with each call of the one that collects, as much is freed as it has
// just given back.
void free_more() {
    if (collects && rounds_of_others < kMostRounds) {
        rounds_of_others++;
        run_in_thread([] {
            auto *block = static_cast<char *>(hak_malloc(8 * kMiB));
            std::memset(block, 1, 8 * kMiB);
            hak_free(block);
        });
    }
}

TEST(PurgeBesideOthers, ACollectEndsThoughOthersGoOnFreeing) {
    const NoDecay no_decay;
    hak_option_set("retain_min", "1G");
    hak_free(std::memset(hak_malloc(64 * kMiB), 1, 64 * kMiB));
    collects = true;
    rounds_of_others = 0;
    os_fault_listen(free_more);
    hak_collect();
    os_fault_listen(nullptr);
    collects = false;
    EXPECT_GT(rounds_of_others, 0);
    EXPECT_LT(rounds_of_others, 50);
    hak_option_set("retain_min", "2816K");
    hak_collect();
}

} // namespace
