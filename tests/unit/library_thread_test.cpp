// The library's own thread, as the process counts it: what only a process of one thread can do asks first.
#include <gtest/gtest.h>
#include <sched.h>

extern "C" {
#include "os/thread.h"
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

} // namespace
