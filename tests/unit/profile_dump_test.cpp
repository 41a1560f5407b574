// What the profiles say: planted leaks and planted fragmentation are found where they were planted, with the
// right weight, and in the formats that are promised.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/resident.h"
#include "support/scale.h"

// Each planted function in a section of its own, whose limits the linker knows.
#define PLANTED(name) __attribute__((noinline, section(#name)))
extern "C" {
extern const char __start_planted_leak[], __stop_planted_leak[];
extern const char __start_planted_keep[], __stop_planted_keep[];
extern const char __start_planted_burst[], __stop_planted_burst[];
}

namespace {

using hakmem_test::estimate_tolerance;
using hakmem_test::heap_profile_now;
using hakmem_test::HeapProfile;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::ProfileLine;
using hakmem_test::Sampling;
using hakmem_test::scaled;
using hakmem_test::written_by;

PLANTED(planted_leak) void *leak(std::size_t size) {
    void *block = hak_malloc(size);
    asm volatile("" : "+r"(block)); // no tail call, which would leave no frame
    return block;
}

PLANTED(planted_keep) void *keep(std::size_t size) {
    void *block = hak_malloc(size);
    asm volatile("" : "+r"(block));
    return block;
}

PLANTED(planted_burst) void *burst(std::size_t size) {
    void *block = hak_malloc(size);
    asm volatile("" : "+r"(block));
    return block;
}

struct Place {
    std::uintptr_t from, to;

    bool has(std::uintptr_t frame) const {
        return frame > from && frame <= to;
    }
};

Place place(const char *from, const char *to) {
    return {reinterpret_cast<std::uintptr_t>(from), reinterpret_cast<std::uintptr_t>(to)};
}

const Place kLeak = place(__start_planted_leak, __stop_planted_leak);
const Place kKeep = place(__start_planted_keep, __stop_planted_keep);
const Place kBurst = place(__start_planted_burst, __stop_planted_burst);

// Frees its blocks, in the order in which they were added.
class Blocks {
  public:
    ~Blocks() {
        clear();
    }
    void add(void *block) {
        blocks_.push_back(block);
    }
    void clear() {
        for (void *block : blocks_) {
            hak_free(block);
        }
        blocks_.clear();
    }

