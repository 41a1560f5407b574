// Reports to a pipe or a terminal: that nobody reads any more, or somebody reads slowly.
#include "hakmem.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "os/write.h"
#include "support/child.h"

extern "C" {
#include "observe/stats.h"
}

namespace {

class PipeThatNobodyReads : public testing::Test {
  protected:
    void SetUp() override {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        close(ends[0]);
        fd = ends[1];
        sigset_t pipe_signal;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &pipe_signal, &mask), 0);
    }

    void TearDown() override {
        pthread_sigmask(SIG_SETMASK, &mask, nullptr);
        close(fd);
    }

    static bool is_pending() {
        sigset_t pending;
        sigpending(&pending);
        return sigismember(&pending, SIGPIPE) == 1;
    }

    int fd = -1;
    sigset_t mask = {};
};

TEST_F(PipeThatNobodyReads, IsAnErrorAndNoSignal) {
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    EXPECT_EQ(hak_sites_json(fd), -1);
    EXPECT_EQ(errno, EPIPE);
    hak_stats_print(fd);
}

TEST_F(PipeThatNobodyReads, LeavesNoSignalForOneWhoHasItBlocked) {
    EXPECT_EQ(hak_sites_json(fd), -1);
    EXPECT_FALSE(is_pending());
}

TEST_F(PipeThatNobodyReads, LeavesTheProgramsOwnSignalWaiting) {
    raise(SIGPIPE);
    EXPECT_EQ(hak_sites_json(fd), -1);
    EXPECT_EQ(errno, EPIPE);
    EXPECT_TRUE(is_pending());
    int number = 0;
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    EXPECT_EQ(sigwait(&pipe_signal, &number), 0);
}

// The list of some hundred sites is many times what the pipe takes at once.
TEST(PipeThatDoesNotWait, GetsAllThatIsRead) {
    for (hak_site_t site = 1; site <= 500; site++) {
        hak_free_at(hak_alloc_at(8, site), 8, site);
    }
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    std::string text;
    std::thread reader([&text, from = ends[0]] {
        char buffer[256];
        pollfd what = {from, POLLIN, 0};
        for (ssize_t got = 1; got > 0;) {
            poll(&what, 1, -1);
            got = read(from, buffer, sizeof buffer);
            text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
        }
    });
    EXPECT_EQ(hak_sites_json(ends[1]), 0);
    close(ends[1]);
    reader.join();
    close(ends[0]);
    EXPECT_GT(text.size(), 16384u);
    EXPECT_EQ(text.substr(text.size() - 3), "]}\n");
}

// Signals are blocked meanwhile, so that nothing could end the wait.
TEST(PipeThatWaits, IsGivenUpByTheStatisticsAtASignal) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto write_and_leave = [] {
        alarm(60);
        int ends[2];
        std::vector<char> filling(65536);
        ASSERT_EQ(pipe(ends), 0);
        ASSERT_EQ(fcntl(ends[1], F_SETPIPE_SZ, 65536), 65536);
        ASSERT_EQ(write(ends[1], filling.data(), filling.size()), 65536);
        ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
        stats_write_in_time();
        std::_Exit(0);
    };
    EXPECT_EXIT(write_and_leave(), testing::ExitedWithCode(0), "");
}

// Writes single bytes to a terminal whose other end nobody reads, until it has no room or they are `most`;
// returns how many.
size_t fill(int terminal, size_t most) {
    size_t written = 0;
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    while (written < most && write(terminal, "x", 1) == 1) {
        written++;
    }
    fcntl(terminal, F_SETFL, 0);
    return written;
}

// The room that is left makes poll say that there is some, and is less than what is written.
TEST(TerminalThatWaits, IsGivenUpByTheStatisticsAtASignal) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto write_and_leave = [] {
        alarm(60);
        int full[2], has_room[2];
        ASSERT_EQ(openpty(&full[0], &full[1], nullptr, nullptr, nullptr), 0);
        ASSERT_EQ(openpty(&has_room[0], &has_room[1], nullptr, nullptr, nullptr), 0);
        fill(has_room[1], fill(full[1], SIZE_MAX) - 300);
        ASSERT_EQ(dup2(has_room[1], STDERR_FILENO), STDERR_FILENO);
        stats_write_in_time();
        std::_Exit(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK);
    };
    EXPECT_EXIT(write_and_leave(), testing::ExitedWithCode(0), "");
}

