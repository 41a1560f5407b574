// The memory that call stacks take: it has a bound, though the figures stay whole, and it goes when a profile
// begins anew.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/resident.h"

extern "C" {
#include "profile/snapshot.h"

void hakmem_test_sample_stacks(std::size_t count, std::size_t depth); // support/many_stacks.c
std::uint64_t hakmem_test_profile_bytes(void);
bool hakmem_test_keep_without_a_stack(bool keep);
}

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::Sampling;

// More of them than there is memory for.
constexpr std::size_t kStacks = 100'000;
constexpr std::size_t kDepth = FRAMES_MOST;

TEST(Origins, TakeNoMoreMemoryThanTheyMayAndLoseNoSample) {
    const Sampling sampling(1);
    hakmem_test_sample_stacks(kStacks, kDepth);
    EXPECT_LE(hakmem_test_profile_bytes(), 80 * kMiB);
    snapshot *now = snapshot_take(true);
    ASSERT_NE(now, nullptr);
    std::uint64_t samples = 0;
    std::uint64_t cut_off = 0;
    for (std::size_t i = 0; i < now->count; i++) {
        const line &one = now->lines[i];
        samples += one.figures.total_blocks;
        ASSERT_GT(one.origin->depth, 0u);
        EXPECT_EQ(one.origin->frames[0], now->lines[0].origin->frames[0]);
        cut_off += one.origin->depth == 1 ? one.figures.total_blocks : 0;
    }
    snapshot_end(now);
    EXPECT_EQ(samples, kStacks);
    EXPECT_GT(cut_off, 0u) << "kept by the innermost frame alone";
    EXPECT_LT(cut_off, kStacks);
}

TEST(Origins, AreGivenBackWhenAProfileBeginsAnew) {
    Sampling first(1);
    void *block = hak_malloc(500 * kKiB); // resized where it stands
    hakmem_test_sample_stacks(10'000, kDepth);
    EXPECT_GT(hakmem_test_profile_bytes(), 10 * kMiB);
    const Sampling second(2);
    EXPECT_LT(hakmem_test_profile_bytes(), 512 * kKiB);
    block = hak_realloc(block, 400 * kKiB); // sampled in a run whose stacks are gone
    EXPECT_EQ(hakmem_test::heap_profile_now().header.live.blocks, 0);
    hak_free(block);
}

TEST(Origins, StayForWhoeverStillReadsThem) {
    Sampling first(1);
    hakmem_test_sample_stacks(1, kDepth);
    snapshot *before = snapshot_take(true);
    ASSERT_NE(before, nullptr);
    const Sampling second(2);
    ASSERT_GT(before->count, 0u);
    EXPECT_EQ(before->lines[0].origin->frames[kDepth - 1], 1u);
    snapshot_end(before);
}

TEST(Origins, WithoutAFrameAreNamedAsSuch) {
    const Sampling sampling(1);
    ASSERT_TRUE(hakmem_test_keep_without_a_stack(true));
    const std::string leaks = hakmem_test::written_by(hak_profile_leaks);
    EXPECT_NE(leaks.find("1. about 64 B in 1 block (1 sample)\n    call stack unknown\n"), std::string::npos)
        << leaks;
    hakmem_test_keep_without_a_stack(false);
}

} // namespace
