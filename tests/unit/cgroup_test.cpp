// The container's memory limits: what of them is read, of whatever is in the files.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "os/cgroup.h"
#include "support/cgroup_files.h"
#include "support/random.h"
#include "support/scale.h"

namespace {

using hakmem_test::Cgroup;
using hakmem_test::cgroup2_at;
using hakmem_test::kMiB;
using hakmem_test::kNone;
using hakmem_test::kOtherMounts;
using hakmem_test::kUnlimitedV1;
using hakmem_test::kV1Mount;
using hakmem_test::kV2Mount;
using hakmem_test::Random;
using hakmem_test::scaled;

TEST_F(Cgroup, ReadsEveryFigureOfV2) {
    const std::string group = "/sys/fs/cgroup/system.slice/app.service";
    system("0::/system.slice/app.service\n", kV2Mount);
    file(group + "/memory.max", "1073741824\n");
    file(group + "/memory.high", "536870912\n");
    file(group + "/memory.current", "500000000\n");
    file(group + "/memory.stat",
         "anon 1\nfile 9\nactive_inactive_file 7\ninactive_file 100000000\nactive_file 3\n");
    file(group + "/memory.events", "low 0\nhigh 99\nmax 4\n");
    file(group + "/memory.events.local", "low 0\nhigh 17\nmax 4\n");
    file(group + "/memory.pressure", "some avg10=12.34 avg60=5.00 avg300=1.00 total=99\nfull avg10=77.00\n");
    const auto memory = read();
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->limit_bytes, 536870912u);
    EXPECT_EQ(memory->used_bytes, 400000000u);
    EXPECT_EQ(memory->room_bytes, 136870912u);
    EXPECT_EQ(memory->throttled, 17u);
    EXPECT_EQ(memory->pressure, 1234u);
}

TEST_F(Cgroup, ReadsEveryFigureOfV1) {
    const std::string group = "/sys/fs/cgroup/memory/docker/abc";
    system("5:cpu,cpuacct:/docker/abc\n4:hugetlb,memory:/docker/abc\n", kV1Mount);
    file(group + "/memory.limit_in_bytes", "1073741824\n");
    file(group + "/memory.soft_limit_in_bytes", "4096\n");
    file(group + "/memory.usage_in_bytes", "500000000\n");
    file(group + "/memory.stat",
         "cache 1\ninactive_file 5\nhierarchical_memory_limit 1073741824\n"
         "hierarchical_memsw_limit 77\ntotal_cache 1\ntotal_inactive_file 100000000\n");
    const auto memory = read();
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->limit_bytes, 1073741824u);
    EXPECT_EQ(memory->used_bytes, 400000000u);
    EXPECT_EQ(memory->room_bytes, 673741824u);
    EXPECT_EQ(memory->throttled, 0u);
    EXPECT_EQ(memory->pressure, 0u);
}

TEST_F(Cgroup, V1TellsOfLimitsThatCannotBeSeen) {
    const std::string unlimited = std::to_string(kUnlimitedV1) + "\n";
    system("4:memory:/docker/abc\n",
           "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    file("/sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited);
    file("/sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit " + unlimited);
    EXPECT_EQ(limit(), kNone);
    file("/sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 1048576\n");
    EXPECT_EQ(limit(), kMiB);
}

TEST_F(Cgroup, TheNearestLevelNeedNotHaveTheSmallestLimit) {
    system("0::/pod/app\n", kV2Mount);
    file("/sys/fs/cgroup/pod/app/memory.max", "1000000\n");
    file("/sys/fs/cgroup/pod/app/memory.current", "100000\n");
    file("/sys/fs/cgroup/pod/memory.max", "4000000\n");
    file("/sys/fs/cgroup/pod/memory.current", "3900000\n");
    const auto memory = read();
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->limit_bytes, 1000000u);
    EXPECT_EQ(memory->room_bytes, 100000u);
    EXPECT_EQ(memory->used_bytes, 3900000u);
}

// Bytes of any kind in the files of /proc: an answer or none, and nothing else happens.
TEST_F(Cgroup, SurvivesDamagedFilesOfProc) {
    Random random(2);
    const std::string groups = "4:cpu,memory:/a/b\n0::/a/b\n";
    const std::string mounts = std::string(kOtherMounts) + kV1Mount + cgroup2_at("/a", "/mnt\\040x");
    folder("/sys/fs/cgroup/memory/a/b");
    folder("/mnt x/b");
    const auto damage = [&random](std::string text) {
        static const std::string likely = " \n:/\\-,.07\0m";
        for (std::uint64_t n = random.below(6); n > 0; n--) {
            const std::size_t at = random.below(text.size());
            switch (random.below(4)) {
            case 0:
                text.erase(at, random.log_uniform(5));
                break;
            case 1:
                text.insert(at, random.log_uniform(10), likely[random.below(likely.size())]);
                break;
            case 2:
                text[at] = static_cast<char>(random.next());
                break;
            default:
                text.insert(at, text.substr(random.below(text.size()), random.log_uniform(6)));
            }
            if (text.empty()) {
                break;
            }
        }
        return text;
    };
    for (std::size_t round = 0; round < scaled(5000) && !HasFailure(); round++) {
        file("/proc/thread-self/cgroup", damage(groups));
        file("/proc/thread-self/mountinfo", damage(mounts));
        read();
    }
}

