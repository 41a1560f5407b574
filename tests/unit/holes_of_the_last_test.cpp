// Pages go back whose last blocks are freed last, or lie in the magazines.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "hakmem.h"
#include "support/no_decay.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/threads.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::Meeting;
using hakmem_test::NoDecay;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_threads;

constexpr std::size_t kHeap = 64 * kMiB;
// What a magazine holds may pin as many slabs as it has blocks.
constexpr std::size_t kMayStay = 8 * kMiB;

void fill_with(PointerArray &blocks, std::size_t size) {
    for (void *&block : blocks) {
        block = hak_malloc(size);
        *static_cast<char *>(block) = 1;
    }
}

void free_in_random_order(PointerArray &blocks) {
    Random random(1);
    hakmem_test::shuffle(blocks, random);
    for (void *&block : blocks) {
        hak_free(block);
        block = nullptr;
    }
}

// What may be free is a part of what is in use, and that shrinks without a small block being freed.
TEST(HolesOfTheLast, GoBackWhenTheLargeBlocksBesideThemGo) {
    const NoDecay no_decay;
    PointerArray small(300'000);
    PointerArray large(300);
    const ResidentMeter meter;
    fill_with(small, 64);
    for (void *&block : large) {
        block = hak_malloc(512 * kKiB);
        std::memset(block, 1, 512 * kKiB);
    }
    free_in_random_order(small);
    for (void *block : large) {
        hak_free(block);
    }
    meter.expect_growth_within(kMayStay, "after the last free");
}

class HolesOfTheLast : public testing::TestWithParam<std::size_t> {};

// Few bytes come back, and each may be all that holds a page.
TEST_P(HolesOfTheLast, GoBack) {
    const NoDecay no_decay;
    const std::size_t gap = kPage / GetParam();
    PointerArray last(kHeap / GetParam() / gap);
    PointerArray others(last.size() * (gap - 1));
    const ResidentMeter meter;
    for (std::size_t i = 0; i < last.size() * gap; i++) {
        void *block = hak_malloc(GetParam());
        *static_cast<char *>(block) = 1;
        if (i % gap == 0) {
            last[i / gap] = block;
        } else {
            others[i - i / gap - 1] = block;
        }
    }
    free_in_random_order(others);
    free_in_random_order(last);
    meter.expect_growth_within(kMayStay, "after the last free");
}

class HolesOfASmallHeap : public testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

// Pages that are looked for in vain while few blocks are free are found once many are.
TEST_P(HolesOfASmallHeap, GoBack) {
    const NoDecay no_decay;
    const auto [size, heap] = GetParam();
    PointerArray blocks(heap * kKiB / size);
    const ResidentMeter meter;
    fill_with(blocks, size);
    free_in_random_order(blocks);
    meter.expect_growth_within(6'000'000, "after the last free");
}

class HolesOfMixedSizes : public testing::TestWithParam<std::size_t> {};

// What the magazines of many classes hold at the end may be the last of as many pages.
TEST_P(HolesOfMixedSizes, GoBack) {
    const NoDecay no_decay;
    Random random(2);
    PointerArray blocks(2 * kHeap / GetParam());
    const ResidentMeter meter;
    for (void *&block : blocks) {
        block = hak_malloc(1 + random.below(GetParam()));
        *static_cast<char *>(block) = 1;
    }
    free_in_random_order(blocks);
    meter.expect_growth_within(2 * kMayStay, "after the last free");
}

class HolesOfOthersBlocks : public testing::TestWithParam<std::size_t> {};

// What threads leave for the owners of small blocks, for these to take it up, may hold a page for each block.
TEST_P(HolesOfOthersBlocks, GoBackAtOnceThoughTheirOwnersAreAsleep) {
    constexpr std::size_t kThreads = 4;
    constexpr std::size_t kEach = 16 * kMiB;
    std::vector<std::unique_ptr<PointerArray>> blocks(kThreads);
    for (std::unique_ptr<PointerArray> &array : blocks) {
        array = std::make_unique<PointerArray>(kEach / GetParam());
    }
    Meeting meeting(kThreads);
    const ResidentMeter meter;
    run_threads(kThreads, [&](std::size_t thread) {
        fill_with(*blocks[thread], GetParam());
        meeting.meet();
        free_in_random_order(*blocks[(thread + 1) % kThreads]);
        meeting.meet();
        if (thread == 0) {
            // A magazine of 1024 blocks for each thread, and what one alone may keep.
            meter.expect_growth_within((kThreads + 2) * 4 * kMiB, "after the last free");
        }
        meeting.meet();
    });
}

INSTANTIATE_TEST_SUITE_P(SizesAndKiB, HolesOfASmallHeap,
                         testing::Combine(testing::Values(16, 64, 512, 1024, 10'000, 40'000),
                                          testing::Values(5000, 8000, 10'000, 12'000, 16'000, 20'000)));
INSTANTIATE_TEST_SUITE_P(Sizes, HolesOfOthersBlocks, testing::Values(16, 64, 256),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(To, HolesOfMixedSizes, testing::Values(64, 256, 1024),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Sizes, HolesOfTheLast, testing::Values(16, 64, 200, 1000),
                         testing::PrintToStringParamName());

} // namespace
