// Memory that was used before is used again first: a page that was never touched costs a fault, and stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::stats_now;
using hakmem_test::touch;

class Reuse : public testing::TestWithParam<std::size_t> {};

// Several slabs of one class with holes, and one that has blocks which nobody ever had.
TEST_P(Reuse, OfFreedBlocksComesBeforeBlocksThatWereNeverUsed) {
    constexpr std::size_t kSlabs = 12;
    const int size_class = hak_size_class_of(GetParam());
    const std::size_t in_a_slab = hak_size_class_slab_bytes(size_class) / GetParam();
    Random random(GetParam());
    std::vector<void *> blocks(kSlabs * in_a_slab + in_a_slab / 3);
    for (void *&block : blocks) {
        block = hak_malloc(GetParam());
        ASSERT_NE(block, nullptr);
    }
    hak_tiny_magazine_flush_all();
    std::set<void *> freed;
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % 3 == 0 && i < kSlabs * in_a_slab) {
            freed.insert(blocks[i]);
            hak_free(blocks[i]);
            blocks[i] = nullptr;
        }
    }
    hak_tiny_magazine_flush_all();
    std::size_t never_used = 0;
    for (std::size_t n = freed.size(); n > 0; n--) {
        blocks.push_back(hak_malloc(GetParam()));
        never_used += freed.erase(blocks.back()) == 0;
    }
    // What was flushed at first, a magazine at most, came from the unused ones, and was not written to
    // either.
    EXPECT_LE(never_used, 256 * kKiB / GetParam() + 16) << "of " << never_used + freed.size();
    for (void *block : blocks) {
        hak_free(block);
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reuse, testing::Values(16, 100, 1000, 5000, 20'000, 40'000),
                         testing::PrintToStringParamName());

TEST(Reuse, OfAThreadsSlabsCountsOnlyWhatTheThreadUsed) {
    hak_collect();
    const hak_stats_t before = stats_now();
    std::thread([] {
        for (int c = hak_tiny_class_count(); c < hak_size_class_count(); c++) {
            hak_free(hak_malloc(hak_size_class_bytes(c)));
        }
    }).join();
    const hak_stats_t after = stats_now();
    const std::size_t classes = static_cast<std::size_t>(hak_size_class_count() - hak_tiny_class_count());
    std::size_t most = 0;
    for (int c = hak_tiny_class_count(); c < hak_size_class_count(); c++) {
        // What is taken at once for the first block: at most eight, and none beyond the run.
        const std::size_t batch = std::min(8 * hak_size_class_bytes(c), hak_size_class_slab_bytes(c));
        most += batch;
    }
    EXPECT_LE(after.retained_bytes, before.retained_bytes + most + classes * 64 * kKiB);
    EXPECT_LT(after.retained_bytes, before.retained_bytes + 6 * kMiB);
}

// A processor fetches ahead along rising addresses: what was freed in whatever order is handed out in that of
// addresses, across the words of a bitmap and from one refill to the next.
TEST(Reuse, OfFreedBlocksIsInTheOrderOfAddresses) {
    constexpr std::size_t kSlabBytes = 64 * kKiB;
    for (const std::size_t size : {16U, 32U, 112U, 1024U}) {
        const std::size_t of_a_slab = kSlabBytes / size;
        std::vector<char *> kept; // one in each slab, or it would be as one that was never used
        std::vector<char *> blocks;
        for (std::size_t i = 0; i < 16 * kMiB / size; i++) {
            auto *block = static_cast<char *>(hak_malloc(size));
            (i % of_a_slab == 0 ? kept : blocks).push_back(block);
        }
        Random random(3);
        hakmem_test::shuffle(blocks, random);
        for (char *block : blocks) {
            hak_free(block);
        }
        hak_tiny_magazine_flush_all();
        std::size_t jumps = 0;
        for (std::size_t i = 0; i < blocks.size(); i++) {
            blocks[i] = static_cast<char *>(hak_malloc(size));
            jumps += i > 0 && blocks[i] != blocks[i - 1] + size;
        }
        EXPECT_LE(jumps, 4 * kept.size()) << size;
        kept.insert(kept.end(), blocks.begin(), blocks.end());
        for (char *block : kept) {
            hak_free(block);
        }
    }
}

