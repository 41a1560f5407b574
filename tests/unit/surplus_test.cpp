// What threads cache of blocks above 1 KiB is bounded for all sizes together.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::Meeting;
using hakmem_test::Random;
using hakmem_test::run_threads;
using hakmem_test::scaled;

constexpr std::size_t kThreads = 48;
constexpr std::size_t kLeast = 1100;
constexpr std::size_t kMost = 60 * kKiB;

// As many of 2 KiB as of 32 KiB.
std::size_t size_of_any_class(Random &random) {
    const double part = static_cast<double>(random.below(1000)) / 1000;
    return static_cast<std::size_t>(static_cast<double>(kLeast) *
                                    std::pow(static_cast<double>(kMost) / kLeast, part));
}

// A table that threads share, each of which replaces what others have put there by something of another size.
TEST(Surplus, WhatThreadsCacheIsBoundedForAllSizesTogether) {
    std::vector<std::atomic<void *>> table(1500); // 24 MiB
    Meeting meeting(kThreads);
    std::size_t cached = 0;
    run_threads(kThreads, [&](std::size_t t) {
        Random random(t);
        for (std::size_t i = 0; i < scaled(60'000); i++) {
            void *block = hak_malloc(size_of_any_class(random));
            // acq_rel: the block that comes out is freed here, and was another thread's
            hak_free(table[random.below(table.size())].exchange(block, std::memory_order_acq_rel));
        }
        meeting.meet();
        if (t == 0) {
            cached = hakmem_test::stats_now().cached_bytes;
        }
        meeting.meet();
    });
    // 64, and for each thread what it has kept since the last look and what others have left for it.
    EXPECT_LE(cached, 64 * kMiB + kThreads * (kMiB + kMiB / 2));
#if !HAKMEM_TEST_SANITIZED // there, threads do too little to come to it
    EXPECT_GT(hakmem_test::counter("flushes_surplus"), 0u);
#endif
    for (std::atomic<void *> &slot : table) {
        hak_free(slot.load(std::memory_order_relaxed));
    }
}

} // namespace
