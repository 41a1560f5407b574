// Call sites: figures are exact, for one thread and for many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;

hak_site_stats_t figures(hak_site_t site) {
    hak_site_stats_t stats{};
    EXPECT_EQ(hak_site_get(site, &stats), 0) << "site " << site;
    EXPECT_EQ(stats.site, site);
    return stats;
}

TEST(Site, WhereNothingWasAllocatedGivesEnoent) {
    hak_site_stats_t stats{};
    errno = 0;
    EXPECT_EQ(hak_site_get(HAK_SITE(), &stats), -1);
    EXPECT_EQ(errno, ENOENT);
}

TEST(Site, CountsBlocksAndBytesAsRequested) {
    const hak_site_t site = HAK_SITE();
    void *small = hak_alloc_at(13, site);
    void *large = hak_alloc_at(100'001, site);
    ASSERT_NE(small, nullptr);
    ASSERT_NE(large, nullptr);
    EXPECT_GE(hak_usable_size(small), 13u);
    hak_site_stats_t stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 2u);
    EXPECT_EQ(stats.live_bytes, 100'014u);
    hak_free_at(small, 13, site);
    stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 1u);
    EXPECT_EQ(stats.live_bytes, 100'001u);
    EXPECT_EQ(stats.total_blocks, 2u);
    EXPECT_EQ(stats.total_bytes, 100'014u);
    hak_free_at(large, 100'001, site);
    stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.total_blocks, 2u);
}

TEST(Site, PeakIsTheHighestThatWasLive) {
    const hak_site_t site = HAK_SITE();
    void *first = hak_alloc_at(100, site);
    void *second = hak_alloc_at(200, site);
    EXPECT_EQ(figures(site).peak_bytes, 300u);
    hak_free_at(first, 100, site);
    void *third = hak_alloc_at(50, site);
    EXPECT_EQ(figures(site).peak_bytes, 300u);
    void *fourth = hak_alloc_at(51, site);
    EXPECT_EQ(figures(site).peak_bytes, 301u);
    hak_free_at(second, 200, site);
    hak_free_at(third, 50, site);
    hak_free_at(fourth, 51, site);
    EXPECT_EQ(figures(site).peak_bytes, 301u);
}

// What one writes where no block is reallocated at a site: the size that it has at last.
TEST(Site, ABlockFreedWithALargerSizeDoesNotWrapTheFigures) {
    const hak_site_t site = HAK_SITE();
    void *block = hak_realloc(hak_alloc_at(100, site), 200);
    hak_free_at(block, 200, site);
    hak_site_stats_t stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.peak_bytes, 100u);
    void *next = hak_alloc_at(40, site);
    stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 1u);
    EXPECT_EQ(stats.live_bytes, 0u) << "60 bytes too many were taken away";
    EXPECT_EQ(stats.peak_bytes, 100u);
    hak_free_at(next, 40, site);
}

TEST(Site, ABlockFreedAtAnotherSiteDoesNotWrapItsFigures) {
    const hak_site_t site = HAK_SITE();
    const hak_site_t other = HAK_SITE();
    void *first = hak_alloc_at(100, site);
    hak_free_at(hak_alloc_at(10, other), 10, other);
    hak_free_at(first, 100, other);
    const hak_site_stats_t stats = figures(other);
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.peak_bytes, 10u);
    EXPECT_EQ(figures(site).live_blocks, 1u);
}

TEST(Site, WhatFailsOrIsNullIsNotCounted) {
    const hak_site_t site = HAK_SITE();
    void *block = hak_alloc_at(32, site);
    errno = 0;
    EXPECT_EQ(hak_alloc_at(SIZE_MAX, site), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    hak_free_at(nullptr, 32, site);
    const hak_site_stats_t stats = figures(site);
    EXPECT_EQ(stats.live_blocks, 1u);
    EXPECT_EQ(stats.total_blocks, 1u);
    EXPECT_EQ(stats.total_bytes, 32u);
    EXPECT_EQ(stats.peak_bytes, 32u);
    hak_free_at(block, 32, site);
}

TEST(Site, FreeAtKeepsErrno) {
    void *block = hak_alloc_at(32, HAK_SITE());
    errno = 4711;
    hak_free_at(block, 32, HAK_SITE());
    EXPECT_EQ(errno, 4711);
}

TEST(Site, TheUnknownSiteAllocatesLikeAnyOther) {
    void *block = hak_alloc_at(64, 0);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, 64);
    hak_free_at(block, 64, 0);
}

TEST(Site, MacroNamesThePlaceAndDiffersByLine) {
    std::set<std::string> names;
    std::set<hak_site_t> values;
    for (int i = 0; i < 3; i++) {
        const hak_site_t here = HAK_SITE();
        values.insert(here);
        names.insert(reinterpret_cast<const char *>(here));
    }
    EXPECT_EQ(values.size(), 1u) << "one place is one site";
    const hak_site_t there = HAK_SITE();
    values.insert(there);
    names.insert(reinterpret_cast<const char *>(there));
    EXPECT_EQ(values.size(), 2u);
    EXPECT_EQ(names.size(), 2u);
    EXPECT_NE(names.begin()->find("site_test.cpp:"), std::string::npos) << *names.begin();
}