// Writes `text`, and has `other` do something again and again meanwhile; returns what the write ends with.
template <typename Other>
int write_beside(int fd, const std::string &text, std::chrono::milliseconds nap, Other other) {
    std::atomic<bool> is_over{false};
    std::thread thread([&] {
        while (!is_over) {
            std::this_thread::sleep_for(nap);
            other();
        }
    });
    const int error = os_write_all(fd, text.data(), text.size(), PATIENCE_SOME);
    is_over = true;
    thread.join();
    return error;
}

// Now and then it has room for a byte and says so, where a line's end takes two.
TEST(TerminalThatDoesNotWait, IsNotGivenUpWhileItTakesSomething) {
    constexpr std::size_t kAtOnce = 512;
    struct termios settings {};
    cfmakeraw(&settings);
    settings.c_oflag = OPOST | ONLCR;
    int full[2], ends[2];
    ASSERT_EQ(openpty(&full[0], &full[1], nullptr, &settings, nullptr), 0);
    ASSERT_EQ(openpty(&ends[0], &ends[1], nullptr, &settings, nullptr), 0);
    fill(ends[1], fill(full[1], SIZE_MAX) - 1);
    fcntl(ends[0], F_SETFL, O_NONBLOCK); // after the write it may be empty
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const auto read_some = [from = ends[0]] {
        char buffer[kAtOnce];
        (void)!read(from, buffer, sizeof buffer);
    };
    const std::string text(100 * kAtOnce / 2, '\n');
    EXPECT_EQ(write_beside(ends[1], text, std::chrono::milliseconds(20), read_some), 0);
    for (const int fd : {full[0], full[1], ends[0], ends[1]}) {
        close(fd);
    }
}

// An event counter has room for a small number, says so, and is given a large one. However many naps signals
// end.
TEST(WhatSaysThatItHasRoomAndTakesNothing, IsGivenUpAfterASecondAndNotBefore) {
    using Clock = std::chrono::steady_clock;
    const std::uint64_t nearly_all = UINT64_MAX - 2;
    const int counter = eventfd(0, EFD_NONBLOCK);
    ASSERT_EQ(write(counter, &nearly_all, sizeof nearly_all), 8);
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, &before);
    const auto signal_the_writer = [writer = pthread_self()] { pthread_kill(writer, SIGUSR1); };
    const auto begin = Clock::now();
    EXPECT_EQ(write_beside(counter, "eight by", std::chrono::milliseconds(1), signal_the_writer), EAGAIN);
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(950)) << "by a clock that is a few ms behind";
    sigaction(SIGUSR1, &before, nullptr);
    close(counter);
}

// To open /dev/ptmx again would make another terminal, which nobody reads.
TEST(TerminalThatWaits, IsTheSameOneWhereItIsTheOtherEnd) {
    int ends[2];
    struct termios raw {};
    cfmakeraw(&raw);
    ASSERT_EQ(openpty(&ends[0], &ends[1], nullptr, &raw, nullptr), 0);
    EXPECT_EQ(os_write_all(ends[0], "x", 1, PATIENCE_LIMITED), 0);
    pollfd what = {ends[1], POLLIN, 0};
    EXPECT_EQ(poll(&what, 1, 10'000), 1);
    close(ends[0]);
    close(ends[1]);
}

#ifndef __SANITIZE_THREAD__
// /dev/tty is the terminal that the process had when it was opened, and opened again the one that it has now.
TEST(TerminalThatWaits, IsTheSameOneWhereAnotherControlsTheProcessNow) {
    hakmem_test::expect_child_to_succeed([] {
        int then[2], now[2];
        if (setsid() < 0 || openpty(&then[0], &then[1], nullptr, nullptr, nullptr) != 0 ||
            openpty(&now[0], &now[1], nullptr, nullptr, nullptr) != 0 || ioctl(then[1], TIOCSCTTY, 0) != 0) {
            return 1;
        }
        const int tty = open("/dev/tty", O_WRONLY);
        hakmem_test::expect_child_to_succeed([&] {
            const bool moved = setsid() >= 0 && ioctl(now[1], TIOCSCTTY, 0) == 0;
            return moved && os_write_all(tty, "x", 1, PATIENCE_LIMITED) == 0 ? 0 : 1;
        });
        pollfd what = {then[0], POLLIN, 0};
        const bool is_the_same = poll(&what, 1, 10'000) == 1;
        return is_the_same && !testing::Test::HasFailure() ? 0 : 1;
    });
}
#endif

TEST(PipeThatDoesNotWait, IsGivenUpWhereNobodyReads) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    std::vector<char> filling(4096);
    while (write(ends[1], filling.data(), filling.size()) > 0) {
    }
    EXPECT_EQ(hak_sites_json(ends[1]), -1);
    EXPECT_EQ(errno, EAGAIN);
    close(ends[0]);
    close(ends[1]);
}

} // namespace
