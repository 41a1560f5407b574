// Many ranges of pages given back by one call, where the kernel and the program's sandbox allow it.
#include "os/purge.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "os/fault.h"
#include "support/advice.h"
#include "support/random.h"
#include "support/resident.h"

namespace {

using hakmem_test::kPage;
using hakmem_test::Random;

constexpr std::size_t kRanges = 64;
constexpr std::size_t kPages = 1000;

// Pages all written to, some of which are to be purged.
class Pages {
  public:
    Pages()
        : start_(static_cast<char *>(
              mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
          in_a_range_(kPages) {
        std::memset(start_, 1, kPages * kPage);
    }
    ~Pages() {
        munmap(start_, kPages * kPage);
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    char *at(std::size_t page) {
        return start_ + page * kPage;
    }

    // Of 1 to 8 pages each, apart from each other.
    std::vector<iovec> choose(Random &random, std::size_t count) {
        std::vector<iovec> ranges;
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t of_each = kPages / count;
            const std::size_t pages = 1 + random.below(8);
            const std::size_t first = i * of_each + random.below(of_each - pages);
            ranges.push_back({at(first), pages * kPage});
            for (std::size_t page = first; page < first + pages; page++) {
                in_a_range_[page] = true;
            }
        }
        return ranges;
    }

    void expect_zero_in_ranges_only() {
        for (std::size_t page = 0; page < kPages; page++) {
            for (std::size_t i = 0; i < kPage; i += 512) {
                ASSERT_EQ(at(page)[i], in_a_range_[page] ? 0 : 1) << "page " << page;
            }
        }
    }

    void expect_untouched() {
        for (std::size_t page = 0; page < kPages; page++) {
            ASSERT_EQ(at(page)[0], 1) << "page " << page;
        }
    }

  private:
    char *start_;
    std::vector<bool> in_a_range_;
};

std::size_t count_done(const std::array<bool, kRanges> &done, std::size_t count) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < count; i++) {
        n += done[i] ? 1 : 0;
    }
    return n;
}

TEST(PurgeMany, TakesTheRangesAndNothingElse) {
    Random random(1);
    for (const std::size_t count : {1u, 2u, 7u, 8u, 9u, 63u, 64u}) {
        for (const bool may_look : {false, true}) {
            Pages pages;
            const std::vector<iovec> ranges = pages.choose(random, count);
            std::array<bool, kRanges> done = {};
            errno = 4711;
            os_purge_many(ranges.data(), count, may_look, done.data());
            EXPECT_EQ(errno, 4711);
            EXPECT_EQ(count_done(done, count), count);
            pages.expect_zero_in_ranges_only();
        }
    }
}

// Linux 5.18 is the first that takes back what is locked.
bool kernel_takes_locked_pages() {
    constexpr int kDontneedLocked = 24;
    return hakmem_test::kernel_takes_advice(kDontneedLocked);
}

TEST(PurgeMany, ALockedPageKeepsNoRangeButItsOwn) {
    Random random(2);
    const bool takes_all = kernel_takes_locked_pages();
    for (const bool may_look : {false, true}) {
        for (const std::size_t locked : {0u, 1u, 31u, 63u}) {
            Pages pages;
            const std::vector<iovec> ranges = pages.choose(random, kRanges);
            std::array<bool, kRanges> done = {};
            // Not by libc's function, which sanitizers replace by nothing.
            ASSERT_EQ(syscall(SYS_mlock, ranges[locked].iov_base, ranges[locked].iov_len), 0);
            errno = 4711;
            os_purge_many(ranges.data(), kRanges, may_look, done.data());
            EXPECT_EQ(errno, 4711);
            EXPECT_EQ(count_done(done, kRanges), takes_all ? kRanges : kRanges - 1);
            EXPECT_EQ(done[locked], takes_all);
            EXPECT_EQ(*static_cast<char *>(ranges[locked].iov_base), takes_all ? 0 : 1);
        }
    }
}

TEST(PurgeMany, WhatIsRefusedIsSaid) {
    Random random(3);
    Pages pages;
    const std::vector<iovec> ranges = pages.choose(random, kRanges);
    std::array<bool, kRanges> done = {};
    done.fill(true);
    os_fault_set(OS_FAULT_PURGE, 0, -1);
    os_purge_many(ranges.data(), kRanges, true, done.data());
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    EXPECT_EQ(count_done(done, kRanges), 0u);
    pages.expect_untouched();
}

// What a filter of system calls does not know may be the end of whoever calls it.
void forbid(std::uint32_t number, unsigned int flags = 0) {
    std::array<sock_filter, 4> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) {
        _exit(2);
    }
}

