// The lock that every sample takes is not held while memory is had from the system, which takes as long as
// there is much of it.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/heap_profile.h"

extern "C" bool hakmem_test_profile_is_locked(void); // support/profile_lock.c

namespace {

using hakmem_test::Sampling;

// Always from one call stack.
__attribute__((noinline)) void *one() {
    void *block = hak_malloc(1000);
    asm volatile("" : "+r"(block));
    return block;
}

int calls, calls_under_the_lock;

class ProfileLock : public testing::Test {
  protected:
    ProfileLock() {
        blocks_.push_back(one()); // all that there is one of for a call stack is made now
        calls = calls_under_the_lock = 0;
        os_fault_listen([] {
            calls++;
            calls_under_the_lock += hakmem_test_profile_is_locked() ? 1 : 0;
        });
    }
    ~ProfileLock() override {
        os_fault_listen(nullptr);
        for (void *block : blocks_) {
            hak_free(block);
        }
    }

    const Sampling sampling_{1};
    std::vector<void *> blocks_;
};

TEST_F(ProfileLock, IsNotHeldWhileAReaderTakesItsMemory) {
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int (*const write)(int) : {hak_profile_dump, hak_profile_fragmentation, hak_profile_leaks}) {
        calls = 0;
        EXPECT_EQ(write(null), 0);
        EXPECT_GT(calls, 0);
        EXPECT_EQ(calls_under_the_lock, 0);
    }
    close(null);
}

// The table, once it has grown for other tests, stays as it is.
TEST_F(ProfileLock, IsNotHeldWhileTheTableOfSamplesTakesItsMemory) {
    for (int i = 0; i < 10'000; i++) {
        blocks_.push_back(one());
    }
    EXPECT_EQ(calls_under_the_lock, 0);
}

} // namespace