TEST(Site, ListHoldsEverySiteOnceWithItsFigures) {
    constexpr hak_site_t kFirst = 0x5EED0000;
    constexpr std::size_t kSites = 1000;
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < kSites; i++) {
        blocks.push_back(hak_alloc_at(i + 1, kFirst + i));
    }
    const std::size_t count = hak_site_list(nullptr, 0);
    ASSERT_GE(count, kSites);
    std::vector<hak_site_stats_t> list(count + 10);
    EXPECT_EQ(hak_site_list(list.data(), list.size()), count);
    std::set<hak_site_t> found;
    for (std::size_t i = 0; i < count; i++) {
        EXPECT_TRUE(found.insert(list[i].site).second) << "listed twice";
        if (list[i].site >= kFirst && list[i].site < kFirst + kSites) {
            EXPECT_EQ(list[i].live_blocks, 1u);
            EXPECT_EQ(list[i].live_bytes, list[i].site - kFirst + 1);
        }
    }
    for (std::size_t i = 0; i < kSites; i++) {
        EXPECT_EQ(found.count(kFirst + i), 1u) << i;
        hak_free_at(blocks[i], i + 1, kFirst + i);
        EXPECT_EQ(figures(kFirst + i).live_bytes, 0u);
    }
}

TEST(Site, ListWritesNoMoreThanItsCapacity) {
    for (hak_site_t site = 0x7000; site < 0x7010; site++) {
        hak_free_at(hak_alloc_at(1, site), 1, site);
    }
    hak_site_stats_t untouched{};
    untouched.site = 0xABCDEF;
    std::vector<hak_site_stats_t> list(5, untouched);
    EXPECT_GE(hak_site_list(list.data(), 3), 16u);
    EXPECT_EQ(list[3].site, 0xABCDEFu);
    EXPECT_EQ(list[4].site, 0xABCDEFu);
    EXPECT_NE(list[2].site, 0xABCDEFu);
}

// Sleeps are never too short, and the clock is good to a few milliseconds.
TEST(Site, LifetimesAreThoseOfFreedBlocksAndTheAgesOfLiveOnes) {
    const hak_site_t site = HAK_SITE();
    void *first = hak_alloc_at(10, site);
    void *second = hak_alloc_at(10, site);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    hak_free_at(first, 10, site);
    EXPECT_GE(figures(site).mean_lifetime_ms, 80u) << "one freed, one live, both of the same age";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_GE(figures(site).mean_lifetime_ms, 130u) << "the live one has grown older";
    hak_free_at(second, 10, site);
    const std::uint64_t settled = figures(site).mean_lifetime_ms;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(figures(site).mean_lifetime_ms, settled) << "no block is left to grow older";
}