// Of `length` characters, in components of 50, and ending in none of length 0.
std::string long_path(std::size_t length) {
    std::string path;
    while (path.size() < length) {
        path += path.size() % 50 == 0 && path.size() + 1 < length ? '/' : 'a';
    }
    return path;
}

// Up to some length a path is understood, and beyond it never misunderstood.
TEST_F(Cgroup, LongPathsAreUnknown) {
    for (const std::string &top : {std::string(), long_path(300)}) {
        bool still_known = true;
        for (std::size_t length = 2; length<900; length += length> 150 && length < 560 ? 1 : 40) {
            SCOPED_TRACE(length);
            const std::string below = long_path(length);
            remove("/sys");
            system("0::" + top + below + "\n", cgroup2_at(top.empty() ? "/" : top, "/sys/fs/cgroup"));
            for (std::size_t cut = 0; cut < length; cut++) {
                if (below[cut] == '/') {
                    file("/sys/fs/cgroup" + below.substr(0, cut) + "/memory.max", "7000000\n");
                }
            }
            file("/sys/fs/cgroup" + below + "/memory.max", "5000000\n");
            const std::uint64_t found = limit();
            EXPECT_TRUE(found == 5000000 || found == 0) << found;
            EXPECT_TRUE(still_known || found == 0);
            EXPECT_TRUE(found != 0 || length > 150);
            still_known = found != 0;
        }
        EXPECT_FALSE(still_known);
    }
}

TEST_F(Cgroup, LongFieldsOfOtherMountsDoNotMatter) {
    for (const std::size_t length : {100u, 400u, 600u, 2000u}) {
        system("0::/a\n", cgroup2_at("/", "/m" + long_path(length)) + cgroup2_at(long_path(length), "/mnt") +
                              "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 " + long_path(length) + " rw\n");
        file("/sys/fs/cgroup/a/memory.max", "1048576\n");
        EXPECT_EQ(limit(), kMiB);
    }
}

TEST_F(Cgroup, WithoutAnyFilesItIsUnknownUntilLookedForAgain) {
    EXPECT_FALSE(read());
    system("0::/a\n", kV2Mount);
    file("/sys/fs/cgroup/a/memory.max", "1048576\n");
    EXPECT_FALSE(read_again()) << "a look at all of /proc on each read";
    EXPECT_TRUE(cgroup_find());
    EXPECT_EQ(read_again()->limit_bytes, kMiB);
}

TEST_F(Cgroup, AGroupWithoutMemoryFilesHasNoLimit) {
    system("0::/a/b\n", kV2Mount);
    folder("/sys/fs/cgroup/a/b");
    EXPECT_EQ(limit(), kNone);
}

TEST_F(Cgroup, ChangedLimitsAreSeen) {
    system("0::/a\n", kV2Mount);
    for (const std::uint64_t mib : {3u, 1u, 2u}) {
        file("/sys/fs/cgroup/a/memory.max", std::to_string(mib * kMiB) + "\n");
        EXPECT_EQ(read_again()->limit_bytes, mib * kMiB);
    }
    file("/sys/fs/cgroup/a/memory.max", "max\n");
    EXPECT_EQ(read_again()->limit_bytes, kNone);
}

TEST_F(Cgroup, AMovedProcessIsFoundAgain) {
    system("0::/a\n", kV2Mount);
    file("/sys/fs/cgroup/a/memory.max", "1048576\n");
    file("/sys/fs/cgroup/b/memory.max", "2097152\n");
    EXPECT_EQ(limit(), kMiB);
    file("/proc/thread-self/cgroup", "0::/b\n");
    EXPECT_TRUE(cgroup_find());
    EXPECT_EQ(read_again()->limit_bytes, 2 * kMiB);
    // Without being told, once the group it was in is gone.
    file("/proc/thread-self/cgroup", "0::/a\n");
    remove("/sys/fs/cgroup/b");
    EXPECT_EQ(read_again()->limit_bytes, kMiB);
    remove("/sys/fs/cgroup");
    EXPECT_FALSE(read_again());
}

#if !HAKMEM_TEST_SANITIZED // whose frames are larger
int read_all(void *) {
    cgroup_memory memory{};
    return cgroup_find() && cgroup_read(&memory) ? 0 : 1;
}

TEST_F(Cgroup, NeedsLittleStack) {
    system("0::/a/b\n", kV2Mount);
    file("/sys/fs/cgroup/a/b/memory.max", "1048576\n");
    ASSERT_EQ(read_all(nullptr), 0); // also has the loader bind what it binds late, on this stack
    constexpr std::size_t kBytes = 64 * 1024;
    auto *stack = static_cast<unsigned char *>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(stack, MAP_FAILED);
    std::fill(stack, stack + kBytes, static_cast<unsigned char>(0xA5));
    cgroup_set_root(root_.c_str());
    const pid_t child = clone(read_all, stack + kBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    const auto untouched =
        std::find_if(stack, stack + kBytes, [](unsigned char c) { return c != 0xA5; }) - stack;
    EXPECT_LE(kBytes - static_cast<std::size_t>(untouched), 4096u);
    munmap(stack, kBytes);
}
#endif

TEST_F(Cgroup, TheRealSystemGivesAnAnswer) {
    cgroup_set_root("");
    read_again();
}

} // namespace
