// Files with heap profiles: that they are written when they are asked for, whatever the threads are just
// doing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "hakmem.h"
#include "support/child.h"
#include "support/folder.h"
#include "support/threads.h"
#include "support/waiting.h"

extern "C" {
#include "options/options.h"
#include "profile/files.h"

// Of profile/sample.h, which C++ cannot read.
void profile_lock_for_fork(void);
void profile_unlock_after_fork(bool child);
}

namespace {

namespace fs = std::filesystem;

using hakmem_test::expect_child_to_succeed;
using hakmem_test::Folder;
using hakmem_test::happens;
using hakmem_test::Meeting;

class ProfileFiles : public testing::Test {
  protected:
    fs::path file(int number) const {
        return folder_.path() / (std::to_string(number) + ".heap");
    }

    // In a process of its own that samples every block, and writes a profile at SIGUSR2 to `name`.
    template <typename Body>
    void in_a_process(
        Body body, const char *name = "%n.heap", void (*before_start)() = [] {}) const {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        setenv("HAKMEM_PROF_FILE", (folder_.path() / name).c_str(), 1);
        setenv("HAKMEM_PROF_SIGNAL", std::to_string(SIGUSR2).c_str(), 1);
        const auto judged = [&body, before_start] {
            before_start();
            alarm(60); // a process that waits for ever fails, too
            hak_profile_start(1);
            hak_free(hak_malloc(100));
            files_at_start();
            body();
            std::_Exit(HasFailure() ? 1 : 0);
        };
        EXPECT_EXIT(judged(), testing::ExitedWithCode(0), "");
    }

  private:
    Folder folder_{"HAKMEM_PROF_FILE", "HAKMEM_PROF_SIGNAL"};
};

TEST_F(ProfileFiles, AreWrittenByTheHandlerOfTheSignal) {
    in_a_process([this] {
        for (const int number : {0, 1}) {
            EXPECT_EQ(std::raise(SIGUSR2), 0);
            EXPECT_TRUE(fs::exists(file(number))) << number;
        }
    });
}

// As a thread does that forks, or asks for an option, when the signal comes.
TEST_F(ProfileFiles, AreNotWaitedForWhereTheHandlersThreadHoldsTheOptions) {
    in_a_process([this] {
        options_lock_for_fork();
        EXPECT_EQ(std::raise(SIGUSR2), 0);
        EXPECT_FALSE(fs::exists(file(0)));
        options_unlock_after_fork(false);
        hak_option_info_t option{};
        EXPECT_EQ(hak_option_info(0, &option), 0);
        EXPECT_TRUE(fs::exists(file(0)));
    });
}

// While the signal comes, the lock is held, as by a thread that does what is done then: nobody allocates any
// more, so that nothing is sampled.
TEST_F(ProfileFiles, AreWrittenAfterwardsByWhoeverHeldTheLockWhenTheSignalCame) {
    in_a_process([this] {
        void *block = hak_malloc(100);
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        Meeting meeting(2); // with one thread alone, fork takes no lock
        std::thread idle([&meeting] { meeting.meet(); });
        const std::function<void()> holders[] = {
            [&] { EXPECT_EQ(hak_profile_dump(null), 0); },
            [&] { EXPECT_EQ(hak_profile_fragmentation(null), 0); },
            [&] { EXPECT_EQ(hak_profile_leaks(null), 0); },
            [] { EXPECT_EQ(hak_profile_start(2), 0); },
            [] { EXPECT_EQ(hak_profile_stop(), 0); },
            [block] { hak_free(block); },
            [] { expect_child_to_succeed([] { return 0; }); },
        };
        int written = 0;
        for (const std::function<void()> &hold : holders) {
            profile_lock_for_fork();
            EXPECT_EQ(std::raise(SIGUSR2), 0);
            profile_unlock_after_fork(false);
            EXPECT_FALSE(fs::exists(file(written))) << written;
            hold();
            EXPECT_TRUE(fs::exists(file(written))) << written;
            written++;
        }
        EXPECT_FALSE(fs::exists(file(written))) << "one for each signal";
        meeting.meet();
        idle.join();
    });
}

TEST_F(ProfileFiles, ThatCannotBeWrittenWholeAreNotLeft) {
    in_a_process([this] {
        const rlimit limit{1024, 1024};
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        EXPECT_EQ(std::raise(SIGUSR2), 0);
        EXPECT_FALSE(fs::exists(file(0)));
    });
}

// The standard error of such a process, which takes a profile as slowly as it is read.
int slow_end;

void write_to_a_slow_pipe() {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    slow_end = ends[0];
    const std::array<char, 2048> filling{};
    ASSERT_EQ(write(STDERR_FILENO, filling.data(), filling.size()), 2048);
}

bool slow_pipe_has(int bytes) {
    return happens([bytes] {
        int ready = 0;
        return ioctl(slow_end, FIONREAD, &ready) == 0 && ready >= bytes;
    });
}

constexpr char kEnd = '\f';

std::string read_slow_pipe(std::ptrdiff_t ends) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (std::count(text.begin(), text.end(), kEnd) < ends) {
        const ssize_t got = read(slow_end, buffer.data(), buffer.size());
        text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    return text.substr(2048);
}

// A thread writes a profile into that pipe, and is held up, while `held_up()`; it goes on while `read()`.
// Returns all that came until the end, which is the last of `ends`.
template <typename HeldUp, typename Read>
std::string while_one_writes(HeldUp held_up, Read read, std::ptrdiff_t ends) {
    std::string text;
    std::thread writer([] { EXPECT_EQ(std::raise(SIGUSR2), 0); });
    EXPECT_TRUE(slow_pipe_has(3072));
    held_up();
    std::thread reader([&text, ends] { text = read_slow_pipe(ends); });
    read();
    writer.join();
    EXPECT_EQ(write(STDERR_FILENO, &kEnd, 1), 1);
    reader.join();
    return text;
}

TEST_F(ProfileFiles, OfOneNameAreWrittenOneAfterTheOther) {
    in_a_process(
        [] {
            const std::string text = while_one_writes([] { EXPECT_EQ(std::raise(SIGUSR2), 0); }, [] {}, 1);
            const std::size_t second = text.rfind("heap profile: ");
            EXPECT_EQ(text.find("heap profile: "), 0u);
            EXPECT_GT(second, text.find("MAPPED_LIBRARIES:"));
            EXPECT_GT(text.rfind("MAPPED_LIBRARIES:"), second);
        },
        "/dev/stderr", write_to_a_slow_pipe);
}

TEST_F(ProfileFiles, ThatAreBeingWrittenAreWaitedForByTheEndOfTheProcess) {
    in_a_process(
        [] {
            // Whatever the other thread wrote later would come between this end and that behind its own.
            const auto end = [] {
                files_at_exit();
                EXPECT_EQ(write(STDERR_FILENO, &kEnd, 1), 1);
            };
            const std::string text = while_one_writes([] {}, end, 2);
            EXPECT_NE(text.find("MAPPED_LIBRARIES:"), std::string::npos);
            EXPECT_EQ(text.find(kEnd) + 1, text.rfind(kEnd));
        },
        "/dev/stderr", write_to_a_slow_pipe);
}

} // namespace
