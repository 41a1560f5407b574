// The figures add up, and to what the kernel says.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "arena/address_space.h"
#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

extern "C" std::int64_t slack_resident(); // heap/slack.h, which only C can read

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::number_in;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::statistics_json;
using hakmem_test::stats_now;

struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
};

// Where the regions are, by the slab map.
std::vector<Range> regions() {
    std::FILE *file = std::tmpfile();
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(hak_slab_map_json(fileno(file)), 0);
    std::rewind(file);
    std::string text;
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) {
        text.append(buffer, n);
    }
    std::fclose(file);
    std::vector<Range> found;
    for (std::size_t at = 0; (at = text.find("{\"base\":\"", at)) != std::string::npos; at++) {
        std::uintptr_t base = 0;
        std::uintptr_t bytes = 0;
        EXPECT_EQ(
            std::sscanf(text.c_str() + at, "{\"base\":\"0x%" SCNxPTR "\",\"bytes\":%" SCNuPTR, &base, &bytes),
            2);
        found.push_back({base, base + bytes});
    }
    return found;
}

// Where the kernel split a huge page, it put its one page of zeros in the place of pages that held nothing
// else. They are resident, as far as it tells the program, and cost nothing.
std::uint64_t bytes_of_the_zero_page(std::uintptr_t begin, std::uintptr_t end) {
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
    constexpr std::uint64_t kNotAnonymous = std::uint64_t{1} << 61;
    constexpr std::uint64_t kOfThisProcessAlone = std::uint64_t{1} << 56;
    std::vector<std::uint64_t> pages((end - begin) / kPage);
    std::FILE *file = std::fopen("/proc/self/pagemap", "r");
    EXPECT_NE(file, nullptr);
    std::fseek(file, static_cast<long>(begin / kPage * sizeof pages[0]), SEEK_SET);
    EXPECT_EQ(std::fread(pages.data(), sizeof pages[0], pages.size(), file), pages.size());
    std::fclose(file);
    std::uint64_t bytes = 0;
    for (const std::uint64_t page : pages) {
        bytes += (page & (kPresent | kNotAnonymous | kOfThisProcessAlone)) == kPresent ? kPage : 0;
    }
    return bytes;
}

// Resident bytes of the regions as the kernel lists them; the page map, which is not among them, has a few
// pages.
std::uint64_t kernel_bytes() {
    const std::vector<Range> ranges = regions();
    std::FILE *file = std::fopen("/proc/self/smaps", "r");
    EXPECT_NE(file, nullptr);
    std::uint64_t bytes = 0;
    bool ours = false;
    char line[512];
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    while (std::fgets(line, sizeof line, file) != nullptr) {
        unsigned long kib = 0;
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
            ours = false;
            for (const Range &range : ranges) {
                ours = ours || (begin >= range.begin && begin < range.end);
            }
        } else if (ours && std::sscanf(line, "Rss: %lu kB", &kib) == 1) {
            bytes += kib * kKiB + (kib == 0 ? 0 : bytes_of_the_zero_page(begin, end));
        }
    }
    std::fclose(file);
    return bytes;
}

std::uint64_t memory(const std::string &json, const char *name) {
    return number_in(json, "memory", name);
}

void expect_accounts(const char *when) {
    SCOPED_TRACE(when);
    // Until the library's thread has given nothing back between the one count and the other.
    std::uint64_t kernel = 0;
    std::string json;
    std::uint64_t afterwards = kernel_bytes();
    for (int tries = 0; tries < 20 && kernel != afterwards; tries++) {
        kernel = afterwards;
        json = statistics_json();
        afterwards = kernel_bytes();
    }
    const std::uint64_t resident = memory(json, "heap_resident_bytes");
    const std::uint64_t parts = memory(json, "live_bytes") + memory(json, "cached_bytes") +
                                memory(json, "free_in_slabs_bytes") + memory(json, "slab_tail_bytes") +
                                memory(json, "retained_bytes") + memory(json, "metadata_bytes") -
                                memory(json, "untouched_bytes");
    EXPECT_EQ(parts, resident) << json;
    const std::uint64_t in_regions = resident - number_in(json, "metadata", "page_map_bytes") -
                                     number_in(json, "metadata", "tables_bytes");
    EXPECT_NEAR(static_cast<double>(in_regions), static_cast<double>(kernel),
                static_cast<double>(kernel) / 100 + 8.0 * kPage)
        << json;
    EXPECT_NE(json.find("\"measured\":true"), std::string::npos);
}

