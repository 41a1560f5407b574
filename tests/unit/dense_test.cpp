// Superslabs that the program fills come as huge pages, and what is given back of one leaves the machine.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/huge_pages.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::dirty;
using hakmem_test::faults_so_far;
using hakmem_test::kernel_has_huge_pages;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;

constexpr std::size_t kBlock = 512;
// Large enough for huge pages to be worth it, and so much more.
constexpr std::size_t kGround = 192 * kMiB;
constexpr std::size_t kMore = 96 * kMiB;
constexpr std::size_t kHeap = kGround + kMore;

// Of the whole machine.
std::uint64_t huge_pages_split() {
    std::ifstream events("/proc/vmstat");
    std::string name;
    std::uint64_t count = 0;
    while (events >> name >> count) {
        if (name == "thp_split_page") {
            return count;
        }
    }
    return 0;
}

void fill(PointerArray &blocks, std::size_t size) {
    for (std::size_t i = 0; i < blocks.size(); i++) {
        blocks[i] = hak_malloc(size);
        ASSERT_NE(blocks[i], nullptr);
        dirty(blocks[i], size, static_cast<int>(i % 255 + 1));
    }
}

void expect_contents(void *block, std::size_t i, std::size_t size) {
    const auto *bytes = static_cast<unsigned char *>(block);
    EXPECT_EQ(bytes[0], i % 255 + 1) << i;
    EXPECT_EQ(bytes[size - 1], i % 255 + 1) << i;
}

class Dense : public testing::TestWithParam<std::size_t> {
  protected:
    ~Dense() override {
        os_fault_set_huge_page_ns(0);
        hak_option_set("huge_pages", "1");
        hak_collect();
    }
};

TEST_P(Dense, GrowthTakesFewFaultsAndNoMoreMemory) {
    hak_collect();
    const ResidentMeter meter;
    const std::uint64_t had = hakmem_test::counter("superslabs_dense");
    PointerArray blocks(kHeap / GetParam());
    const std::size_t before = faults_so_far();
    fill(blocks, GetParam());
    const std::size_t faults = faults_so_far() - before;
    const std::uint64_t came = hakmem_test::counter("superslabs_dense") - had;
    if (kernel_has_huge_pages()) {
        EXPECT_GT(came, kMore / (2 * kMiB) / 2);
        // A sanitizer's own memory is faulted in besides.
        EXPECT_LT(HAKMEM_TEST_SANITIZED ? 0 : faults, (kGround + kMore / 2) / (4 * kKiB));
    } else {
        EXPECT_EQ(came, 0u);
    }
    meter.expect_growth_within(kHeap + kHeap / 32 + 2 * kMiB, "by blocks that are all filled");
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST_P(Dense, WhatIsGivenBackOfAHugePageIsSplitFirst) {
    PointerArray blocks(kHeap / GetParam());
    const ResidentMeter meter;
    const std::uint64_t had = hakmem_test::counter("superslabs_dense");
    fill(blocks, GetParam());
    const std::uint64_t came = hakmem_test::counter("superslabs_dense") - had;
    const std::uint64_t split = huge_pages_split();
    // Of each MiB, half: whole slabs, and no whole superslab.
    const std::size_t half = 512 * kKiB / GetParam();
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i / half % 2 == 0) {
            hak_free(blocks[i]);
            blocks[i] = nullptr;
        }
    }
    hak_collect();
    EXPECT_GE(huge_pages_split() - split, came / 2) << "of " << came;
    meter.expect_growth_within(kHeap / 2 + kHeap / 8 + 2 * kMiB, "after half was freed");
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (blocks[i] != nullptr) {
            expect_contents(blocks[i], i, GetParam());
            hak_free(blocks[i]);
        }
    }
}

TEST_P(Dense, NeverWhereTheOptionSaysSo) {
    hak_collect();
    hak_option_set("huge_pages", "0");
    const std::uint64_t had = hakmem_test::counter("superslabs_dense");
    PointerArray blocks(kHeap / GetParam());
    fill(blocks, GetParam());
    EXPECT_EQ(hakmem_test::counter("superslabs_dense"), had);
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST_P(Dense, ARefusalCostsNothingButTheHugePages) {
    hak_collect();
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
        FAIL() << "this kernel cannot switch huge pages off for a process";
    }
    const ResidentMeter meter;
    PointerArray blocks(kHeap / GetParam());
    fill(blocks, GetParam());
    meter.expect_growth_within(kHeap + kHeap / 8 + 2 * kMiB, "without huge pages");
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    for (std::size_t i = 0; i < blocks.size(); i++) {
        expect_contents(blocks[i], i, GetParam());
        hak_free(blocks[i]);
    }
}

