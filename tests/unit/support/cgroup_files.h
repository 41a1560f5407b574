// A tree of files as kernels and container runtimes lay them out, from which the container's limits are read.
#ifndef HAKMEM_TEST_CGROUP_FILES_H
#define HAKMEM_TEST_CGROUP_FILES_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "os/cgroup.h"
#include "support/resident.h"

namespace hakmem_test {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kUnlimitedV1 = 9223372036854771712u; // what v1 writes where no limit is set
constexpr const char *kV2Mount =
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char *kV1Mount =
    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:13 - cgroup cgroup rw,memory\n";
constexpr const char *kUnifiedMount = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr const char *kOtherMounts =
    "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
    "25 24 0:22 / /proc rw,nosuid shared:5 master:2 - proc proc rw\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,memory_like,xmemory,memory_\n";

// Lines of mountinfo.
inline std::string cgroup2_at(const std::string &top, const std::string &mount_point) {
    return "30 24 0:26 " + top + " " + mount_point + " rw - cgroup2 cgroup2 rw\n";
}

inline std::string memory_at(const std::string &top, const std::string &mount_point) {
    return "30 24 0:26 " + top + " " + mount_point + " rw - cgroup cgroup rw,memory\n";
}

// A root directory of the test's own, in which the reader looks instead of in the real one.
class Cgroup : public testing::Test {
  protected:
    void SetUp() override {
        // In memory where that can be had: thousands of files are made, which a busy disk takes minutes for.
        const bool in_memory = access("/dev/shm", W_OK | X_OK) == 0;
        const std::filesystem::path parent = in_memory ? "/dev/shm" : std::filesystem::temp_directory_path();
        std::string name = (parent / "hakmem-cgroup-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        cgroup_set_root(root_.c_str());
    }

    void TearDown() override {
        cgroup_set_root("");
        std::filesystem::remove_all(root_);
    }

    void file(const std::string &path, const std::string &contents) const {
        const std::filesystem::path full = root_ + path;
        std::filesystem::create_directories(full.parent_path());
        std::filesystem::remove(full); // ext4 writes a file that is cut to nothing out to the disk at once
        std::ofstream(full) << contents;
    }

    void folder(const std::string &path) const {
        std::filesystem::create_directories(root_ + path);
    }

    void remove(const std::string &path) const {
        std::filesystem::remove_all(root_ + path);
    }

    void system(const std::string &own_groups, const std::string &mounts) const {
        file("/proc/thread-self/cgroup", own_groups);
        file("/proc/thread-self/mountinfo", kOtherMounts + mounts);
    }

    // Whatever is there to be read, errno and the descriptors stay as they are.
    static std::optional<cgroup_memory> read_again() {
        const int descriptor_before = next_descriptor();
        errno = 4711;
        cgroup_memory memory{};
        const bool known = cgroup_read(&memory);
        EXPECT_EQ(errno, 4711);
        EXPECT_EQ(next_descriptor(), descriptor_before);
        EXPECT_EQ(memory.limit_bytes == kNone, memory.room_bytes == kNone);
        EXPECT_LE(memory.room_bytes, memory.limit_bytes == kNone ? kNone : kNone - 1);
        if (!known) {
            EXPECT_EQ(memory.limit_bytes, kNone);
            EXPECT_EQ(memory.used_bytes + memory.throttled + memory.pressure, 0u);
            return std::nullopt;
        }
        return memory;
    }

    std::optional<cgroup_memory> read() const {
        cgroup_set_root(root_.c_str());
        return read_again();
    }

    // The limit, 0 for "unknown".
    std::uint64_t limit() const {
        const std::optional<cgroup_memory> memory = read();
        return memory ? memory->limit_bytes : 0;
    }

    std::string root_;

  private:
    static int next_descriptor() {
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        close(fd);
        return fd;
    }
};

} // namespace hakmem_test

#endif
