// Huge pages save faults where a program fills its blocks, and cost no memory where it does not.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/child.h"
#include "support/huge_pages.h"
#include "support/random.h"
#include "support/resident.h"

namespace {

using hakmem_test::expect_child_to_succeed;
using hakmem_test::faults_so_far;
using hakmem_test::free_all;
using hakmem_test::kernel_has_huge_pages;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::test_seed;
using hakmem_test::touch;

// Blocks of the huge lane and of the large one, no two of them of one kind.
constexpr std::size_t kSizes[] = {300 * kKiB, 1 * kMiB, 5 * kMiB, 20 * kMiB};

// Each touched every `step` bytes.
void take_all(PointerArray &blocks, std::size_t size, std::size_t step) {
    for (void *&block : blocks) {
        block = hak_malloc(size);
        touch(block, size, step);
    }
}

// Live blocks come and go at random, each touched every `step` bytes.
void churn(std::size_t size, std::size_t step, int operations, std::size_t live) {
    Random random(size + step);
    PointerArray blocks(live);
    for (int i = 0; i < operations; i++) {
        void *&block = blocks[random.below(live)];
        hak_free(block);
        block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        touch(block, size, step);
    }
    free_all(blocks);
}

class HugePages : public testing::TestWithParam<std::size_t> {
  protected:
    ~HugePages() override {
        os_fault_set_huge_page_ns(0);
        hak_collect();
    }

    // One page in sixteen.
    static constexpr std::size_t kStep = 64 * kKiB;

    static void expect_sparse_blocks_to_stay_sparse(std::size_t live, const char *when) {
        hak_collect();
        const ResidentMeter meter;
        PointerArray blocks(live);
        take_all(blocks, GetParam(), kStep);
        meter.expect_growth_within(live * GetParam() / kStep * kPage + 2 * kMiB, when);
        free_all(blocks);
    }
};

TEST_P(HugePages, DoNotSwellBlocksThatAreTouchedHereAndThere) {
    const std::size_t live = 40 * kMiB / GetParam();
    churn(GetParam(), kStep, 200, live);
    expect_sparse_blocks_to_stay_sparse(live, "with one page in sixteen touched");
}

TEST_P(HugePages, AreForsakenWhenTheProgramFillsItsBlocksNoMore) {
    const std::size_t live = 40 * kMiB / GetParam();
    churn(GetParam(), kPage, 400, live);
    for (int i = 0; i < 2; i++) {
        hak_collect();
        churn(GetParam(), kStep, static_cast<int>(live), live);
    }
    expect_sparse_blocks_to_stay_sparse(live, "after a change of habit");
}

TEST_P(HugePages, AreSeldomTakenWhileTheyAreSlow) {
    constexpr std::uint64_t kSlowNs = 5'000'000;
    constexpr std::size_t kTotal = 400 * kMiB;
    const auto pages_of_growth = [] {
        hak_collect();
        PointerArray blocks(kTotal / GetParam());
        const std::size_t before = faults_so_far();
        take_all(blocks, GetParam(), kPage);
        const std::size_t faults = faults_so_far() - before;
        free_all(blocks);
        return faults;
    };
    churn(GetParam(), kPage, 100, 40 * kMiB / GetParam());
    os_fault_set_huge_page_ns(kSlowNs);
    const std::size_t slow = pages_of_growth();
    os_fault_set_huge_page_ns(0);
    pages_of_growth(); // the pause ends
    const std::size_t quick = pages_of_growth();
    if (kernel_has_huge_pages() && GetParam() > 2 * kMiB) {
        EXPECT_GT(slow, kTotal / kPage * 9 / 10) << "of " << kTotal / kPage << " pages";
        EXPECT_LT(quick, kTotal / kPage / 2);
    }
}

// What is tried of a block of any size is a few MiB, whether the program fills it or not.
TEST(HugePagesOfOneBlock, AreTriedWithoutSwellingIt) {
    constexpr std::size_t kSize = 600 * kMiB;
    hak_collect();
    for (int i = 0; i < 2; i++) {
        void *filled = hak_malloc(kSize);
        touch(filled, kSize, kPage);
        hak_free(filled);
    }
    hak_collect();
    const ResidentMeter meter;
    void *sparse = hak_malloc(kSize);
    touch(sparse, kSize / 100, kPage);
    meter.expect_growth_within(kSize / 100 + 12 * kMiB, "by a hundredth of the block");
    hak_free(sparse);
    hak_collect();
}

// A slow one counts for those that come next, and not for all that a block has.
TEST(HugePagesOfOneBlock, AreTakenBehindThoseThatASlowOneHasCost) {
    constexpr std::size_t kSize = 600 * kMiB;
    constexpr std::size_t kPauseMost = 256 * kMiB;
    const auto faults_of_a_block = [] {
        const std::size_t before = faults_so_far();
        void *block = hak_malloc(kSize);
        touch(block, kSize, kPage);
        hak_free(block);
        hak_collect();
        return faults_so_far() - before;
    };
    faults_of_a_block();
    os_fault_set_huge_page_ns(5'000'000);
    faults_of_a_block();
    os_fault_set_huge_page_ns(0);
    const std::size_t faults = faults_of_a_block();
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults, kPauseMost / kPage + 1000);
    }
}

