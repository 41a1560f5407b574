// The kernel allows a process 65,530 mappings: the heap needs a few for each GiB, whatever the program does.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/random.h"

namespace {

using hakmem_test::kMiB;
using hakmem_test::Random;

// For a GiB of everything; a sanitizer's shadow memory has mappings of its own.
constexpr std::size_t kFew = 32;

std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t lines = 0;
    for (std::string line; std::getline(maps, line);) {
        lines++;
    }
    return lines;
}

// The program's own mappings are in the way of every place that is asked for.
TEST(Mappings, ThatStandInTheWayLeaveErrnoAlone) {
    constexpr std::size_t kAlignment = 1024 * kMiB;
    for (int i = 0; i < 40; i++) {
        void *own = mmap(nullptr, kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(own, MAP_FAILED);
        errno = 0;
        void *block = hak_aligned_alloc(kAlignment, kMiB);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(errno, 0);
    }
}

TEST(Mappings, StayFewWhileGibibytesOfEveryLaneComeAndGo) {
    constexpr std::size_t kLive = 1024 * kMiB;
    Random random(7);
    std::vector<void *> blocks;
    std::vector<std::size_t> sizes;
    std::size_t live = 0;
    const std::size_t before = mappings();
    for (int round = 0; round < 40'000; round++) {
        // Only address space counts here: the blocks are not written to.
        const std::size_t size = std::size_t{1} << (4 + random.below(19));
        blocks.push_back(hak_malloc(size));
        sizes.push_back(size);
        ASSERT_NE(blocks.back(), nullptr);
        live += size;
        while (live > kLive) {
            const std::size_t victim = random.below(blocks.size());
            live -= sizes[victim];
            hak_free(blocks[victim]);
            blocks[victim] = blocks.back();
            sizes[victim] = sizes.back();
            blocks.pop_back();
            sizes.pop_back();
        }
    }
    EXPECT_LE(mappings(), before + kFew);
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
    EXPECT_LE(mappings(), before + kFew);
}

TEST(Mappings, StayFewWhenHugeBlocksMoveAndAreFreed) {
    const std::size_t before = mappings();
    for (int round = 0; round < 300; round++) {
        void *block = hak_malloc(3 * kMiB);
        ASSERT_NE(block, nullptr);
        for (std::size_t size = 6; size <= 48; size *= 2) {
            static_cast<char *>(block)[size * kMiB / 2 - 1] = 1;
            void *in_the_way = hak_malloc(3 * kMiB);
            block = hak_realloc(block, size * kMiB);
            ASSERT_NE(block, nullptr);
            hak_free(in_the_way);
        }
        hak_free(block);
    }
    hak_collect();
    EXPECT_LE(mappings(), before + kFew);
}

} // namespace
