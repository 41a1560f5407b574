// Statistics: they track what the test holds, and counters only grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/child.h"
#include "support/lanes.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

extern "C" {
#include "os/program.h"
}

namespace {

using hakmem_test::expect_child_to_succeed;
using hakmem_test::kEdges;
using hakmem_test::kKiB;
using hakmem_test::kLanes;
using hakmem_test::kMiB;
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::stats_now;

struct Held {
    std::vector<void *> blocks;
    std::uint64_t bytes = 0;

    void add(void *block) {
        ASSERT_NE(block, nullptr);
        blocks.push_back(block);
        bytes += hak_usable_size(block);
    }

    void remove(std::size_t index) {
        bytes -= hak_usable_size(blocks[index]);
        hak_free(blocks[index]);
        blocks[index] = blocks.back();
        blocks.pop_back();
    }
};

void expect_live(const Held &held, const char *when) {
    hak_tiny_magazine_flush_all();
    const hak_stats_t stats = stats_now();
    EXPECT_EQ(stats.live_blocks, held.blocks.size()) << when;
    EXPECT_EQ(stats.live_bytes, held.bytes) << when;
    EXPECT_EQ(stats.cached_bytes, 0u) << when;
}

TEST(Stats, LiveFiguresAreExactInEveryLane) {
    Held held;
    expect_live(held, "before anything");
    for (std::size_t size : kEdges) {
        SCOPED_TRACE(size);
        for (int i = 0; i < 10; i++) {
            held.add(hak_malloc(size));
        }
        expect_live(held, "after allocating");
        held.remove(held.blocks.size() - 1);
        expect_live(held, "after freeing one");
    }
    while (!held.blocks.empty()) {
        held.remove(0);
    }
    expect_live(held, "after freeing all");
}

TEST(Stats, LiveFiguresAreExactAfterRandomOperationsOfManyThreads) {
    constexpr std::size_t kThreads = 4;
    std::array<Held, kThreads> helds;
    run_threads(kThreads, [&](std::size_t number) {
        Random random(number);
        Held &held = helds[number];
        for (std::size_t i = 0; i < scaled(100'000); i++) {
            if (held.blocks.size() < 300 || random.one_in(2)) {
                held.add(hak_malloc(random.log_uniform(i % 100 == 0 ? 22 : 13)));
            } else {
                held.remove(random.below(held.blocks.size()));
            }
            if (held.blocks.size() > 600) {
                held.remove(random.below(held.blocks.size()));
            }
        }
    });
    Held all;
    for (const Held &held : helds) {
        all.bytes += held.bytes;
        all.blocks.insert(all.blocks.end(), held.blocks.begin(), held.blocks.end());
    }
    expect_live(all, "after the threads ended");
    while (!all.blocks.empty()) {
        all.remove(all.blocks.size() - 1);
    }
    expect_live(all, "after freeing all from this thread");
}

TEST(Stats, ResizingAndAligningCountLikeAllocating) {
    Held held;
    for (std::size_t size : kLanes) {
        held.add(hak_realloc(hak_malloc(size), 3 * size));
        held.add(hak_realloc(hak_malloc(3 * size), size));
        held.add(hak_aligned_alloc(4096, size));
        held.add(hak_calloc(3, size));
        expect_live(held, "with resized and aligned blocks");
    }
    while (!held.blocks.empty()) {
        held.remove(0);
    }
    expect_live(held, "after freeing all");
}

TEST(Stats, CachedBlocksAreNotLive) {
    run_in_thread([] {
        hak_tiny_magazine_flush_all();
        void *block = hak_malloc(256);
        hak_free(block);
        EXPECT_GE(stats_now().cached_bytes, 256u);
        EXPECT_EQ(stats_now().live_blocks, 0u);
        hak_tiny_magazine_flush_all();
        EXPECT_EQ(stats_now().cached_bytes, 0u);
        EXPECT_EQ(stats_now().live_blocks, 0u);
    });
}

TEST(Stats, CountersNeverGoDown) {
    using Counter = std::uint64_t hak_stats_t::*;
    const std::vector<std::pair<const char *, Counter>> counters = {
        {"refills", &hak_stats_t::refills},
        {"refilled_blocks", &hak_stats_t::refilled_blocks},
        {"flushes", &hak_stats_t::flushes},
        {"flushed_blocks", &hak_stats_t::flushed_blocks},
        {"remote_frees", &hak_stats_t::remote_frees},
        {"remote_flushes", &hak_stats_t::remote_flushes},
        {"slabs_created", &hak_stats_t::slabs_created},
        {"slabs_released", &hak_stats_t::slabs_released},
        {"slabs_adopted", &hak_stats_t::slabs_adopted},
        {"large_allocs", &hak_stats_t::large_allocs},
        {"large_frees", &hak_stats_t::large_frees},
        {"huge_allocs", &hak_stats_t::huge_allocs},
        {"huge_frees", &hak_stats_t::huge_frees},
        {"huge_remaps", &hak_stats_t::huge_remaps},
        {"purges", &hak_stats_t::purges},
        {"purged_bytes", &hak_stats_t::purged_bytes},
        {"system_calls", &hak_stats_t::system_calls},
        {"fallbacks", &hak_stats_t::fallbacks},
    };
    hak_stats_t before = stats_now();
    for (int round = 0; round < 20; round++) {
        std::vector<void *> blocks;
        run_in_thread([&] {
            for (std::size_t size : kEdges) {
                blocks.push_back(hak_malloc(size));
                hak_free(hak_malloc(size));
            }
        });
        for (void *block : blocks) {
            hak_free(block);
        }
        hak_collect();
        const hak_stats_t now = stats_now();
        for (const auto &counter : counters) {
            EXPECT_GE(now.*counter.second, before.*counter.second) << counter.first << " in round " << round;
        }
        before = now;
    }
}

TEST(Stats, LanesCountTheirBlocks) {
    const hak_stats_t before = stats_now();
    hak_free(hak_malloc(300'000));
    hak_free(hak_malloc(300'000));
    hak_free(hak_malloc(5'000'000));
    const hak_stats_t now = stats_now();
    EXPECT_EQ(now.large_allocs - before.large_allocs, 2u);
    EXPECT_EQ(now.large_frees - before.large_frees, 2u);
    EXPECT_EQ(now.huge_allocs - before.huge_allocs, 1u);
    EXPECT_EQ(now.huge_frees - before.huge_frees, 1u);
}

TEST(Stats, BlocksFreedByAnotherThreadAreCounted) {
    const std::uint64_t before = stats_now().remote_frees;
    std::vector<void *> blocks(1000);
    for (void *&block : blocks) {
        block = hak_malloc(64);
    }
    run_in_thread([&] {
        for (void *block : blocks) {
            hak_free(block);
        }
    });
    EXPECT_GE(stats_now().remote_frees - before, 1000u);
}

TEST(Stats, ResidentAndReservedAreWhatTheKernelSays) {
    std::vector<void *> blocks;
    for (int i = 0; i < 1000; i++) {
        blocks.push_back(hak_calloc(1, 10'000));
        std::memset(blocks.back(), 1, 10'000);
    }
    const hak_stats_t stats = stats_now();
    const auto resident = static_cast<double>(hakmem_test::resident_bytes());
    EXPECT_NEAR(static_cast<double>(stats.resident_bytes), resident,
                0.1 * resident + static_cast<double>(kMiB));
    EXPECT_GE(stats.reserved_bytes, stats.live_bytes);
    EXPECT_GE(stats.slabs_in_use, 10u);
    EXPECT_GE(stats.heaps_active, 1u);
    EXPECT_GT(stats.metadata_bytes, 0u);
    for (void *block : blocks) {
        hak_free(block);
    }
}

// As daemons do that show what they are about.
TEST(Stats, NameTheProgramThoughItWritesATitleOverItsName) {
    expect_child_to_succeed([] {
        std::string name = "daemon-" + std::string(1000, 'd');
        const std::string cut_off = "\"program\":\"" + name.substr(0, 63) + "\"";
        os_note_program_name(("/folder/" + name).c_str());
        name.replace(0, 6, "titled");
        std::array<char, 1024> document{};
        hak_stats_json(document.data(), document.size());
        return std::strstr(document.data(), cut_off.c_str()) != nullptr ? 0 : 1;
    });
}

TEST(Stats, PrintWritesOneScreen) {
    void *block = hak_malloc(1000);
    FILE *file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    hak_stats_print(fileno(file));
    std::string text(16 * kKiB, '\0');
    const ssize_t length = pread(fileno(file), &text[0], text.size(), 0);
    std::fclose(file);
    ASSERT_GT(length, 100);
    text.resize(static_cast<std::size_t>(length));
    std::size_t lines = 0;
    std::size_t width = 0;
    for (std::size_t start = 0; start < text.size(); lines++) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        width = std::max(width, end - start);
        start = end + 1;
    }
    EXPECT_GE(lines, 5u) << text;
    EXPECT_LE(lines, 60u) << text;
    EXPECT_LE(width, 132u) << text;
    EXPECT_EQ(text.back(), '\n');
    EXPECT_NE(text.find("live"), std::string::npos) << text;
    hak_free(block);
}

} // namespace
