// The live page: whole at every moment, and one for each process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/clock.h"
#include "support/child.h"
#include "support/live_page.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/waiting.h"

namespace {

using hakmem_test::expect_child_to_succeed;
using hakmem_test::happens;
using hakmem_test::LivePage;
using hakmem_test::make_an_event;
using hakmem_test::number_in;
using hakmem_test::path_of;
using hakmem_test::scaled;
using hakmem_test::wait_for_page;

TEST(Live, ThePageHasTheDocumentedHeaderAndIsForItsUserOnly) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    EXPECT_EQ(page.magic(), "HAKLIVE1");
    EXPECT_EQ(page.field<std::uint32_t>(8), static_cast<std::uint32_t>(getpid()));
    EXPECT_GT(page.field<std::uint64_t>(16), 0u);
    struct stat status {};
    ASSERT_EQ(stat(path_of(getpid()).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_EQ(status.st_uid, geteuid());
}

TEST(Live, TheTextIsThatOfTheJsonAndGrowsNewWhileTheProcessAllocates) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    std::vector<void *> blocks;
    for (int i = 0; i < 10; i++) {
        blocks.push_back(hak_malloc(5'000'000));
    }
    const std::uint64_t sequence = page.sequence();
    while (page.sequence() < sequence + 2) {
        make_an_event();
    }
    const std::string text = page.text();
    EXPECT_EQ(text.compare(0, 12, "{\"schema\":1,"), 0) << text;
    EXPECT_EQ(text.substr(text.size() - 2), "}\n");
    EXPECT_GE(number_in(text, "memory", "live_bytes"), 50'000'000u);
    EXPECT_NE(text.find("\"measured\":false"), std::string::npos) << text;
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST(Live, AReaderAlwaysFindsAWholeText) {
    wait_for_page(getpid());
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&stop] {
            while (!stop.load(std::memory_order_relaxed)) {
                make_an_event();
            }
        });
    }
    const LivePage page(getpid());
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < scaled(20'000); i++) {
        const std::string text = page.text();
        ASSERT_EQ(text.compare(0, 12, "{\"schema\":1,"), 0) << text;
        ASSERT_EQ(text.substr(text.size() - 2), "}\n") << text;
        const std::uint64_t allocs = number_in(text, "counters", "huge_allocs");
        ASSERT_GE(allocs, last);
        last = allocs;
    }
    stop.store(true, std::memory_order_relaxed);
    for (std::thread &thread : threads) {
        thread.join();
    }
}

// A machine that is suspended, or a process that is stopped, in the midst of a publication: the time that has
// passed is no cost of it.
TEST(Live, GoesOnAfterTheMachineStoodStill) {
    constexpr std::uint64_t kHourNs = 3600ull * 1'000'000'000;
    wait_for_page(getpid());
    const LivePage page(getpid());
    for (unsigned reading = 1; reading <= 4; reading++) {
        os_clock_stall(reading, kHourNs);
        const std::uint64_t sequence = page.sequence();
        while (page.sequence() < sequence + 2) {
            make_an_event();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
}

#ifndef __SANITIZE_THREAD__
// Whoever makes a page removes what is of no use any more.
void make_a_page_in_a_child() {
    expect_child_to_succeed([] {
        wait_for_page(getpid());
        const LivePage own(getpid());
        const bool good = own.field<std::uint32_t>(8) == static_cast<std::uint32_t>(getpid());
        unlink(path_of(getpid()).c_str());
        return good ? 0 : 1;
    });
}

TEST(Live, AChildMakesAPageOfItsOwnAndLeavesItsParentsAlone) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    make_a_page_in_a_child();
    EXPECT_EQ(page.field<std::uint32_t>(8), static_cast<std::uint32_t>(getpid()));
    EXPECT_NE(page.text().find("\"pid\":" + std::to_string(getpid()) + ","), std::string::npos);
}

// It may not be able to remove the file: this says to whoever finds it that nothing has happened.
TEST(Live, APageSaysThatItsProcessHasEndedNormally) {
    constexpr std::size_t kGivenUp = 112;
    int go[2];
    ASSERT_EQ(pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
        wait_for_page(getpid());
        char byte;
        const bool told = read(go[0], &byte, 1) == 1;
        stats_at_exit();
        _exit(told ? 0 : 1);
    }
    ASSERT_TRUE(happens([child] { return LivePage(child).sequence() != 0; }));
    const LivePage page(child);
    EXPECT_EQ(page.field<std::uint32_t>(kGivenUp), 0u);
    EXPECT_EQ(write(go[1], "", 1), 1);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(page.field<std::uint32_t>(kGivenUp), 1u);
    close(go[0]);
    close(go[1]);
}

// Of a service that crashed, however many short programs come after it.
TEST(Live, TheLastFiguresOfAServiceStayWhereManyOthersAreLeft) {
    constexpr pid_t kNoProcess = 5'000'000; // more than any kernel gives
    const auto leave = [](pid_t pid, std::uint64_t publications, bool given_up = false) {
        std::vector<std::uint64_t> page(512);
        struct timespec now {};
        clock_gettime(CLOCK_REALTIME, &now);
        page[6] = publications;
        page[7] = static_cast<std::uint64_t>(now.tv_sec) * 1000;
        page[14] = given_up ? 1 : 0;
        const std::string path = path_of(pid);
        const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT_EQ(write(fd, page.data(), 4096), 4096) << path;
        close(fd);
        return path;
    };
    wait_for_page(getpid());
    const std::string service = leave(kNoProcess, 10'000);
    const std::string ended_normally = leave(kNoProcess + 101, 10'000, true);
    std::vector<std::string> others;
    for (pid_t i = 1; i <= 100; i++) {
        others.push_back(leave(kNoProcess + i, 2));
    }
    make_a_page_in_a_child();
    EXPECT_EQ(access(service.c_str(), F_OK), 0);
    EXPECT_NE(access(ended_normally.c_str(), F_OK), 0);
    EXPECT_LE(std::count_if(others.begin(), others.end(),
                            [](const std::string &path) { return access(path.c_str(), F_OK) == 0; }),
              40);
    unlink(service.c_str());
    unlink(ended_normally.c_str());
    for (const std::string &path : others) {
        unlink(path.c_str());
    }
}

// What a client that was killed has left of an answer, as old as the files of processes that crashed.
TEST(Live, AnAnswerThatNobodyTookGoesOnceItIsOld) {
    const auto answer = [](const char *client, std::int64_t age_s) {
        const std::string path = path_of(getpid()) + "." + client;
        const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT_GE(fd, 0) << path;
        struct timespec now {};
        clock_gettime(CLOCK_REALTIME, &now);
        const struct timespec then[] = {{now.tv_sec - age_s, 0}, {now.tv_sec - age_s, 0}};
        EXPECT_EQ(futimens(fd, then), 0);
        close(fd);
        return path;
    };
    wait_for_page(getpid());
    const std::string old = answer("12-345", 2 * 3600);
    const std::string recent = answer("12-346", 0);
    make_a_page_in_a_child();
    EXPECT_NE(access(old.c_str(), F_OK), 0);
    EXPECT_EQ(access(recent.c_str(), F_OK), 0);
    unlink(old.c_str());
    unlink(recent.c_str());
}
#endif

} // namespace