TEST_P(HugePages, LeaveNothingBehindInFreeMemory) {
    churn(GetParam(), kPage, 400, 40 * kMiB / GetParam());
    hak_collect();
    const ResidentMeter meter;
    std::vector<void *> blocks;
    for (std::size_t size = 16; size <= 32 * kKiB; size *= 2) {
        blocks.push_back(hak_malloc(size));
        touch(blocks.back(), size, kPage);
    }
    meter.expect_growth_within(1 * kMiB, "by a dozen small blocks where large ones were");
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST_P(HugePages, AreNotVouchedForByOneFilledBlockThatStays) {
    constexpr std::size_t kTouched = 16 * kKiB;
    const std::size_t live = 400 * kMiB / GetParam();
    void *filled = hak_malloc(GetParam() + 2 * kPage);
    touch(filled, GetParam(), kPage);
    const ResidentMeter meter;
    PointerArray blocks(live);
    for (void *&block : blocks) {
        block = hak_malloc(GetParam());
        touch(block, kTouched, kPage);
    }
    meter.expect_growth_within(live * kTouched + 3 * GetParam() + 2 * kMiB,
                               "by blocks of which little is used");
    free_all(blocks);
    hak_free(filled);
}

TEST_P(HugePages, AreNotVouchedForByWhatWasOnlyRead) {
    const std::size_t live = 100 * kMiB / GetParam();
    const ResidentMeter meter;
    PointerArray blocks(live);
    std::size_t sum = 0;
    for (void *&block : blocks) {
        block = hak_calloc(GetParam(), 1);
        touch(block, kPage, kPage);
        for (std::size_t at = 0; at < GetParam(); at += kPage) {
            sum += static_cast<volatile unsigned char *>(block)[at];
        }
    }
    EXPECT_EQ(sum, live);
    meter.expect_growth_within(live * 2 * kPage + 3 * GetParam() + 2 * kMiB, "by tables of zeros");
    free_all(blocks);
}

// Some blocks that are filled, by chance, do not vouch for the others of their size.
// Takes 240 MiB of blocks of which one in four, by a draw of its own, is filled; a byte is written to in the
// others.
bool few_filled_vouch_for_no_others(std::size_t size, std::uint64_t draw) {
    const ResidentMeter meter;
    Random random(size + draw);
    PointerArray blocks(240 * kMiB / size);
    std::size_t filled = 0;
    for (void *&block : blocks) {
        const bool fills = random.below(4) == 0;
        block = hak_malloc(size);
        touch(block, size, fills ? kPage : size);
        filled += fills ? size : kPage;
    }
    meter.expect_growth_within(filled + filled / 8 + 3 * size + 2 * kMiB, "where one in four is filled");
    free_all(blocks);
    return !testing::Test::HasFailure();
}

// It depends on which ones come first, so that one draw tells little; each begins with nothing known.
TEST_P(HugePages, AreNotVouchedForByTheFewThatAreFilled) {
    (void)test_seed(); // so that all children draw from the seed that is printed
    for (std::uint64_t draw = 0; draw < 3; draw++) {
        expect_child_to_succeed([draw] { return few_filled_vouch_for_no_others(GetParam(), draw) ? 0 : 1; });
    }
}

// Two that were filled and freed vouch for about as many.
TEST_P(HugePages, AreVouchedForByTwoThatWereFreedForAFewOnly) {
    for (int i = 0; i < 2; i++) {
        void *filled = hak_malloc(GetParam());
        touch(filled, GetParam(), kPage);
        hak_free(filled);
        hak_collect();
    }
    const ResidentMeter meter;
    PointerArray blocks(60);
    take_all(blocks, GetParam(), GetParam());
    meter.expect_growth_within(4 * GetParam() + blocks.size() * kPage, "of sparse blocks");
    free_all(blocks);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HugePages, testing::ValuesIn(kSizes),
                         [](const auto &info) { return std::to_string(info.param / kKiB) + "KiB"; });

TEST(HugePages, SaveFaultsWhereBlocksAreFilled) {
    constexpr std::size_t kSize = 16 * kMiB;
    for (int i = 0; i < 8; i++) {
        churn(kSize, kPage, 1, 1);
        hak_collect();
    }
    const std::size_t before = faults_so_far();
    PointerArray blocks(8);
    take_all(blocks, kSize, kPage);
    const std::size_t faults = faults_so_far() - before;
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults, kSize / kPage + 200) << "for " << blocks.size() * kSize / kPage << " pages";
    } else {
        EXPECT_LE(faults, blocks.size() * kSize / kPage + 200);
    }
    free_all(blocks);
}

