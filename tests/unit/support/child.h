// Children of a test, which say by their exit status how it went: what gtest finds there, nobody reads.
#ifndef HAKMEM_TEST_CHILD_H
#define HAKMEM_TEST_CHILD_H

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hakmem_test {

// Runs `body` in a child of its own, where it must return 0.
template <typename Body>
void expect_child_to_succeed(Body body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0) << std::strerror(errno);
    if (child == 0) {
        _exit(body());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0);
}

} // namespace hakmem_test

#endif
