// Superslabs that the program fills come as huge pages, and what is given back of one leaves the machine.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;

constexpr std::size_t kBlock = 512;
constexpr std::size_t kHeap = 96 * kMiB;

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

bool kernel_has_huge_pages() {
    std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line;
    std::getline(setting, line);
    return line.find("[never]") == std::string::npos && !line.empty();
}

void fill(PointerArray &blocks, std::size_t size) {
    for (std::size_t i = 0; i < blocks.size(); i++) {
        blocks[i] = hak_malloc(size);
        ASSERT_NE(blocks[i], nullptr);
        std::memset(blocks[i], static_cast<int>(i % 255 + 1), size);
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
        hak_option_set("huge_pages", "1");
        hak_collect();
    }
};

TEST_P(Dense, GrowthTakesFewFaultsAndNoMoreMemory) {
    hak_collect();
    const ResidentMeter meter;
    const std::uint64_t had = hakmem_test::counter("superslabs_dense");
    rusage before{};
    rusage after{};
    PointerArray blocks(kHeap / GetParam());
    getrusage(RUSAGE_SELF, &before);
    fill(blocks, GetParam());
    getrusage(RUSAGE_SELF, &after);
    const std::uint64_t came = hakmem_test::counter("superslabs_dense") - had;
    if (kernel_has_huge_pages()) {
        EXPECT_GT(came, kHeap / (2 * kMiB) / 2);
        EXPECT_LT(static_cast<std::size_t>(after.ru_minflt - before.ru_minflt), kHeap / (4 * kKiB) / 2);
    } else {
        EXPECT_EQ(came, 0u);
    }
    meter.expect_growth_within(kHeap + kHeap / 8 + 2 * kMiB, "by blocks that are all filled");
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

// A block of the large lane gets huge pages by what is known of those before it.
INSTANTIATE_TEST_SUITE_P(Sizes, Dense, testing::Values(kBlock, 2 * kKiB, 128 * kKiB),
                         [](const auto &info) { return std::to_string(info.param) + "B"; });

TEST(Dense, ThreadsThatGrowShrinkAndCollectAtOnceLoseNothing) {
    constexpr int kThreads = 4;
    const int rounds = static_cast<int>(hakmem_test::scaled(12));
    PointerArray ground(48 * kMiB / kBlock); // so that huge pages are worth it
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
        threads.emplace_back([t, rounds] {
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
