// Sampling that is switched while threads live: what each allocates from then on counts, and with the right
// weight.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/resident.h"
#include "support/threads.h"

extern "C" void hakmem_test_listen(void (*heard)()); // support/listen.c

namespace {

using hakmem_test::estimate_tolerance;
using hakmem_test::heap_profile_now;
using hakmem_test::kEveryBlock;
using hakmem_test::kKiB;
using hakmem_test::Meeting;
using hakmem_test::run_threads;
using hakmem_test::Sampling;

// Each thread allocates less than what it may without a look when nothing is sampled, and has none of the
// size yet when sampling begins.
TEST(SamplingSwitch, CountsWhatThreadsThatLiveAllocateFromThenOn) {
    constexpr std::size_t kThreads = 40;
    constexpr std::size_t kInterval = 16 * kKiB;
    for (const std::size_t size : {std::size_t{1000}, std::size_t{10'000}, 128 * kKiB}) {
        std::vector<std::vector<void *>> blocks(kThreads, std::vector<void *>(512 * kKiB / size));
        std::optional<Sampling> sampling;
        Meeting meeting(kThreads + 1);
        run_threads(kThreads + 1, [&](std::size_t number) {
            hak_free(hak_malloc(64));
            meeting.meet();
            if (number == kThreads) {
                sampling.emplace(kInterval);
            }
            meeting.meet();
            for (std::size_t i = 0; number < kThreads && i < blocks[number].size(); i++) {
                blocks[number][i] = hak_malloc(size);
            }
        });
        const auto count = static_cast<double>(kThreads * blocks[0].size());
        const auto bytes = static_cast<double>(size);
        EXPECT_NEAR(heap_profile_now().live().bytes, count * bytes,
                    estimate_tolerance(count, bytes, kInterval))
            << size;
        for (const std::vector<void *> &of_one : blocks) {
            for (void *block : of_one) {
                hak_free(block);
            }
        }
    }
}

constexpr std::size_t kHardlyAny = std::size_t{1} << 40;

int events_in_a_malloc;

void begin_anew_at_the_second_event() {
    if (++events_in_a_malloc == 2) {
        hak_profile_start(kHardlyAny);
    }
}

// The first event of a malloc comes before it is decided that its block is a sample, the second, where there
// is one, before the profile knows of it.
TEST(SamplingSwitch, LeavesOutASampleThatWasDecidedOnBefore) {
    const Sampling sampling(kEveryBlock);
    std::vector<void *> blocks;
    hakmem_test_listen(begin_anew_at_the_second_event);
    do {
        events_in_a_malloc = 0;
        blocks.push_back(hak_malloc(101));
    } while (events_in_a_malloc < 2 && blocks.size() < 100'000);
    hakmem_test_listen(nullptr);
    EXPECT_GE(events_in_a_malloc, 2);
    EXPECT_EQ(heap_profile_now().interval, static_cast<double>(kHardlyAny));
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
    for (void *block : blocks) {
        hak_free(block);
    }
}

} // namespace
