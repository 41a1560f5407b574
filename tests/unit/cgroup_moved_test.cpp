// The container's memory limits of processes that are moved to another group, and of children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include "hakmem.h"
#include "os/cgroup.h"
#include "support/cgroup_files.h"
#include "support/scale.h"

namespace {

using hakmem_test::Cgroup;
using hakmem_test::kMiB;
using hakmem_test::kV2Mount;
using hakmem_test::scaled;

TEST_F(Cgroup, AChildReadsWhateverItsParentWasDoing) {
    system("0::/a\n", kV2Mount);
    file("/sys/fs/cgroup/a/memory.max", "1048576\n");
    std::atomic<bool> stop{false};
    std::thread finder([&stop] {
        while (!stop.load()) {
            cgroup_find();
        }
    });
    for (std::size_t i = 0; i < scaled(200) && !HasFailure(); i++) {
        const pid_t child = fork();
        EXPECT_GE(child, 0);
        if (child == 0) {
            cgroup_memory memory{};
            _exit(cgroup_read(&memory) && memory.limit_bytes == kMiB ? 0 : 1);
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    stop.store(true);
    finder.join();
}

class CgroupMoved : public Cgroup {
  protected:
    void SetUp() override {
        Cgroup::SetUp();
        system("0::/a\n", kV2Mount);
        file("/sys/fs/cgroup/a/memory.max", "1048576\n");
        file("/sys/fs/cgroup/b/memory.max", "2097152\n");
        ASSERT_EQ(limit(), kMiB);
    }

    void move() const {
        file("/proc/thread-self/cgroup", "0::/b\n");
    }

    static std::uint64_t limit_again() {
        const std::optional<cgroup_memory> memory = read_again();
        return memory ? memory->limit_bytes : 0;
    }

    // Of some reads.
    static std::uint64_t last_limit() {
        std::uint64_t last = 0;
        for (int i = 0; i < 10; i++) {
            last = limit_again();
        }
        return last;
    }
};

TEST_F(CgroupMoved, ReadsTheNewGroupBeforeLong) {
    move();
    EXPECT_EQ(last_limit(), 2 * kMiB);
}

TEST_F(CgroupMoved, KeepsWhatItKnowsWhereItMayNotLookAnyMore) {
    remove("/proc");
    EXPECT_EQ(last_limit(), kMiB);
}

TEST_F(CgroupMoved, FindsAGroupThatCouldNotBeSeenAtFirst) {
    file("/proc/thread-self/cgroup", "");
    ASSERT_EQ(limit(), 0u);
    move();
    EXPECT_EQ(last_limit(), 2 * kMiB);
}

TEST_F(CgroupMoved, AForkedChildLooksAtOnce) {
    hak_free(hak_malloc(1)); // has the library know of forks
    const auto child_reads_its_own = [this] {
        file("/proc/thread-self/cgroup", "0::/a\n");
        ASSERT_EQ(limit(), kMiB);
        move();
        const pid_t child = fork();
        ASSERT_GE(child, 0) << std::strerror(errno);
        if (child == 0) {
            cgroup_memory memory{};
            _exit(cgroup_read(&memory) && memory.limit_bytes == 2 * kMiB ? 0 : 1);
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    };
    child_reads_its_own();
    std::thread(child_reads_its_own).join(); // now the program has threads
}

} // namespace