// What a machine takes so long for is asked for less and less, and again when it has become quick.
TEST_P(Dense, WhatIsSlowIsSeldomAskedFor) {
    constexpr std::uint64_t kSlowNs = 5'000'000;
    hak_collect();
    const ResidentMeter meter;
    const auto huge_pages = [] { return hakmem_test::counter("superslabs_dense"); };
    PointerArray slowly((kGround + 2 * kMore) / GetParam());
    PointerArray quickly(kHeap / GetParam());
    const std::uint64_t had = huge_pages();
    os_fault_set_huge_page_ns(kSlowNs);
    const auto begun = std::chrono::steady_clock::now();
    fill(slowly, GetParam());
    const auto took = std::chrono::steady_clock::now() - begun;
    const std::uint64_t slow = huge_pages() - had;
    os_fault_set_huge_page_ns(0);
    fill(quickly, GetParam());
    const std::uint64_t quick = huge_pages() - had - slow;
    if (kernel_has_huge_pages()) {
        EXPECT_GE(slow, 1u);
        // No pause is longer than a second.
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
        EXPECT_LE(slow, 5u + static_cast<std::uint64_t>(seconds))
            << "of " << (kGround + 2 * kMore) / (2 * kMiB) << " superslabs";
        EXPECT_GE(quick, kHeap / (2 * kMiB) / 4);
    }
    meter.expect_growth_within(2 * kHeap + kMore + kHeap / 8 + 2 * kMiB, "by blocks that are all filled");
    for (PointerArray *blocks : {&slowly, &quickly}) {
        for (std::size_t i = 0; i < blocks->size(); i++) {
            expect_contents((*blocks)[i], i, GetParam());
            hak_free((*blocks)[i]);
        }
    }
}

// A block of the large lane gets huge pages by what is known of those before it. Sanitizers go
// without the smallest: slabs of these two come from the arena alike, and its blocks are in other tests here.
const auto kBlockSizes = HAKMEM_TEST_SANITIZED ? std::vector<std::size_t>{2 * kKiB, 128 * kKiB}
                                               : std::vector<std::size_t>{kBlock, 2 * kKiB, 128 * kKiB};
INSTANTIATE_TEST_SUITE_P(Sizes, Dense, testing::ValuesIn(kBlockSizes),
                         [](const auto &info) { return std::to_string(info.param) + "B"; });

// What a program had a moment ago it is about to fill again, and needs no more memory for it than then.
TEST(Dense, AHeapThatComesAgainComesAsHugePages) {
    constexpr std::size_t kBytes = 60 * kMiB; // less than huge pages are worth it for in one that only grows
    constexpr std::size_t kRounds = 8;
    hak_collect();
    const ResidentMeter meter;
    const auto huge_pages = [] { return hakmem_test::counter("superslabs_dense"); };
    PointerArray blocks(kBytes / kBlock);
    const std::uint64_t had = huge_pages();
    for (std::size_t round = 0; round < kRounds; round++) {
        fill(blocks, kBlock);
        if (round == 0) {
            EXPECT_EQ(huge_pages(), had);
        }
        meter.expect_growth_within(kBytes + kBytes / 32 + 2 * kMiB, "by blocks that are all filled");
        for (std::size_t i = 0; i < blocks.size(); i++) {
            expect_contents(blocks[i], i, kBlock);
            hak_free(blocks[i]);
        }
    }
    if (kernel_has_huge_pages() && !HAKMEM_TEST_SANITIZED) { // there, a round takes longer than it is known
        EXPECT_GE(huge_pages() - had, kRounds);
    }
}

