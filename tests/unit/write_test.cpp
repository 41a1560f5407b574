// Reports to a pipe that nobody reads any more.
#include "hakmem.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <unistd.h>

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

} // namespace
