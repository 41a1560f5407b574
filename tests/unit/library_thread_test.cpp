// The library's own thread, as the process counts it: what only a process of one thread can do asks first.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>

#include "support/child.h"
#include "support/waiting.h"

extern "C" {
#include "os/thread.h"

bool held_up_start();
void held_up_let_go();
}

namespace {

// What the kernel asks before it lets a process do what only one of a single thread can. Changes nothing.
bool is_process_of_one_thread() {
    return unshare(CLONE_VM) == 0;
}

void sleep_until_end() {
    while (os_thread_sleep(60'000)) {
    }
}

// A thread that has ended uses nothing any more, and is still there for as long as the kernel needs for the
// rest.
TEST(LibraryThread, IsGoneWhereItIsNotTheOnlyOther) {
    for (int i = 0; i < 1000; i++) {
        os_thread_prepare();
        ASSERT_TRUE(os_thread_start([] {}));
        while (os_thread_exists()) {
        }
        ASSERT_FALSE(os_thread_is_only_other());
        ASSERT_TRUE(is_process_of_one_thread()) << "after " << i << " threads";
    }
}

TEST(LibraryThread, IsTheOnlyOtherUntilItEnds) {
    for (int i = 0; i < 3000; i++) {
        os_thread_prepare();
        ASSERT_TRUE(os_thread_start(sleep_until_end));
        ASSERT_TRUE(os_thread_is_only_other());
        ASSERT_FALSE(is_process_of_one_thread());
        ASSERT_TRUE(os_thread_end());
        ASSERT_TRUE(is_process_of_one_thread()) << "after " << i << " threads";
    }
}

// By a handler that comes again sooner than any wait would end: the program must get on between two of them,
// or it would never do what the thread waits for.
TEST(LibraryThread, HoldsUpNobodyForWhomItWaits) {
    static volatile sig_atomic_t ended;
    ended = 0;
    ASSERT_TRUE(held_up_start());
    ASSERT_FALSE(os_thread_end());
    std::signal(SIGALRM, [](int) { ended = ended || os_thread_end(); });
    const itimerval often = {{0, 500}, {0, 500}};
    ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
    for (volatile int i = 0; i < 10'000'000; i = i + 1) {
    }
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_FALSE(ended);
    held_up_let_go();
    EXPECT_TRUE(os_thread_end());
    EXPECT_TRUE(is_process_of_one_thread());
}

// Of a process that may not be looked into, only root is told.
TEST(LibraryThread, HoldsUpNobodyForWhomItWaitsWhereTheKernelDoesNotTell) {
    hakmem_test::expect_child_to_succeed([] {
        const bool untold = prctl(PR_SET_DUMPABLE, 0) == 0 && (geteuid() != 0 || setuid(65534) == 0);
        const bool held_up = held_up_start() && !os_thread_end();
        held_up_let_go();
        // It waits for a thread of which it is told nothing only for so long, and this one may not have run.
        return untold && held_up && hakmem_test::happens(os_thread_end) ? 0 : 1;
    });
}

} // namespace