// A program that goes from one size to the next, and drops all of each: what magazines keep of sizes that are
// not used any more would hold a slab of each.
TEST(Reuse, OfSlabsByOtherSizesLeavesLittleInMagazines) {
    constexpr std::size_t kOfEach = kMiB;
    constexpr auto kPause = std::chrono::milliseconds(1); // sooner nobody can tell that a size is not used
    PointerArray blocks(kOfEach / 1000);
    hak_collect();
    const ResidentMeter meter;
    std::ptrdiff_t most = 0;
    for (int round = 0; round < 2; round++) {
        for (std::size_t size = 1100; size < 60'000; size += size / 8 + 64) {
            const std::size_t count = kOfEach / size;
            for (std::size_t i = 0; i < count; i++) {
                blocks[i] = hak_malloc(size);
                ASSERT_NE(blocks[i], nullptr);
                touch(blocks[i], size, 4 * kKiB);
            }
            for (std::size_t i = count; i-- > 0;) {
                hak_free(blocks[i]);
            }
            most = std::max(most, meter.growth());
            std::this_thread::sleep_for(kPause);
        }
    }
    EXPECT_LT(most, static_cast<std::ptrdiff_t>(kOfEach + 7 * kMiB));
}

// A block of each of many sizes in turn, and none is held: each size looks idle between two uses.
TEST(Reuse, OfSlabsByOtherSizesEndsWhereAllAreInUse) {
    constexpr std::size_t kSizes = 20;
    constexpr std::uint64_t kRounds = 20'000;
    const std::uint64_t had = hakmem_test::counter("slabs_created");
    for (std::uint64_t round = 0; round < kRounds; round++) {
        for (std::size_t i = 0; i < kSizes; i++) {
            void *block = hak_malloc(9216 + i * 2600);
            ASSERT_NE(block, nullptr);
            *static_cast<volatile char *>(block) = 1;
            hak_free(block);
        }
    }
    EXPECT_LT(hakmem_test::counter("slabs_created") - had, kSizes * kRounds / 10);
}

// A copy would be resident throughout.
TEST(Reuse, OfABufferThatIsShrunkCostsNoPagesThatItNeverHad) {
    const ResidentMeter meter;
    PointerArray blocks(100);
    for (void *&block : blocks) {
        block = hak_malloc(2'000'000);
        touch(block, 4096, 4096);
        block = hak_realloc(block, 900'000);
    }
    meter.expect_growth_within(10 * kMiB, "by a page of each block");
    for (void *block : blocks) {
        hak_free(block);
    }
}

// As a program does that reads into a large buffer, and keeps what it got.
TEST(Reuse, OfABufferThatIsShrunkTakesNoNewPages) {
    constexpr std::size_t kRounds = 4000;
    Random random(1);
    PointerArray kept(64);
    std::size_t faults = 0;
    for (std::size_t i = 0; i < kRounds; i++) {
        if (i == kRounds / 4) {
            faults = hakmem_test::faults_so_far();
        }
        void *buffer = hak_malloc(kMiB);
        const std::size_t used = 70'000 + random.below(130'000);
        touch(buffer, used, 4096);
        void *&block = kept[random.below(kept.size())];
        hak_free(block);
        block = hak_realloc(buffer, used);
    }
    EXPECT_LE(hakmem_test::faults_so_far() - faults, kRounds * 3 / 4);
    for (void *block : kept) {
        hak_free(block);
    }
}

// Threads whose sizes are others in each batch: of the pages that are given back, most are wanted again, and
// once that is seen, magazines need not be small for their sake.
TEST(Reuse, OfPurgedPagesLetsMagazinesBeLarge) {
    constexpr std::size_t kBatch = 4000;
    constexpr std::size_t kRounds = 1000;
    constexpr std::size_t kThreads = 8;
    hakmem_test::run_threads(kThreads, [](std::size_t thread) {
        Random random(200 + thread);
        std::vector<void *> batch(kBatch);
        std::vector<void *> kept(kBatch);
        for (std::size_t round = 0; round < kRounds; round++) {
            const std::size_t most = 1 + random.below(1000);
            for (void *&block : batch) {
                block = hak_malloc(1 + random.below(most));
                *static_cast<volatile char *>(block) = 1;
            }
            for (void *block : batch) {
                std::swap(block, round % 4 == 0 ? kept[random.below(kBatch)] : block);
                hak_free(block);
            }
        }
        for (void *block : kept) {
            hak_free(block);
        }
    });
    EXPECT_LT(hakmem_test::counter("refilled_blocks"), kThreads * kBatch * kRounds / 5);
}

} // namespace
