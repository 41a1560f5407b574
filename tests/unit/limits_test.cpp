// The ends of the range of requests, and what happens to errno.
#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <set>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::kEdges;
using hakmem_test::number_in;
using hakmem_test::statistics_json;

constexpr std::size_t kMost = PTRDIFF_MAX;

template <typename Call>
void expect_out_of_memory(Call call, const char *name) {
    const auto counted = [] { return number_in(statistics_json(), "fallbacks", "out_of_memory"); };
    const std::uint64_t before = counted();
    errno = 0;
    EXPECT_EQ(call(), nullptr) << name;
    EXPECT_EQ(errno, ENOMEM) << name;
    EXPECT_EQ(counted(), before + 1) << name;
    errno = 0;
}

TEST(Limits, RequestsOfNothingGiveDistinctBlocks) {
    std::set<void *> blocks;
    for (int i = 0; i < 1000; i++) {
        for (void *block : {hak_malloc(0), hak_calloc(0, 8), hak_calloc(8, 0), hak_realloc(nullptr, 0)}) {
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(blocks.insert(block).second) << "handed out twice";
        }
    }
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST(Limits, SizesNoProcessCanHaveGiveNullAndEnomem) {
    for (std::size_t size : {kMost, kMost + 1, kMost - 4096, static_cast<std::size_t>(SIZE_MAX),
                             SIZE_MAX - 4096, SIZE_MAX / 2 + 2, std::size_t{1} << 62, std::size_t{1} << 48}) {
        SCOPED_TRACE(testing::Message() << "size " << size);
        errno = 0;
        expect_out_of_memory([&] { return hak_malloc(size); }, "malloc");
        expect_out_of_memory([&] { return hak_calloc(1, size); }, "calloc");
        expect_out_of_memory([&] { return hak_calloc(size, 1); }, "calloc");
        expect_out_of_memory([&] { return hak_realloc(nullptr, size); }, "realloc of NULL");
        expect_out_of_memory([&] { return hak_aligned_alloc(16, size); }, "aligned_alloc 16");
        expect_out_of_memory([&] { return hak_aligned_alloc(4096, size); }, "aligned_alloc 4096");
        expect_out_of_memory([&] { return hak_aligned_alloc(std::size_t{1} << 26, size); },
                             "aligned_alloc 64 MiB");
    }
}

// As libc's, whose memory the kernel does not promise beyond that, unless it is told to promise anything.
TEST(Limits, MoreThanTheMachineHasGivesNullAndEnomem) {
    struct sysinfo machine {};
    ASSERT_EQ(sysinfo(&machine), 0);
    const std::size_t all = (machine.totalram + machine.totalswap) * machine.mem_unit;
    char overcommit = 0;
    ASSERT_TRUE(std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit);
    for (const std::size_t size : {all + (std::size_t{32} << 30), std::size_t{1} << 44}) {
        SCOPED_TRACE(testing::Message() << "size " << size);
        errno = 0;
        void *block = hak_malloc(size);
        if (overcommit == '1') {
            EXPECT_NE(block, nullptr);
        } else {
            EXPECT_EQ(block, nullptr);
            expect_out_of_memory([&] { return hak_malloc(size); }, "malloc");
            block = hak_malloc(100);
            expect_out_of_memory([&] { return hak_realloc(block, size); }, "realloc");
            expect_out_of_memory([&] { return hak_aligned_alloc(4096, size); }, "aligned_alloc 4096");
            expect_out_of_memory([&] { return hak_aligned_alloc(std::size_t{1} << 46, 16); },
                                 "aligned_alloc 64 TiB");
        }
        hak_free(block);
    }
}

TEST(Limits, ProductsThatOverflowGiveNullAndEnomem) {
    for (std::size_t factor : {2uL, 3uL, 16uL, 1uL << 32, 1uL << 33, ~0uL}) {
        SCOPED_TRACE(testing::Message() << "factor " << factor);
        errno = 0;
        expect_out_of_memory([&] { return hak_calloc(SIZE_MAX / factor + 1, factor); }, "calloc");
        expect_out_of_memory([&] { return hak_calloc(factor, SIZE_MAX / factor + 1); }, "calloc");
        expect_out_of_memory([&] { return hak_calloc(SIZE_MAX, factor); }, "calloc");
    }
}

TEST(Limits, CallocGivesZeroesAlsoInMemoryThatWasUsed) {
    for (std::size_t size : kEdges) {
        for (int round = 0; round < 8; round++) {
            std::vector<void *> blocks;
            for (int i = 0; i < 4; i++) {
                void *block = hak_calloc(1, size);
                ASSERT_NE(block, nullptr);
                ASSERT_TRUE(hakmem_test::all_zero(block, size)) << size << " in round " << round;
                hakmem_test::dirty(block, hak_usable_size(block), 0xA5);
                blocks.push_back(block);
            }
            for (void *block : blocks) {
                hak_free(block);
            }
            if (round % 2 != 0) {
                hak_collect();
            }
        }
    }
}

TEST(Limits, FreeingNullDoesNothing) {
    errno = 4711;
    hak_free(nullptr);
    EXPECT_EQ(errno, 4711);
}

TEST(Limits, FreeKeepsErrnoInEveryLane) {
    for (std::size_t size : kEdges) {
        std::vector<void *> blocks;
        for (int i = 0; i < 40; i++) {
            blocks.push_back(hak_malloc(size));
            ASSERT_NE(blocks.back(), nullptr);
        }
        for (void *block : blocks) {
            errno = 4711;
            hak_free(block);
            ASSERT_EQ(errno, 4711) << size;
        }
    }
}

TEST(Limits, FreeKeepsErrnoWhenMagazinesOverflow) {
    for (std::size_t size : {std::size_t{16}, std::size_t{1000}, std::size_t{10'000}}) {
        std::vector<void *> blocks;
        for (int i = 0; i < 20'000; i++) {
            blocks.push_back(hak_malloc(size));
        }
        for (void *block : blocks) {
            errno = 4711;
            hak_free(block);
            ASSERT_EQ(errno, 4711) << size;
        }
    }
}

} // namespace