class Blocks {
  public:
    Blocks() = default;
    Blocks(const Blocks &) = delete;
    Blocks &operator=(const Blocks &) = delete;
    ~Blocks() {
        keep_one_of(0);
    }

    void add(std::size_t size, std::size_t touched) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, touched);
        blocks_.push_back(block);
    }

    // Of all blocks, what the kernel has no memory behind.
    std::uint64_t untouched() const {
        std::uint64_t bytes = 0;
        for (void *block : blocks_) {
            const auto begin = reinterpret_cast<std::uintptr_t>(block);
            const std::uintptr_t end = begin + hak_usable_size(block);
            const std::uintptr_t first = begin / kPage * kPage;
            std::vector<unsigned char> pages((end - first + kPage - 1) / kPage);
            EXPECT_EQ(mincore(reinterpret_cast<void *>(first), pages.size() * kPage, pages.data()), 0);
            for (std::size_t i = 0; i < pages.size(); i++) {
                if ((pages[i] & 1) == 0) {
                    bytes += std::min(first + (i + 1) * kPage, end) - std::max(first + i * kPage, begin);
                }
            }
        }
        return bytes;
    }

    // 0: none is kept.
    void keep_one_of(std::size_t n) {
        std::vector<void *> kept;
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            if (n != 0 && i % n == 0) {
                kept.push_back(blocks_[i]);
            } else {
                hak_free(blocks_[i]);
            }
        }
        blocks_ = std::move(kept);
    }

  private:
    std::vector<void *> blocks_;
};

