// Where the files of the container's memory limits are.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "os/cgroup.h"
#include "support/cgroup_files.h"

namespace {

using hakmem_test::Cgroup;
using hakmem_test::cgroup2_at;
using hakmem_test::kMiB;
using hakmem_test::kUnifiedMount;
using hakmem_test::kV1Mount;
using hakmem_test::kV2Mount;
using hakmem_test::memory_at;

// Where the group's files are, for what /proc says. Each of `folders` exists with a limit of its own (1
// MiB for the first, 2 MiB for the second, ...), so that the limit tells which of them was read: the smallest
// number of those on the way up. 0: unknown.
struct Place {
    const char *name;
    const char *own_groups;
    std::string mounts;
    std::vector<std::string> folders;
    std::uint64_t expected;
};

void PrintTo(const Place &place, std::ostream *out) {
    *out << place.name;
}

class CgroupPlace : public Cgroup, public testing::WithParamInterface<Place> {};

TEST_P(CgroupPlace, IsFound) {
    const Place &place = GetParam();
    system(place.own_groups, place.mounts);
    for (std::size_t i = 0; i < place.folders.size(); i++) {
        const std::string limit = std::to_string((i + 1) * kMiB) + "\n";
        const bool v1 = place.folders[i].find("/memory") != std::string::npos;
        file(place.folders[i] + (v1 ? "/memory.limit_in_bytes" : "/memory.max"), limit);
    }
    EXPECT_EQ(limit(), place.expected * kMiB);
    EXPECT_EQ(cgroup_find(), place.expected != 0);
}

const std::vector<Place> kPlaces = {
    {"V2", "0::/a/b\n", kV2Mount, {"/sys/fs/cgroup/a/b"}, 1},
    {"V2AncestorOnly", "0::/a/b/c/d\n", kV2Mount, {"/sys/fs/cgroup/a", "/sys/fs/cgroup/a/b/c/d"}, 1},
    {"V2NotAbove", "0::/a/b\n", kV2Mount, {"/sys/fs", "/sys/fs/cgroup/a/b"}, 2},
    {"V2NotBeside",
     "0::/a/b\n",
     kV2Mount,
     {"/sys/fs/cgroup/a/c", "/sys/fs/cgroup/a/bb", "/sys/fs/cgroup/a/b"},
     3},
    {"V2Namespace", "0::/\n", kV2Mount, {"/sys/fs/cgroup"}, 1},
    {"V2NoLineEnd", "0::/a", kV2Mount, {"/sys/fs/cgroup/a"}, 1},
    {"V2ElsewhereWithOddCharacters",
     "0::/a\\x2db/c:d\n",
     cgroup2_at("/", "/mnt/c\\040g\\134\\011x"),
     {"/mnt/c g\\\tx/a\\x2db/c:d"},
     1},
    {"V2HostPathAtTheMount",
     "0::/docker/abc/sub\n",
     cgroup2_at("/docker/abc", "/sys/fs/cgroup"),
     {"/sys/fs/cgroup/sub", "/sys/fs/cgroup/docker/abc/sub"},
     1},
    {"V2TopIsNoTextPrefix",
     "0::/docker/abcd\n",
     cgroup2_at("/docker/abc", "/mnt/1") + cgroup2_at("/docker/abcd", "/mnt/2"),
     {"/mnt/1d", "/mnt/2"},
     2},
    {"V2HostPathNotVisible", "0::/docker/abc\n", kV2Mount, {"/sys/fs/cgroup"}, 1},
    {"V2EndOfHostPathVisible", "0::/docker/abc/sub\n", kV2Mount, {"/sys/fs/cgroup/sub"}, 1},
    {"V2OtherTop", "0::/good/id\n", cgroup2_at("/bad/id", "/sys/fs/cgroup"), {"/sys/fs/cgroup"}, 1},
    {"V2CertainBeforeGuess",
     "0::/good/id\n",
     cgroup2_at("/bad/id", "/mnt/1") + cgroup2_at("/good", "/mnt/2"),
     {"/mnt/1", "/mnt/2/id"},
     2},
    {"V2CertainBeforePartOfThePath",
     "0::/a/b\n",
     cgroup2_at("/", "/mnt/1") + cgroup2_at("/", "/mnt/2"),
     {"/mnt/1/b", "/mnt/2/a/b"},
     2},
    {"V2CertainBeforeOuterNamespace",
     "0::/a\n",
     cgroup2_at("/..", "/mnt/1") + kV2Mount,
     {"/mnt/1", "/sys/fs/cgroup/a"},
     2},
    {"V2FirstGuess",
     "0::/good/id\n",
     cgroup2_at("/bad/2", "/mnt/2") + cgroup2_at("/bad/1", "/mnt/1"),
     {"/mnt/1", "/mnt/2"},
     2},
    {"V2MountOfAnOuterNamespace", "0::/a\n", cgroup2_at("/../..", "/mnt"), {"/mnt/a", "/mnt"}, 2},
    {"V2OutsideOfTheNamespace",
     "0::/../a\n",
     kV2Mount,
     {"/sys/fs/cgroup", "/sys/fs/cgroup/a", "/sys/fs/a"},
     0},
    {"V2OutsideOfTheNamespaceButMounted", "0::/../a\n", cgroup2_at("/..", "/mnt"), {"/mnt/a"}, 1},
    {"V2DotsAreANameToo", "0::/..a\n", kV2Mount, {"/sys/fs/cgroup/..a"}, 1},
    {"V2ManyTags",
     "0::/a\n",
     "30 24 0:26 / /sys/fs/cgroup rw shared:1 master:2 propagate_from:3 unbindable - cgroup2 none rw\n",
     {"/sys/fs/cgroup/a"},
     1},
    {"V2HiddenByALaterMount", "0::/a\n", cgroup2_at("/", "/gone") + kV2Mount, {"/sys/fs/cgroup/a"}, 1},
    {"V2FilesystemOfThatNameIsNone",
     "0::/a\n",
     "1 2 0:3 / /cgroup2 rw - ext4 cgroup2 rw\n",
     {"/cgroup2/a"},
     0},
    {"V1", "3:memory:/a/b\n", kV1Mount, {"/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/a/b"}, 1},
    {"V1Docker",
     "3:memory:/docker/abc\n",
     memory_at("/docker/abc", "/sys/fs/cgroup/memory"),
     {"/sys/fs/cgroup/memory"},
     1},
    {"V1WithOthers",
     "3:cpu,memory,pids:/a\n2:cpuset:/b\n",
     "1 2 0:3 / /cg/memory rw - cgroup cgroup rw,cpu,memory,pids\n",
     {"/cg/memory/a", "/cg/memory/b"},
     1},
    {"V1NotTheOtherControllers",
     "3:memory:/a\n2:cpu:/a\n",
     std::string("1 2 0:3 / /cg/memory_too rw - cgroup cgroup rw,xmemory,memoryx\n") + kV1Mount,
     {"/cg/memory_too/a", "/sys/fs/cgroup/memory/a"},
     2},
    {"HybridWithMemoryInV1",
     "12:pids:/a\n4:memory:/a/b\n1:name=systemd:/c\n0::/c\n",
     std::string(kUnifiedMount) + kV1Mount,
     {"/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/memory/a/b"},
     2},
    {"HybridWithMemoryInV2",
     "12:pids:/a\n1:name=systemd:/c\n0::/c\n",
     std::string(kUnifiedMount) + "1 2 0:3 / /cg/pids rw - cgroup cgroup rw,pids\n",
     {"/sys/fs/cgroup/unified/c", "/cg/pids/a"},
     1},
    {"HybridV2First", "0::/c\n4:memory:/a\n", kV1Mount, {"/sys/fs/cgroup/c", "/sys/fs/cgroup/memory/a"}, 2},
    {"V1NotMounted", "4:memory:/a\n0::/a\n", kV2Mount, {"/sys/fs/cgroup/a"}, 0},
    {"NoMemoryController", "4:memory_like:/a\n3:cpu:/a\n", kV1Mount, {"/sys/fs/cgroup/memory/a"}, 0},
    {"NoGroups", "", std::string(kV2Mount) + kV1Mount, {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"}, 0},
    {"NoMounts", "0::/a\n", "", {"/sys/fs/cgroup/a"}, 0},
    {"CutLines", "0:\n0\n\n::\n0::a\n", kV2Mount, {"/sys/fs/cgroup"}, 0},
    {"CutMounts",
     "0::/a\n",
     std::string("\n1\n1 2 3 /\n1 2 3 / /x rw - cgroup2\n- - -\n") + kV2Mount,
     {"/sys/fs/cgroup/a"},
     1},
};

INSTANTIATE_TEST_SUITE_P(All, CgroupPlace, testing::ValuesIn(kPlaces),
                         [](const auto &instance) { return std::string(instance.param.name); });

} // namespace
