// Children give their memory back, too, by a thread of their own or without, however they were made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/child.h"
#include "support/decay.h"
#include "support/lanes.h"
#include "support/mixed_population.h"
#include "support/pattern.h"
#include "support/scale.h"
#include "support/waiting.h"

namespace {

using hakmem_test::Decay;
using hakmem_test::expect_child_to_succeed;
using hakmem_test::fill_pattern;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMayStay;
using hakmem_test::kMayStayRetained;
using hakmem_test::kMiB;
using hakmem_test::MixedPopulation;
using hakmem_test::pattern_intact;
using hakmem_test::retained;
using hakmem_test::scaled;
using hakmem_test::set_option;
using hakmem_test::thread_count;
using hakmem_test::touched_block;
using hakmem_test::use_and_free;

using std::chrono::milliseconds;

// A child of a sanitized program must start no thread, and does not report through gtest: see fork_test.cpp.
#if !HAKMEM_TEST_SANITIZED
enum ChildCode { kFine = 0, kNoMemory = 1, kDamaged = 2, kNotGivenBack = 3, kNoThread = 4 };

int use_in_child(bool wait_for_memory) {
    // A run that another thread was giving back when the process forked is nobody's in the child.
    std::size_t lost = 0;
    if (wait_for_memory) {
        hak_collect();
        lost = retained();
    }
    std::array<void *, 12> blocks{};
    for (std::size_t i = 0; i < blocks.size(); i++) {
        const std::size_t size = 300'000 + i * 1000;
        blocks[i] = hak_malloc(size);
        if (blocks[i] == nullptr) {
            return kNoMemory;
        }
        fill_pattern(blocks[i], size, i);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (!pattern_intact(blocks[i], 300'000 + i * 1000, i)) {
            return kDamaged;
        }
        hak_free(blocks[i]);
    }
    const auto given_back = [lost] { return retained() <= lost + kMayStayRetained; };
    return !wait_for_memory || happens(given_back) ? kFine : kNotGivenBack;
}

class DecayAfterFork : public Decay {
  protected:
    static void expect_memory_to_come_back_in_a_raw_child();
};

// What a program may keep that uses nothing and has nobody to give it back: RETAIN_MIN, and of the grace 8
// MiB.
constexpr std::size_t kMayStayWithoutThread = 12 * kMiB;

// Keeps up to 64 MiB, because it takes them again and again.
void breathe_deeply() {
    for (int i = 0; i < 20; i++) {
        use_and_free(64 * kMiB);
    }
}

TEST_F(DecayAfterFork, AChildDoesNotInheritWhatItsParentBreathes) {
    set_option("decay_ms", "5000");
    breathe_deeply();
    EXPECT_GT(retained(), kMayStayWithoutThread); // or this tests nothing
    expect_child_to_succeed([] { return retained() <= kMayStayWithoutThread ? kFine : kNotGivenBack; });
}

TEST_F(DecayAfterFork, WhatWasBreathedGoesWithTheThreadThatLooksAfterIt) {
    expect_child_to_succeed([] {
        breathe_deeply();
        // From now on the thread may not do what the program may.
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
            return kFine;
        }
        return happens([] { return retained() <= kMayStayWithoutThread; }) ? kFine : kNotGivenBack;
    });
}

TEST_F(DecayAfterFork, AChildGivesItsMemoryBackToo) {
    for (const bool parent_has_thread : {false, true}) {
        if (parent_has_thread) {
            set_option("decay_ms", "2000");
            use_and_free(8 * kMiB);
        }
        expect_child_to_succeed([] {
            hak_option_set("decay_ms", "100");
            return use_in_child(true);
        });
    }
}

TEST_F(DecayAfterFork, AGrandchildGivesItsMemoryBackToo) {
    use_and_free(8 * kMiB);
    expect_child_to_succeed([] {
        const int code = use_in_child(false);
        if (code != kFine) {
            return code;
        }
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(use_in_child(true));
        }
        int status = 0;
        waitpid(grandchild, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    });
}

TEST_F(DecayAfterFork, AChildHasNoThreadUntilItNeedsOneAndThenItsOwn) {
    set_option("decay_ms", "2000");
    use_and_free(8 * kMiB);
    ASSERT_TRUE(happens([] { return own_threads().size() == 1; }));
    expect_child_to_succeed([] {
        if (thread_count() != 1) {
            return static_cast<int>(kNoThread);
        }
        use_and_free(8 * kMiB);
        if (!happens([] { return own_threads().size() == 1; })) {
            return static_cast<int>(kNoThread);
        }
        hak_option_set("decay_ms", "10");
        return happens([] { return thread_count() == 1; }) ? static_cast<int>(kFine) : kNotGivenBack;
    });
}

TEST_F(DecayAfterFork, AChildOfAParentThatHasNoneGetsItsOwnToo) {
    expect_child_to_succeed([] {
        hak_option_set("decay_ms", "2000");
        use_and_free(8 * kMiB);
        return happens([] { return own_threads().size() == 1; }) ? kFine : kNoThread;
    });
}

// As vfork makes it, but on a stack of its own: in the parent's memory, while the caller waits. Returns its
// exit status.
int run_child_in_the_same_memory(int (*body)(void *)) {
    std::vector<char> stack(256 * kKiB);
    const pid_t child = clone(body, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child) << std::strerror(errno);
    return status;
}

TEST_F(DecayAfterFork, AChildInTheSameMemoryDoesNotStartTheThreadThatWouldEndWithIt) {
    set_option("decay_ms", "2000");
    const int status = run_child_in_the_same_memory([](void *) {
        use_and_free(8 * kMiB);
        _exit(static_cast<int>(thread_count()) - 1); // and its threads with it, which a return would not do
        return 0;
    });
    EXPECT_EQ(status, 0) << "another thread has been started in the child";
    EXPECT_EQ(thread_count(), 1u);
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; })) << "the parent may start it";
}