TEST(Site, TheRateIsAnAverageSinceTheFirstAllocation) {
    const hak_site_t site = HAK_SITE();
    for (int i = 0; i < 1000; i++) {
        hak_free_at(hak_alloc_at(10, site), 10, site);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LE(figures(site).blocks_per_second, 1000u * 1000 / 190);
    EXPECT_GE(figures(site).blocks_per_second, 1u);
}

// What `write` writes to the descriptor that it is given.
std::string written(const std::function<void(int)> &write) {
    std::FILE *file = std::tmpfile();
    write(fileno(file));
    std::rewind(file);
    std::string text;
    for (int c; (c = std::fgetc(file)) != EOF;) {
        text += static_cast<char>(c);
    }
    std::fclose(file);
    return text;
}

std::string written_json() {
    return written([](int fd) { EXPECT_EQ(hak_sites_json(fd), 0); });
}

TEST(Site, TheTableHasALineForEachWithItsFigures) {
    const hak_site_t here = HAK_SITE();
    const hak_site_t wild = 0x7A7A;
    void *first = hak_alloc_at(3 << 20, here);
    hak_free_at(hak_alloc_at(1 << 20, here), 1 << 20, here);
    void *second = hak_alloc_at(2048, wild);
    void *third = hak_alloc_at(1024, 0);
    std::string table = written(hak_sites_print);
    table.erase(std::unique(table.begin(), table.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
                table.end());
    const std::string place = reinterpret_cast<const char *>(here);
    for (const std::string &part :
         {std::string(" 3.0 MiB 1 4.0 MiB 2 "), place, std::string(" 2.0 KiB 1 2.0 KiB 1 "),
          std::string(" 0x7a7a"), std::string(" 1.0 KiB "), std::string(" unknown")}) {
        EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
    }
    EXPECT_LT(table.find(place), table.find("0x7a7a")) << "what holds most comes first";
    hak_free_at(first, 3 << 20, here);
    hak_free_at(second, 2048, wild);
    hak_free_at(third, 1024, 0);
}

TEST(Site, JsonNamesPlacesAndOnlyThese) {
    const hak_site_t here = HAK_SITE();
    const auto text = reinterpret_cast<hak_site_t>("no place at all");
    const hak_site_t wild = 0x7777;
    for (const hak_site_t site : {here, text, wild}) {
        hak_free_at(hak_alloc_at(7, site), 7, site);
    }
    const std::string json = written_json();
    EXPECT_NE(json.find("\"place\":\"" + std::string(reinterpret_cast<const char *>(here)) + "\""),
              std::string::npos)
        << json;
    EXPECT_EQ(json.find("no place"), std::string::npos) << json;
    EXPECT_NE(json.find("{\"site\":\"0x7777\",\"place\":null,"), std::string::npos) << json;
}

TEST(Site, JsonHasTheSitesThatHoldMostFirst) {
    std::vector<void *> blocks;
    for (hak_site_t site = 1; site <= 50; site++) {
        blocks.push_back(hak_alloc_at(1000 * (site * 7 % 51), 0xC0DE00 + site));
    }
    const std::string json = written_json();
    std::uint64_t last = UINT64_MAX;
    std::size_t sites = 0;
    for (std::size_t at = 0; (at = json.find("\"live_bytes\":", at)) != std::string::npos; sites++) {
        at += 13;
        const std::uint64_t bytes = std::strtoull(json.c_str() + at, nullptr, 10);
        EXPECT_LE(bytes, last);
        last = bytes;
    }
    EXPECT_GE(sites, 50u);
    for (hak_site_t site = 1; site <= 50; site++) {
        hak_free_at(blocks[site - 1], 1000 * (site * 7 % 51), 0xC0DE00 + site);
    }
}

TEST(Site, JsonToADescriptorThatIsNoneFails) {
    EXPECT_EQ(hak_sites_json(-1), -1);
    EXPECT_EQ(errno, EBADF);
}

// What one thread did at a site; the sum over the threads is what the site must show.
struct Tally {
    std::uint64_t live_blocks = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t total_blocks = 0;
    std::uint64_t total_bytes = 0;
};

TEST(Site, FiguresOfManyThreadsAddUpExactly) {
    constexpr hak_site_t kFirst = 0xBEEF00;
    constexpr std::size_t kSites = 16;
    constexpr std::size_t kThreads = 4;
    struct Held {
        void *block;
        std::size_t size;
        std::size_t site;
    };
    std::vector<std::vector<Held>> held(kThreads);
    std::vector<std::vector<Tally>> tallies(kThreads, std::vector<Tally>(kSites));
    run_threads(kThreads, [&](std::size_t number) {
        Random random(number);
        std::vector<Held> &mine = held[number];
        for (std::size_t i = 0; i < scaled(200'000); i++) {
            if (mine.size() < 500 || random.one_in(2)) {
                const std::size_t size = random.log_uniform(14);
                const std::size_t site = random.below(kSites);
                Tally &tally = tallies[number][site];
                tally.live_blocks++;
                tally.live_bytes += size;
                tally.total_blocks++;
                tally.total_bytes += size;
                mine.push_back({hak_alloc_at(size, kFirst + site), size, site});
            } else {
                std::swap(mine[random.below(mine.size())], mine.back());
                const Held last = mine.back();
                mine.pop_back();
                tallies[number][last.site].live_blocks--;
                tallies[number][last.site].live_bytes -= last.size;
                hak_free_at(last.block, last.size, kFirst + last.site);
            }
        }
    });
    for (std::size_t site = 0; site < kSites; site++) {
        Tally sum;
        for (std::size_t i = 0; i < kThreads; i++) {
            sum.live_blocks += tallies[i][site].live_blocks;
            sum.live_bytes += tallies[i][site].live_bytes;
            sum.total_blocks += tallies[i][site].total_blocks;
            sum.total_bytes += tallies[i][site].total_bytes;
        }
        const hak_site_stats_t stats = figures(kFirst + site);
        EXPECT_EQ(stats.live_blocks, sum.live_blocks) << site;
        EXPECT_EQ(stats.live_bytes, sum.live_bytes) << site;
        EXPECT_EQ(stats.total_blocks, sum.total_blocks) << site;
        EXPECT_EQ(stats.total_bytes, sum.total_bytes) << site;
        EXPECT_GE(stats.peak_bytes, stats.live_bytes) << site;
        EXPECT_LE(stats.peak_bytes, stats.total_bytes) << site;
    }
    // All are freed by this thread, after the ends of those that allocated them.
    for (std::vector<Held> &blocks : held) {
        for (const Held &block : blocks) {
            hak_free_at(block.block, block.size, kFirst + block.site);
        }
    }
    for (std::size_t site = 0; site < kSites; site++) {
        EXPECT_EQ(figures(kFirst + site).live_blocks, 0u) << site;
        EXPECT_EQ(figures(kFirst + site).live_bytes, 0u) << site;
    }
}

} // namespace