// Blocks of which little is used, among others and after others that are filled.
TEST(Dense, IsNotForBlocksOfWhichLittleIsUsed) {
    constexpr std::size_t kSparse = 65500;
    constexpr std::size_t kFilledForEach = 64;
    constexpr std::size_t kSmall = 256;
    hak_collect();
    const ResidentMeter meter;
    PointerArray small(kHeap / kSmall);
    PointerArray sparse(small.size() / kFilledForEach);
    for (std::size_t i = 0; i < small.size(); i++) {
        small[i] = hak_malloc(kSmall);
        dirty(small[i], kSmall, 1);
        if (i % kFilledForEach == 0) {
            sparse[i / kFilledForEach] = hak_malloc(kSparse);
            static_cast<char *>(sparse[i / kFilledForEach])[0] = 1;
        }
    }
    meter.expect_growth_within(kHeap + sparse.size() * 8 * kKiB + kHeap / 32 + 2 * kMiB,
                               "by blocks of both kinds");
    for (void *block : small) {
        hak_free(block);
    }
    for (void *block : sparse) {
        hak_free(block);
    }
}

TEST(Dense, EndsSoonWhenLargeBlocksAreFilledNoMore) {
    constexpr std::size_t kSizes[] = {65537, 200'000, 500'000, 1'044'480, 2'000'000};
    for (const std::size_t size : kSizes) {
        PointerArray filled(40);
        fill(filled, size);
        const ResidentMeter meter;
        PointerArray sparse(1000);
        for (void *&block : sparse) {
            block = hak_malloc(size);
            static_cast<char *>(block)[0] = 1;
        }
        meter.expect_growth_within(sparse.size() * 4 * kKiB + 16 * size + 6 * kMiB,
                                   ("by sparse blocks of " + std::to_string(size)).c_str());
        for (void *block : sparse) {
            hak_free(block);
        }
        for (void *block : filled) {
            hak_free(block);
        }
        hak_collect();
    }
}

// What lies idle goes in its time, though parts of huge pages cost more, and what is used stays.
TEST(Dense, WhatLiesIdleInHugePagesIsGivenBackWhileOtherMemoryIsUsed) {
    constexpr std::size_t kSize = 320 * kKiB;
    constexpr std::size_t kUsed = 8 * 1536 * kKiB;
    ASSERT_EQ(hak_option_set("decay_ms", "100"), 0);
    PointerArray used(8);
    const ResidentMeter meter;
    fill(used, kUsed / used.size()); // first, so that it lies lower
    PointerArray blocks(400);
    fill(blocks, kSize);
    for (void *block : used) {
        hak_free(block);
    }
    std::size_t live = blocks.size();
    for (void *&block : blocks) {
        if (reinterpret_cast<std::uintptr_t>(block) % (2 * kMiB) == 0) { // one of six
            hak_free(block);
            block = nullptr;
            live--;
        }
    }
    for (int i = 0; i < 100; i++) {
        fill(used, kUsed / used.size());
        for (void *block : used) {
            hak_free(block);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    meter.expect_growth_within(live * kSize + kUsed + 6 * kMiB, "though some was idle for ten periods");
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_option_set("decay_ms", "500");
}

// What one of them leaves of a huge page, others take.
TEST(Dense, BlocksOfManySizesGrowWithFewFaults) {
    Random random(2);
    PointerArray blocks(200);
    std::size_t bytes = 0;
    const ResidentMeter meter;
    const std::size_t before = faults_so_far();
    for (void *&block : blocks) {
        const std::size_t size = 64 * kKiB + 1 + random.below(2 * kMiB - 64 * kKiB - 1);
        block = hak_malloc(size);
        dirty(block, size, 1);
        bytes += size;
    }
    const std::size_t faults = faults_so_far() - before;
    if (kernel_has_huge_pages() && !HAKMEM_TEST_SANITIZED) {
        EXPECT_LT(faults, bytes / (4 * kKiB) / 3);
    }
    meter.expect_growth_within(bytes + bytes / 8 + 2 * kMiB, "by filled blocks of many sizes");
    for (void *block : blocks) {
        hak_free(block);
    }
}

// Nobody takes what these leave, whatever took it before.
TEST(Dense, BlocksOfOneSizeWasteLittleOfHugePages) {
    for (const std::size_t size : {560 * kKiB, 700 * kKiB, 830 * kKiB, 1088 * kKiB, 1400 * kKiB}) {
        hak_collect();
        const ResidentMeter meter;
        PointerArray blocks(200 * kMiB / size);
        fill(blocks, size);
        meter.expect_growth_within(200 * kMiB + 200 * kMiB / 20 + 2 * kMiB,
                                   ("by blocks of " + std::to_string(size)).c_str());
        for (void *block : blocks) {
            hak_free(block);
        }
    }
}

// Their superslabs, too, are put to other uses, and given back in parts.
TEST(Dense, HugeBlocksHugePagesAreSplitAsWell) {
    constexpr std::size_t kSize = 16 * kMiB;
    PointerArray ballast(1); // never touched: in use it is, so that all of a block may stay when it is freed
    ballast[0] = hak_malloc(16 * kSize);
    for (int i = 0; i < 6; i++) {
        hak_collect(); // what the last one leaves stays, the pages of those before it go
        PointerArray filled(1);
        fill(filled, kSize);
        hak_free(filled[0]);
    }
    const std::uint64_t split = huge_pages_split();
    // One block of 128 KiB in each MiB where it was keeps the superslab from being purged as a whole.
    PointerArray blocks(kSize / (128 * kKiB));
    fill(blocks, 128 * kKiB);
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % 8 != 0) {
            hak_free(blocks[i]);
        }
    }
    hak_collect();
    if (kernel_has_huge_pages()) {
        EXPECT_GE(huge_pages_split() - split, 1u);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 8) {
        expect_contents(blocks[i], i, 128 * kKiB);
        hak_free(blocks[i]);
    }
    hak_free(ballast[0]);
}