  private:
    std::vector<void *> blocks_;
};

TEST(ProfileDump, APlantedLeakIsFoundWithItsWeight) {
    constexpr std::size_t kInterval = 32 * kKiB;
    const std::size_t n = scaled(200'000);
    const Sampling sampling(kInterval);
    Blocks leaked;
    for (std::size_t i = 0; i < n; i++) {
        leaked.add(leak(240));
        hak_free(burst(1000));
    }
    const auto count = static_cast<double>(n);
    const HeapProfile profile = heap_profile_now();
    const double tolerance = estimate_tolerance(count, 240, kInterval);
    EXPECT_NEAR(profile.live(kLeak.from, kLeak.to).bytes, count * 240, tolerance);
    EXPECT_NEAR(profile.live(kLeak.from, kLeak.to).blocks, count, tolerance / 240);
    EXPECT_EQ(profile.live(kBurst.from, kBurst.to).blocks, 0);
    EXPECT_NEAR(profile.total(kBurst.from, kBurst.to).bytes, count * 1000,
                estimate_tolerance(count, 1000, kInterval));
    for (const ProfileLine &line : profile.lines) {
        ASSERT_FALSE(line.frames.empty());
        EXPECT_TRUE(kLeak.has(line.frames[0]) || kBurst.has(line.frames[0])) << "innermost frame elsewhere";
    }
}

// Sizes that differ much must not be averaged: a reader would scale them all by the same weight.
TEST(ProfileDump, AMixOfSizesFromOneFunctionHasTheRightTotals) {
    constexpr std::size_t kInterval = 64 * kKiB;
    const std::size_t small = scaled(400'000), large = scaled(200);
    const Sampling sampling(kInterval);
    Blocks leaked;
    for (std::size_t i = 0; i < small; i++) {
        leaked.add(leak(i < large ? 128 * kKiB : 64));
    }
    const auto few = static_cast<double>(large), many = static_cast<double>(small - large);
    const hakmem_test::Amount live = heap_profile_now().live(kLeak.from, kLeak.to);
    const double tolerance =
        estimate_tolerance(many, 64, kInterval) + estimate_tolerance(few, 128 * kKiB, kInterval);
    EXPECT_NEAR(live.bytes, many * 64 + few * 128 * kKiB, tolerance);
    EXPECT_NEAR(live.blocks, many + few, estimate_tolerance(many, 64, kInterval) / 64 + few);
}

TEST(ProfileDump, HeaderIsTheSumOfTheLines) {
    const Sampling sampling(1);
    Blocks blocks;
    for (std::size_t size = 1; size < 3 * kMiB; size = size * 3 / 2 + 1) {
        blocks.add(leak(size));
        blocks.add(keep(size));
        hak_free(burst(size));
    }
    const HeapProfile profile = heap_profile_now();
    ProfileLine sum;
    for (const ProfileLine &line : profile.lines) {
        sum.live.blocks += line.live.blocks;
        sum.live.bytes += line.live.bytes;
        sum.total.blocks += line.total.blocks;
        sum.total.bytes += line.total.bytes;
    }
    EXPECT_EQ(profile.header.live.blocks, sum.live.blocks);
    EXPECT_EQ(profile.header.live.bytes, sum.live.bytes);
    EXPECT_EQ(profile.header.total.blocks, sum.total.blocks);
    EXPECT_EQ(profile.header.total.bytes, sum.total.bytes);
    EXPECT_EQ(sum.total.blocks, sum.live.blocks * 3 / 2);
    EXPECT_EQ(profile.interval, 1);
    EXPECT_NE(profile.mappings.find("r-xp"), std::string::npos) << profile.mappings;
}

TEST(ProfileDump, SaysWhatKeptItFromBeingWritten) {
    for (int (*const write)(int) : {hak_profile_dump, hak_profile_fragmentation, hak_profile_leaks}) {
        EXPECT_EQ(write(-1), -1);
        EXPECT_EQ(errno, EBADF);
        const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        ASSERT_GE(full, 0);
        EXPECT_EQ(write(full), -1);
        EXPECT_EQ(errno, ENOSPC);
        close(full);
    }
}

struct Site {
    double pinned = 0, live_bytes = 0, live_blocks = 0;
    std::uintptr_t innermost = 0;
};

struct Pinned {
    double total = 0, resident = 0;
    std::vector<Site> sites;
};

Pinned pinned_now() {
    const std::string text = written_by(hak_profile_fragmentation);
    Pinned pinned;
    EXPECT_EQ(std::sscanf(text.c_str(), "{\"total_pinned_bytes\":%lf,\"total_resident_bytes\":%lf,",
                          &pinned.total, &pinned.resident),
              2)
        << text;
    const char *const begins = "{\"pinned_bytes\":";
    for (std::size_t at = text.find(begins); at != std::string::npos; at = text.find(begins, at + 1)) {
        Site site;
        const int fields = std::sscanf(text.c_str() + at,
                                       "{\"pinned_bytes\":%lf,\"live_bytes\":%lf,\"live_blocks\":%lf,"
                                       "\"samples\":%*u,\"frames\":[\"0x%lx\"",
                                       &site.pinned, &site.live_bytes, &site.live_blocks, &site.innermost);
        EXPECT_EQ(fields, 4) << text.substr(at, 200);
        pinned.sites.push_back(site);
    }
    EXPECT_NE(text.find("],\n\"mappings\":["), std::string::npos) << text;
    return pinned;
}

// Every 64th block of a burst is kept by one function: what the burst leaves behind is the fault of that one.
TEST(Fragmentation, APlantedOneIsFoundWithItsWeight) {
    constexpr std::size_t kSize = 256;
    constexpr std::size_t kOneIn = 64;
    constexpr std::size_t kInterval = 4 * kKiB;
    const std::size_t kept = scaled(8192);
    const Sampling sampling(kInterval);
    Blocks survivors, transient, elsewhere;
    for (std::size_t i = 0; i < kept * kOneIn; i++) {
        if (i % kOneIn == 0) {
            survivors.add(keep(kSize));
        } else {
            transient.add(burst(kSize));
        }
    }
    for (std::size_t i = 0; i < kept; i++) {
        elsewhere.add(leak(2 * kSize)); // dense slabs: these pin nothing
    }
    EXPECT_LT(pinned_now().total, static_cast<double>(kMiB)) << "before anything was freed";
    transient.clear();
    hak_tiny_magazine_flush_all();

    const auto count = static_cast<double>(kept);
    const double truth = count * (kOneIn - 1) * kSize;
    const double tolerance = truth * estimate_tolerance(count, kSize, kInterval) / (count * kSize);
    const Pinned pinned = pinned_now();
    ASSERT_FALSE(pinned.sites.empty());
    EXPECT_TRUE(kKeep.has(pinned.sites[0].innermost)) << "another site pins most";
    EXPECT_NEAR(pinned.sites[0].pinned, truth, tolerance);
    EXPECT_NEAR(pinned.sites[0].live_blocks, count, count * tolerance / truth);
    EXPECT_NEAR(pinned.total, truth, tolerance + truth / 20);
    EXPECT_LE(pinned.resident, pinned.total);
    for (std::size_t i = 1; i < pinned.sites.size(); i++) {
        EXPECT_LE(pinned.sites[i].pinned, pinned.sites[i - 1].pinned) << "not sorted";
        EXPECT_LT(pinned.sites[i].pinned, truth / 20);
    }
    // Of four pages one holds a block that stays; the slabs stay all the same.
    hak_collect();
    const Pinned purged = pinned_now();
    EXPECT_NEAR(purged.total, truth, tolerance + truth / 20);
    EXPECT_LT(purged.resident, purged.total / 3) << "both are of the same samples";
}

TEST(Fragmentation, LeavesOutBlocksThatAreYoungerThanAsked) {
    const Sampling sampling(1);
    Blocks blocks;
    for (int i = 0; i < 100; i++) {
        blocks.add(keep(64));
    }
    EXPECT_FALSE(pinned_now().sites.empty());
    ASSERT_EQ(hak_option_set("prof_age_ms", "3600000"), 0);
    EXPECT_TRUE(pinned_now().sites.empty());
    ASSERT_EQ(hak_option_set("prof_age_ms", "0"), 0);
}

// A library in a folder of its own below that for temporary files, which keeps a block while it is loaded.
class Placed {
  public:
    explicit Placed(const std::string &folder) {
        top_ = testing::TempDir() + "hakmem-" + std::to_string(getpid());
        path_ = top_ / folder / "kept.so";
        std::filesystem::create_directories(path_.parent_path());
        std::filesystem::copy_file(HAKMEM_TEST_PLUGIN_SMALL, path_);
        library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
        EXPECT_NE(library_, nullptr) << dlerror();
        using Call = void(void (*)(void *), void *);
        auto *call = reinterpret_cast<Call *>(dlsym(library_, "plugin_call"));
        call([](void *into) { *static_cast<void **>(into) = leak(1000); }, &block_);
    }
    ~Placed() {
        hak_free(block_);
        dlclose(library_);
        std::filesystem::remove_all(top_);
    }
    Placed(const Placed &) = delete;
    Placed &operator=(const Placed &) = delete;

    std::string path() const {
        return path_.string();
    }

  private:
    std::filesystem::path top_, path_;
    void *library_ = nullptr;
    void *block_ = nullptr;
};

TEST(ProfileDump, ALongPathIsNamedAsAWhole) {
    const Sampling sampling(1);
    std::string folder;
    for (int i = 0; i < 12; i++) {
        folder += std::string(200, static_cast<char>('a' + i)) + '/';
    }
    const Placed placed(folder);
    const std::string leaks = written_by(hak_profile_leaks);
    EXPECT_NE(leaks.find(placed.path() + "+0x"), std::string::npos) << leaks;
    const std::string pinned = written_by(hak_profile_fragmentation);
    EXPECT_NE(pinned.find(placed.path() + '"'), std::string::npos) << pinned;
}

TEST(Fragmentation, IsJsonWhateverThePathsAre) {
    const Sampling sampling(1);
    const Placed placed("see\xe9 \"\\ \x01\x7f");
    const std::string pinned = written_by(hak_profile_fragmentation);
    EXPECT_NE(pinned.find(R"(/see\u00e9 \"\\ \u0001\u007f/kept.so")"), std::string::npos) << pinned;
    for (const char c : pinned) {
        EXPECT_TRUE((c >= ' ' && c < 0x7F) || c == '\n') << static_cast<int>(c);
    }
}

// What the innermost call of a stack in the report returns to; 0 if the stack is not there.
std::uintptr_t call_below(const std::string &report, const char *heading) {
    const std::size_t at = report.find(heading);
    std::uintptr_t call = 0;
    if (at == std::string::npos ||
        std::sscanf(report.c_str() + at + std::strlen(heading), " 0x%lx  /%*[^+]+0x%*x", &call) != 1) {
        return 0;
    }
    return call + 1;
}

TEST(Leaks, NameTheFunctionAndTheAmount) {
    const Sampling sampling(1);
    Blocks blocks;
    for (int i = 0; i < 1000; i++) {
        blocks.add(leak(1024));
    }
    blocks.add(keep(100));
    const std::string text = written_by(hak_profile_leaks);
    EXPECT_TRUE(kLeak.has(call_below(text, "\n1. about 1000.0 KiB in 1000 blocks (1000 samples)\n"))) << text;
    EXPECT_TRUE(kKeep.has(call_below(text, "\n2. about 100 B in 1 block (1 sample)\n"))) << text;
    blocks.clear();
    EXPECT_NE(written_by(hak_profile_leaks).find(": nothing\n"), std::string::npos);
}

} // namespace
