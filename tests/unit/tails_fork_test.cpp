// A fork while what lies behind large blocks is being given back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "hakmem.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/shortened.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::make_shortened;
using hakmem_test::PointerArray;
using hakmem_test::scaled;

TEST(Tails, AForkBetweenLeavesNoneHalfGivenBack) {
    std::atomic<bool> done{false};
    std::thread collector([&done] {
        while (!done.load()) {
            hak_collect();
        }
    });
    PointerArray blocks(100);
    for (std::size_t i = 0; i < scaled(60) && !HasFailure(); i++) {
        make_shortened(blocks, 128 * kKiB, 66'000);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        for (void *block : blocks) {
            hak_free(block);
        }
        if (child == 0) {
            _exit(0);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    done = true;
    collector.join();
}

} // namespace