TEST(Accounting, BlocksOfEveryLaneAreAccountedFor) {
    for (std::size_t size :
         {std::size_t{16}, std::size_t{300}, 5 * kKiB, 40'000 * std::size_t{1}, 300 * kKiB, 5 * kMiB}) {
        SCOPED_TRACE(size);
        Blocks blocks;
        for (std::size_t i = 0; i < 10 + scaled(20 * kMiB / size); i++) {
            blocks.add(size, size);
        }
        expect_accounts("all live");
        blocks.keep_one_of(2);
        expect_accounts("every other freed");
        blocks.keep_one_of(16);
        expect_accounts("few left");
        hak_collect();
        expect_accounts("purged");
    }
    expect_accounts("all freed");
    hak_collect();
    expect_accounts("all purged");
}

TEST(Accounting, WhatTheProgramNeverWroteIsNotResident) {
    for (std::size_t size : {5 * kKiB, 60 * kKiB, 300 * kKiB, 20 * kMiB}) {
        SCOPED_TRACE(size);
        hak_collect();
        hak_tiny_magazine_flush_all();
        ASSERT_EQ(memory(statistics_json(), "untouched_bytes"), 0u);
        Blocks blocks;
        for (int i = 0; i < 20; i++) {
            blocks.add(size, kPage / 2);
        }
        expect_accounts("mostly untouched");
        hak_tiny_magazine_flush_all();
        EXPECT_EQ(memory(statistics_json(), "untouched_bytes"), blocks.untouched());
        blocks.keep_one_of(4);
        expect_accounts("some of them freed");
        hak_tiny_magazine_flush_all();
        EXPECT_EQ(memory(statistics_json(), "untouched_bytes"), blocks.untouched());
    }
}

TEST(Accounting, BlocksOfManyThreadsAndOfThoseThatHaveEndedAreAccountedFor) {
    constexpr std::size_t kThreads = 4;
    std::vector<Blocks> held(kThreads);
    run_threads(kThreads, [&](std::size_t number) {
        Random random(number);
        for (std::size_t i = 0; i < scaled(20'000); i++) {
            const std::size_t size = random.log_uniform(i % 200 == 0 ? 21 : 13);
            held[number].add(size, random.one_in(8) ? size / 2 : size);
        }
    });
    expect_accounts("after the threads ended");
    for (Blocks &blocks : held) {
        blocks.keep_one_of(7);
    }
    expect_accounts("after this thread freed most of it");
    hak_tiny_magazine_flush_all();
    expect_accounts("after a flush");
    hak_collect();
    expect_accounts("after all was purged");
}

// Each thread counts what it frees for itself, some tens of KiB, before it adds that to what all have freed.
TEST(Accounting, WhatManyThreadsFreedCountsWhenTheyHaveEnded) {
    constexpr std::size_t kThreads = 64;
    constexpr std::size_t kOfEach = 60 * kKiB / 48;
    constexpr std::size_t kOneStaysOf = 340;
    hak_collect();
    hakmem_test::PointerArray blocks(kThreads * kOfEach);
    for (void *&block : blocks) {
        block = hak_malloc(48);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, 48);
    }
    hakmem_test::Meeting all(kThreads);
    run_threads(kThreads, [&](std::size_t thread) {
        for (std::size_t i = 0; i < kOfEach; i++) {
            void *&block = blocks[thread * kOfEach + i];
            if (i % kOneStaysOf != 0) {
                hak_free(std::exchange(block, nullptr));
            }
        }
        all.meet(); // none takes the heap of another that has ended
    });
    const hak_stats_t stats = stats_now();
    EXPECT_NEAR(static_cast<double>(slack_resident()), static_cast<double>(stats.free_in_slab_bytes),
                static_cast<double>(kMiB));
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST(Accounting, ExactClassesAndAlignedBlocksAreAccountedFor) {
    Blocks blocks;
    for (std::size_t i = 0; i < scaled(2000); i++) {
        blocks.add(9'000, 9'000);
    }
    expect_accounts("one size of blocks");
    std::vector<void *> aligned;
    for (std::size_t alignment = 64; alignment <= 8 * kMiB; alignment *= 2) {
        aligned.push_back(hak_aligned_alloc(alignment, 100));
        std::memset(aligned.back(), 1, 100);
    }
    expect_accounts("aligned blocks");
    for (void *block : aligned) {
        hak_free(block);
    }
    expect_accounts("aligned blocks freed");
}

#if !HAKMEM_TEST_SANITIZED // these map more than can be locked
// What the calls of that name do on a program's behalf, which a library for tests does not have.
void lock_all(int flags) {
    arena_spare_address_space(0);
    if (mlockall(flags) == 0) {
        arena_note_locked((flags & MCL_CURRENT) != 0, (flags & MCL_FUTURE) != 0);
    } else {
        EXPECT_TRUE(errno == ENOMEM || errno == EPERM) << "other than a limit: " << errno;
    }
}

TEST(Accounting, LockedMemoryIsAccountedFor) {
    hak_free(hak_malloc(1));
    lock_all(MCL_CURRENT | MCL_FUTURE);
    expect_accounts("just locked");
    for (const std::size_t size : {300 * std::size_t{1}, 40 * kKiB, 200 * kKiB, 5 * kMiB}) {
        SCOPED_TRACE(size);
        Blocks blocks;
        for (std::size_t i = 0; i < 10 + 60 * kMiB / size; i++) {
            blocks.add(size, size);
        }
        expect_accounts("all live");
        blocks.keep_one_of(3);
        expect_accounts("most freed");
        EXPECT_LE(memory(statistics_json(), "metadata_bytes"), 12 * kMiB) << "free slabs count as such";
    }
    expect_accounts("all freed");
    hak_collect();
    expect_accounts("all purged");
    EXPECT_EQ(munlockall(), 0);
    arena_note_unlocked();
    Blocks blocks;
    for (std::size_t i = 0; i < 100; i++) {
        blocks.add(kMiB, 1);
    }
    expect_accounts("unlocked");
}

// Of a program that has locked what it has so far, what is made usable behind a block is resident.
TEST(Accounting, WhatIsLockedBehindHugeBlocksIsBounded) {
    constexpr std::size_t kSize = 2 * kMiB + 1;
    constexpr std::size_t kCount = 40;
    hak_free(hak_malloc(1));
    lock_all(MCL_CURRENT);
    Blocks blocks;
    for (std::size_t i = 0; i < kCount; i++) {
        blocks.add(kSize, 1);
    }
    // And as much behind blocks as may stay free.
    EXPECT_LE(stats_now().retained_bytes, 2 * (kCount * kSize / 8 + 3 * kMiB));
    EXPECT_EQ(munlockall(), 0);
    arena_note_unlocked();
}
#endif

TEST(Accounting, TheTableOfCallSitesIsMetadata) {
    const std::uint64_t before = number_in(statistics_json(), "metadata", "tables_bytes");
    std::vector<void *> blocks;
    for (hak_site_t site = 1; site < 3000; site++) {
        blocks.push_back(hak_alloc_at(10, site * 1'000'003));
    }
    EXPECT_GE(number_in(statistics_json(), "metadata", "tables_bytes"), before + 50 * kKiB);
    expect_accounts("with sites");
    for (hak_site_t site = 1; site < 3000; site++) {
        hak_free_at(blocks[site - 1], 10, site * 1'000'003);
    }
}

} // namespace