// Of what one block leaves, as much as may stay is a part of the next, which can tell of the rest alone.
TEST(HugePages, SaveFaultsWhereAPartOfEachBlockIsStillResident) {
    constexpr std::size_t kSize = 30'000'000;
    constexpr std::size_t kOperations = 40;
    churn(kSize, kPage, 10, 1);
    const std::size_t before = faults_so_far();
    churn(kSize, kPage, kOperations, 1);
    const std::size_t faults = faults_so_far() - before;
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults, kOperations * kSize / kPage / 8);
    } else {
        EXPECT_LE(faults, kOperations * kSize / kPage + 200);
    }
}

// One buffer that comes again and again, and is filled, is not a word for many others.
TEST(HugePages, DoNotSwellManySparseBlocksAfterOneThatWasFilledAgainAndAgain) {
    constexpr std::size_t kBuffer = 30 * kMiB;
    constexpr std::size_t kSize = 20 * kMiB;
    constexpr std::size_t kLive = 12;
    constexpr std::size_t kStep = 256 * kKiB;
    churn(kBuffer, kPage, 10, 1);
    hak_collect();
    const ResidentMeter meter;
    PointerArray blocks(kLive);
    take_all(blocks, kSize, kStep);
    meter.expect_growth_within(kLive * kSize / kStep * kPage + 2 * kSize + 2 * kMiB,
                               "with one page in 64 touched");
    free_all(blocks);
}

// Blocks that are not filled, several at a time, do not keep those that follow from showing that they are.
TEST(HugePages, SaveFaultsWhereBlocksAreFilledAfterSparseOnes) {
    constexpr std::size_t kSize = 16 * kMiB;
    for (int i = 0; i < 4; i++) {
        PointerArray blocks(4);
        take_all(blocks, kSize, kMiB);
        free_all(blocks);
    }
    const std::size_t before = faults_so_far();
    PointerArray blocks(16);
    take_all(blocks, kSize, kPage);
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults_so_far() - before, 3 * kSize / kPage + 500);
    }
    free_all(blocks);
}

// Blocks that are not yet filled when the next one is taken tell when they are freed.
TEST(HugePages, SaveFaultsWhereSeveralBlocksAreTakenBeforeTheyAreFilled) {
    constexpr std::size_t kSize = 12 * kMiB;
    constexpr int kRounds = 8;
    PointerArray blocks(3);
    const std::size_t before = faults_so_far();
    for (int i = 0; i < kRounds; i++) {
        for (void *&block : blocks) {
            block = hak_malloc(kSize);
        }
        for (void *block : blocks) {
            touch(block, kSize, kPage);
        }
        free_all(blocks);
        hak_collect();
    }
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults_so_far() - before, 2 * blocks.size() * kSize / kPage);
    }
}

// What a block gave back when it was shortened is another's, and tells nothing of its size.
TEST(HugePages, AreNotVouchedForByWhatAShortenedBlockGaveBack) {
    constexpr std::size_t kShort = 2 * kMiB + kPage;
    constexpr std::size_t kSize = 16 * kMiB;
    void *before = hak_malloc(kShort);
    touch(before, kShort, kPage);
    void *behind = hak_malloc(40 * kMiB);
    hak_free(behind);
    hak_collect();
    hak_free(before);
    void *shortened = hak_realloc(hak_malloc(kSize), kShort);
    void *filled = hak_malloc(12 * kMiB);
    touch(filled, 12 * kMiB, kPage);
    hak_collect();
    const ResidentMeter meter;
    void *sparse = hak_malloc(kSize);
    touch(sparse, kSize, 2 * kMiB);
    meter.expect_growth_within(kMiB, "by a block of which eight pages are used");
    hak_free(sparse);
    hak_free(filled);
    hak_free(shortened);
}

// A filled block says nothing of others than those that are it, grown.
TEST(HugePages, DoNotSwellASparseBlockBesideAFilledOne) {
    for (const std::size_t filled : {3 * kMiB, 16 * kMiB, 128 * kMiB}) {
        void *witness = hak_malloc(filled);
        touch(witness, filled, kPage);
        const std::size_t size = filled * 7 / 2;
        const ResidentMeter meter;
        void *block = hak_calloc(1, size);
        touch(block, size, size / 50);
        meter.expect_growth_within(50 * kPage + 2 * kMiB, std::to_string(filled).c_str());
        hak_free(block);
        hak_free(witness);
        hak_collect();
    }
}

} // namespace
