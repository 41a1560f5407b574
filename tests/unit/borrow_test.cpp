// Classes that borrow blocks of larger ones: which get blocks of their own, and how many.
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/equal_blocks.h"
#include "support/lanes.h"
#include "support/threads.h"

namespace {

using hakmem_test::free_blocks;
using hakmem_test::kKiB;
using hakmem_test::make_equal_blocks;
using hakmem_test::run_in_thread;

// Of two neighbouring classes, blocks that the program only has now and then.
constexpr std::size_t kBorrowerBytes = 18 * kKiB;
constexpr std::size_t kLenderBytes = 20 * kKiB;

// How many of so many blocks of kBorrowerBytes are of their own class; the rest are borrowed. Frees them.
std::size_t own_blocks_of(std::size_t count) {
    std::vector<void *> blocks = make_equal_blocks(count, kBorrowerBytes);
    std::size_t own = 0;
    for (void *block : blocks) {
        own += hak_usable_size(block) < kLenderBytes ? 1 : 0;
    }
    free_blocks(blocks);
    return own;
}

void free_some_lenders() {
    free_blocks(make_equal_blocks(4, kLenderBytes));
}

TEST(Borrow, AFewRequestsTakeBlocksOfALargerClassThatAreFree) {
    run_in_thread([] {
        free_some_lenders();
        EXPECT_EQ(own_blocks_of(1), 0U);
        EXPECT_EQ(own_blocks_of(4), 0U);
    });
}

TEST(Borrow, AClassThatGoesOnBorrowingGetsBlocksOfItsOwn) {
    run_in_thread([] {
        free_some_lenders();
        for (int i = 0; i < 200; i++) {
            own_blocks_of(1);
        }
        EXPECT_EQ(own_blocks_of(1), 1U);
    });
}

TEST(Borrow, OwnBlocksTakeLittleWhereOthersAreFree) {
    constexpr std::size_t kLive = 100;
    run_in_thread([] {
        // Of each two neighbours one stays, so that their slabs do.
        std::vector<void *> lenders = make_equal_blocks(4 * kLive, kLenderBytes);
        for (std::size_t i = 0; i < lenders.size(); i += 2) {
            hak_free(std::exchange(lenders[i], nullptr));
        }
        for (int i = 0; i < 200; i++) {
            own_blocks_of(kLive);
        }
        std::size_t own = own_blocks_of(kLive);
        EXPECT_GT(own, 1U);
        // The last refill of its own may bring half a magazine more.
        EXPECT_LE(own * kBorrowerBytes, 192 * kKiB + 16 * kBorrowerBytes);
        free_blocks(lenders);
    });
}

} // namespace