// Whether what the process has freed goes back while it goes on to free a little now and then.
bool memory_comes_back_in_passing() {
    hak_option_set("decay_ms", "20");
    use_and_free(32 * kMiB);
    return happens([] {
        hak_free(touched_block(70'000));
        return retained() <= kMayStay;
    });
}

// A child that libc does not know of, which has copied the parent's memory: nothing has told the library.
// Here the parent's thread is asleep.
void DecayAfterFork::expect_memory_to_come_back_in_a_raw_child() {
    ASSERT_TRUE(happens([] { return own_threads().size() == 1; }));
    std::this_thread::sleep_for(milliseconds(50));
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    ASSERT_GE(child, 0) << std::strerror(errno);
    if (child == 0) {
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        const bool alone = thread_count() == 1;
        const bool comes_back = memory_comes_back_in_passing();
        _exit(!comes_back ? kNotGivenBack : alone && thread_count() == 1 ? kFine : kNoThread);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, kFine << 8);
}

TEST_F(DecayAfterFork, AChildThatWasNotMadeByForkGivesItsMemoryBackInPassing) {
    set_option("retain_min", "1G"); // only time gives memory back
    set_option("decay_ms", "1000");
    use_and_free(8 * kMiB);
    expect_memory_to_come_back_in_a_raw_child(); // the thread is in its first sleep
}

TEST_F(DecayAfterFork, AChildThatWasNotMadeByForkDoesSoAlsoLaterInTheLifeOfTheThread) {
    set_option("retain_min", "1G");
    set_option("decay_ms", "100");
    os_fault_set(OS_FAULT_PURGE, 0, -1); // so that it stays
    use_and_free(8 * kMiB);
    std::this_thread::sleep_for(milliseconds(250));
    expect_memory_to_come_back_in_a_raw_child();
    os_fault_set(OS_FAULT_PURGE, 0, 0);
}

TEST_F(DecayAfterFork, InTheMiddleOfDecayNothingIsLost) {
    set_option("decay_ms", "0");
    std::atomic<bool> stop{false};
    std::thread hammer([&] {
        MixedPopulation population(7);
        while (!stop && !HasFailure()) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(1));
        }
    });
    for (std::size_t i = 0; i < scaled(400) && !HasFatalFailure(); i++) {
        // What the parent's threads held for the moment belongs to nobody in the child, which therefore
        // counts from where it starts.
        expect_child_to_succeed([i] { return use_in_child(i % 8 == 0); });
    }
    stop = true;
    hammer.join();
}
#endif

} // namespace
