// The container's memory limits, read from trees of files as kernels and container runtimes lay them out.
#include "os/cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/scale.h"

namespace {

using hakmem_test::Random;
using hakmem_test::scaled;

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMiB = 1 << 20;
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

std::string cgroup2_at(const std::string &top, const std::string &mount_point) {
    return "30 24 0:26 " + top + " " + mount_point + " rw - cgroup2 cgroup2 rw\n";
}

std::string memory_at(const std::string &top, const std::string &mount_point) {
    return "30 24 0:26 " + top + " " + mount_point + " rw - cgroup cgroup rw,memory\n";
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

// One level of the hierarchy: texts as the files may have them, and what they mean.
struct Figure {
    std::optional<std::string> text; // none: no such file
    std::uint64_t value;             // kNone: it says nothing
};

Figure random_figure(Random &random) {
    static const std::vector<std::string> nonsense = {"",
                                                      "\n",
                                                      "max\n",
                                                      "max",
                                                      "-1\n",
                                                      "12 34x\n" + std::string(600, 'x'),
                                                      "0x10\n",
                                                      "1.5.x\n",
                                                      "1.5\n",
                                                      "1K\n",
                                                      " 5\n",
                                                      "mäx\n",
                                                      "9\xff\n",
                                                      "99999999999999999999999999\n",
                                                      "maximum 5\n",
                                                      ".5\n",
                                                      "5,000\n",
                                                      std::string("7\0\n", 3),
                                                      "18446744073709551615\n",
                                                      std::to_string(kUnlimitedV1) + "\n"};
    switch (random.below(6)) {
    case 0:
        return {std::nullopt, kNone};
    case 1:
    case 2: {
        const std::string &text = nonsense[random.below(nonsense.size())];
        return {text, text.rfind("12 34", 0) == 0 ? 12 : kNone};
    }
    default:
        const std::uint64_t value = random.log_uniform(50);
        return {std::to_string(value) + (random.one_in(5) ? "" : "\n"), value};
    }
}

std::uint64_t or_0(std::uint64_t value) {
    return value == kNone ? 0 : value;
}

TEST_F(Cgroup, AgreesWithAModelForAnyLevelsAndContents) {
    Random random(1);
    for (std::size_t round = 0; round < scaled(2000) && !HasFailure(); round++) {
        const bool v1 = random.one_in(3);
        const std::string mount = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
        remove("/sys");
        std::string group;
        cgroup_memory expected{kNone, kNone, 0, 0, 0};
        const std::size_t depth = random.below(8);
        std::vector<std::string> levels = {mount};
        for (std::size_t i = 0; i < depth; i++) {
            group += "/l" + std::to_string(random.below(3));
            levels.push_back(mount + group);
        }
        // From the inside out, as ties are the innermost's.
        for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
            folder(*level);
            const auto put = [&](const char *name, const Figure &figure, const std::string &before = "") {
                if (figure.text) {
                    file(*level + name, before + *figure.text);
                }
                return figure.value;
            };
            const std::uint64_t max =
                put(v1 ? "/memory.limit_in_bytes" : "/memory.max", random_figure(random));
            const std::uint64_t current =
                put(v1 ? "/memory.usage_in_bytes" : "/memory.current", random_figure(random));
            std::uint64_t high = kNone;
            std::string stat = "anon 12\nworkingset 3\n";
            if (v1) {
                const Figure all = random_figure(random);
                if (all.text) {
                    stat += "hierarchical_memory_limit " + *all.text + "\n";
                    high = all.value;
                }
            } else {
                high = put("/memory.high", random_figure(random));
                const std::uint64_t events =
                    put("/memory.events.local", random_figure(random), "low 5\nhigh ");
                expected.throttled += high == kNone ? 0 : or_0(events);
            }
            const std::uint64_t cache =
                put("/memory.stat", random_figure(random),
                    stat + std::string(random.below(700), 'x') + (v1 ? "\ntotal_" : "\n") + "inactive_file ");
            if (v1 && !std::filesystem::exists(root_ + *level + "/memory.stat")) {
                high = kNone;
            }
            const std::uint64_t limit = std::min(max, high);
            if (limit != kNone) {
                const std::uint64_t used = or_0(current) - std::min(or_0(current), or_0(cache));
                const std::uint64_t room = limit - std::min(limit, used);
                expected.limit_bytes = std::min(expected.limit_bytes, limit);
                if (room < expected.room_bytes) {
                    expected.room_bytes = room;
                    expected.used_bytes = used;
                }
            }
        }
        system((v1 ? "7:memory:" : "0::") + (group.empty() ? "/" : group) + "\n", v1 ? kV1Mount : kV2Mount);
        const auto memory = read();
        ASSERT_TRUE(memory);
        EXPECT_EQ(memory->limit_bytes, expected.limit_bytes);
        EXPECT_EQ(memory->room_bytes, expected.room_bytes);
        EXPECT_EQ(memory->used_bytes, expected.used_bytes);
        EXPECT_EQ(memory->throttled, expected.throttled);
    }
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

// Up to some length a path is understood, and beyond it never misunderstood.
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
