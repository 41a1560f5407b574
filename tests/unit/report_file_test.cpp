// Files that reports are written to: whose links are followed to them, and who may read them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/folder.h"

extern "C" {
#include "observe/stats.h"
#include "os/kept.h"
#include "profile/files.h"
}

namespace {

namespace fs = std::filesystem;

using hakmem_test::Folder;

constexpr uid_t kNobody = 65534;

class ReportFile : public testing::Test {
  protected:
    std::string path(const char *name) const {
        return (folder_.path() / name).string();
    }

    // A link to `target`, of another user's if this one may make such a one.
    std::string link_to(const std::string &target) const {
        const std::string link = path("link");
        unlink(link.c_str());
        EXPECT_EQ(symlink(target.c_str(), link.c_str()), 0);
        if (geteuid() == 0) {
            EXPECT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
        }
        return link;
    }

    // A link of another user's, which leads to `target` or, for who may not make it, to a folder.
    std::string link_of_another(const std::string &target) const {
        return geteuid() == 0 ? link_to(target) : "/dev/fd";
    }

    static void write(const std::string &path, const char *text) {
        std::ofstream(path) << text;
    }

    static std::string read(const std::string &path) {
        std::ifstream from(path);
        return {std::istreambuf_iterator<char>(from), {}};
    }

    static void expect_to_open(const std::string &path) {
        const int fd = os_open_report(path.c_str(), 0644);
        EXPECT_GE(fd, 0) << path << ": " << std::strerror(errno);
        close(fd);
    }

  private:
    Folder folder_{"HAKMEM_STATS_FILE", "HAKMEM_STATS_JSON", "HAKMEM_PROF", "HAKMEM_PROF_FILE"};
};

TEST_F(ReportFile, IsNoneThatALinkOfAnotherUserLeadsTo) {
    write(path("file"), "text");
    for (const char *target : {"file", "missing"}) {
        errno = 0;
        EXPECT_EQ(os_open_report(link_of_another(path(target)).c_str(), 0644), -1) << target;
        EXPECT_EQ(errno, EACCES) << target;
    }
    EXPECT_EQ(read(path("file")), "text");
    EXPECT_FALSE(fs::exists(path("missing")));
}

TEST_F(ReportFile, MayBeOneThatALinkOfTheUsersLeadsTo) {
    write(path("file"), "text");
    fs::create_symlink(path("file"), path("mine"));
    fs::create_symlink(path("made"), path("to nothing"));
    expect_to_open(path("mine"));
    expect_to_open(path("to nothing"));
    EXPECT_EQ(read(path("file")), "");
    EXPECT_TRUE(fs::exists(path("made")));
}

TEST_F(ReportFile, MayBeInAFolderThatALinkOfAnotherUserLeadsTo) {
    expect_to_open(link_to(path("")) + "/file");
    EXPECT_TRUE(fs::exists(path("file")));
}

TEST_F(ReportFile, ThatOnlyTheUserMayReadIsSoAlsoWhereItWasThere) {
    const std::string file = path("file");
    write(file, "text");
    ASSERT_EQ(chmod(file.c_str(), 0644), 0);
    const int fd = os_open_report(file.c_str(), 0600);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    close(fd);
    EXPECT_EQ(fs::status(file).permissions() & fs::perms::all, fs::perms(0600));
    EXPECT_EQ(read(file), "");
}

TEST_F(ReportFile, ThatOnlyTheUserMayReadIsNoneOfAnotherUsers) {
    const std::string file = geteuid() == 0 ? path("file") : "/etc/hostname";
    if (geteuid() == 0) {
        write(file, "text");
        ASSERT_EQ(chown(file.c_str(), kNobody, kNobody), 0);
    }
    errno = 0;
    EXPECT_EQ(os_open_report(file.c_str(), 0600), -1);
    EXPECT_EQ(errno, EACCES);
    EXPECT_NE(read(file), "");
}

// Who may make none of another user's has his own opened.
TEST_F(ReportFile, ThatOnlyTheUserMayReadIsNoPipeOfAnotherUsers) {
    const std::string pipe = path("pipe");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    const auto expect_private = [&pipe](bool opened) {
        errno = 0;
        const int fd = os_open_report(pipe.c_str(), 0600);
        EXPECT_TRUE(opened || errno == EACCES) << std::strerror(errno);
        EXPECT_EQ(fd >= 0, opened);
        close(fd);
    };
    expect_private(true);
    const bool can_give_away = chown(pipe.c_str(), kNobody, kNobody) == 0;
    expect_private(!can_give_away);
    expect_to_open("/dev/fd/" + std::to_string(reader));
    expect_to_open(pipe);
    close(reader);
}

TEST_F(ReportFile, MayBeAnOpenDescriptor) {
    const int fd = open(path("file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    expect_to_open("/dev/fd/" + std::to_string(fd));
    expect_to_open("/proc/self/fd/" + std::to_string(fd));
    expect_to_open("/proc/thread-self/fd/" + std::to_string(fd));
    close(fd);
    for (const char *stream : {"/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2"}) {
        expect_to_open(stream);
    }
}

TEST_F(ReportFile, ThatIsRefusedIsToldOf) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("HAKMEM_STATS_FILE", link_of_another(path("file")).c_str(), 1);
    setenv("HAKMEM_STATS_JSON", "1", 1);
    const auto write_and_leave = [] {
        stats_at_start();
        stats_write();
        std::_Exit(0);
    };
    EXPECT_EXIT(write_and_leave(), testing::ExitedWithCode(0),
                "HAKMEM_STATS_FILE: /.*: cannot be opened for writing \\(Permission denied\\)");
    EXPECT_FALSE(fs::exists(path("file")));
}

TEST_F(ReportFile, OfAProfileIsForItsUserAlone) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const std::string profile = path("profile");
    setenv("HAKMEM_PROF", "1", 1);
    setenv("HAKMEM_PROF_FILE", profile.c_str(), 1);
    const auto write_and_leave = [] {
        files_at_exit();
        std::_Exit(0);
    };
    EXPECT_EXIT(write_and_leave(), testing::ExitedWithCode(0), "");
    struct stat status {};
    ASSERT_EQ(stat(profile.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
}

} // namespace
