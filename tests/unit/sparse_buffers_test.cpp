// Buffers of which a part is used: what is free between them is bounded all the same.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/threads.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;

constexpr std::size_t kMost = 32 * kKiB;
constexpr std::size_t kBlocks = 4000;

constexpr std::size_t kThreads = 2;

// Threads replace buffers one by one, each its own, and leave them to the next ones. Of each new buffer,
// all is written to, or the first byte.
void churn(PointerArray &blocks, std::size_t generations, bool fill) {
    for (std::size_t g = 0; g < generations; g++) {
        hakmem_test::run_threads(kThreads, [&](std::size_t t) {
            Random random(g * kThreads + t);
            for (std::size_t i = 0; i < 40'000; i++) {
                void *&block = blocks[random.below(kBlocks / kThreads) * kThreads + t];
                hak_free(block);
                const std::size_t bytes = 1 + random.below(kMost);
                block = hak_malloc(bytes);
                std::memset(block, 1, fill ? bytes : 1);
            }
        });
    }
}

class SparseBuffers : public testing::Test {
  protected:
    void SetUp() override {
        hak_option_set("background_thread", "0");
        hak_collect();
    }
    void TearDown() override {
        for (void *block : blocks_) {
            hak_free(block);
        }
        hak_option_set("background_thread", "1");
    }

    PointerArray blocks_{kBlocks};
};

// Threads leave each other buffers of which a page is used, then such as are filled; most of these go.
TEST_F(SparseBuffers, GoBackOnceTheyAreFilled) {
    const ResidentMeter meter;
    churn(blocks_, 4, false);
    churn(blocks_, 2, true);
    for (std::size_t i = 0; i < kBlocks; i++) {
        if (i % 8 != 0) {
            hak_free(blocks_[i]);
            blocks_[i] = nullptr;
        }
    }
    // An eighth of them, up to 12 MiB in this thread's magazines, and what may be free in any program.
    meter.expect_growth_within(kBlocks / 8 * kMost / 2 + 24 * kMiB, "after most buffers are freed");
}

} // namespace