// Superslabs that are wholly free, of which the last slabs alone are resident, are opened at their start.
TEST(Dense, ComesNotWhereAPartIsResidentAlready) {
    constexpr std::size_t kSize = 128 * kKiB;
    constexpr std::size_t kSuperslab = 2 * kMiB;
    const auto is_last = [](void *block) {
        return reinterpret_cast<std::uintptr_t>(block) % kSuperslab == kSuperslab - kSize;
    };
    PointerArray ground(kGround / kBlock);
    fill(ground, kBlock);
    for (int round = 0; round < 4; round++) {
        PointerArray blocks(32 * kMiB / kSize);
        fill(blocks, kSize);
        for (void *&block : blocks) {
            if (!is_last(block)) {
                hak_free(block);
                block = nullptr;
            }
        }
        hak_collect();
        for (void *block : blocks) {
            hak_free(block);
        }
        PointerArray aligned(16);
        for (void *&block : aligned) {
            block = hak_aligned_alloc(kMiB, 250 * kKiB);
            std::memset(block, 1, 250 * kKiB);
        }
        for (void *block : aligned) {
            hak_free(block);
        }
    }
    for (void *block : ground) {
        hak_free(block);
    }
    hak_collect();
    // Were more counted as resident than is, every block would be given back at once.
    const std::size_t before = faults_so_far();
    for (int i = 0; i < 2000; i++) {
        void *block = hak_malloc(kMiB);
        static_cast<volatile char *>(block)[0] = 1;
        hak_free(block);
    }
    const std::size_t faults = faults_so_far() - before;
    EXPECT_LT(HAKMEM_TEST_SANITIZED ? 0 : faults, 1000u);
}

TEST(Dense, ThreadsThatGrowShrinkAndCollectAtOnceLoseNothing) {
    constexpr int kThreads = 4;
    const int rounds = static_cast<int>(hakmem_test::scaled(12));
    PointerArray ground(kGround / kBlock);
    fill(ground, kBlock);
    std::atomic<bool> over{false};
    std::thread collector([&over] {
        while (!over) {
            hak_collect();
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([t] {
            Random random(static_cast<std::uint64_t>(t) + 1);
            for (int round = 0; round < rounds; round++) {
                const std::size_t size = round % 3 == 0 ? 300 * kKiB : 64 + 64 * random.below(24);
                PointerArray blocks(8 * kMiB / size);
                fill(blocks, size);
                for (std::size_t i = 0; i < blocks.size(); i++) {
                    expect_contents(blocks[i], i, size);
                    hak_free(blocks[i]);
                }
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    over = true;
    collector.join();
    for (std::size_t i = 0; i < ground.size(); i++) {
        expect_contents(ground[i], i, kBlock);
        hak_free(ground[i]);
    }
}

} // namespace