void give_no_notice() {
}

// Without the handlers of the libraries that want to know.
pid_t fork_untold() {
    return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

// 0 where all ranges were given back, -SIGSYS where the forbidden call was made. `notice` is what the child
// does before it comes to its filter.
int exit_status_of_a_child_without(std::uint32_t number, bool may_look, void (*notice)() = give_no_notice,
                                   pid_t (*fork_by)() = fork) {
    Random random(4);
    Pages pages;
    const std::vector<iovec> ranges = pages.choose(random, kRanges);
    std::array<bool, kRanges> done = {};
    os_purge_many(ranges.data(), kRanges, may_look, done.data()); // it may be in use by then
    const pid_t child = fork_by();
    if (child == 0) {
        notice();
        forbid(number);
        os_purge_many(ranges.data(), kRanges, may_look, done.data());
        _exit(count_done(done, kRanges) == kRanges ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

constexpr std::uint32_t kProcessMadvise = 440;

bool kernel_takes_many_by_one_call() {
    constexpr int kThisProcess = -10000;
    void *page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const iovec range = {page, kPage};
    const bool takes = syscall(kProcessMadvise, kThisProcess, &range, 1, MADV_DONTNEED, 0) == kPage;
    munmap(page, kPage);
    return takes;
}

TEST(PurgeMany, InASandboxMakesNoCallThatItsListMayNotHave) {
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, true), 0);
}

TEST(PurgeMany, OpensNothingWhereItMayNotLook) {
    EXPECT_EQ(exit_status_of_a_child_without(SYS_openat, false), 0);
}

TEST(PurgeMany, ThatAThreadHasLookedIsEnoughOnlyWhereNoticeIsGiven) {
    os_purge_look_for_filter();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false), 0);
    os_purge_trust_notice();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false), 0);
    os_purge_look_for_filter();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false),
              kernel_takes_many_by_one_call() ? -SIGSYS : 0);
}

TEST(PurgeMany, AChildThatNobodyHasToldOfItsForkDoesNotMakeTheCall) {
    os_purge_trust_notice();
    os_purge_look_for_filter();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false, give_no_notice, fork_untold), 0);
}

TEST(PurgeMany, AfterNoticeNobodyMakesTheCallWithoutLooking) {
    os_purge_trust_notice();
    os_purge_look_for_filter();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false, os_purge_expect_filter), 0);
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, true, os_purge_expect_filter), 0);
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false, os_purge_forget_look), 0);
    os_purge_expect_filter();
    os_purge_look_for_filter(); // what is seen now may not hold any more
    os_purge_trust_notice();
    EXPECT_EQ(exit_status_of_a_child_without(kProcessMadvise, false), 0);
}

// Two threads purge all the time, in a child that gives notice and then forbids the call to all.
int exit_status_of_a_filter_among_callers() {
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2; i++) {
            std::thread([i] {
                Random random(static_cast<std::uint64_t>(i));
                Pages pages;
                const std::vector<iovec> ranges = pages.choose(random, kRanges);
                std::array<bool, kRanges> done = {};
                while (true) {
                    os_purge_many(ranges.data(), kRanges, false, done.data());
                }
            }).detach();
        }
        usleep(2000);
        os_purge_expect_filter();
        forbid(kProcessMadvise, SECCOMP_FILTER_FLAG_TSYNC);
        usleep(2000);
        syscall(SYS_exit_group, 0); // at once: ThreadSanitizer's _exit waits a second for other threads
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(PurgeMany, NoticeWaitsForThoseWhoAreInTheCall) {
    os_purge_trust_notice();
    os_purge_look_for_filter();
    for (int round = 0; round < 50; round++) {
        EXPECT_EQ(exit_status_of_a_filter_among_callers(), 0) << "round " << round;
    }
}

} // namespace
