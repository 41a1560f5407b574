// Misuse ends the process with one line that names it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include <unistd.h>

#include "hakmem.h"
#include "support/equal_blocks.h"
#include "support/lanes.h"
#include "support/statistics.h"

extern "C" {
void hakmem_test_free_late(std::size_t size);
void hakmem_test_resize_late(std::size_t size);
void hakmem_test_measure_late(std::size_t size);
}

namespace {

using hakmem_test::counter;
using hakmem_test::free_blocks;
using hakmem_test::kKiB;
using hakmem_test::make_equal_blocks;

constexpr std::size_t kTiny = 100;
constexpr std::size_t kMid = 10'000;
constexpr std::size_t kLarge = 300'000;
constexpr std::size_t kHuge = 5'000'000;

#define DOUBLE_FREE "hakmem: double free[^:]*: pointer 0x[0-9a-f]+, size class [0-9]+ B, slab 0x[0-9a-f]+"
#define INVALID_FREE "hakmem: invalid free[^:]*: pointer 0x[0-9a-f]+, size class [0-9]+ B, slab 0x[0-9a-f]+"
// Beyond the slabs nothing tells a block that was freed from one that never was.
#define EITHER_FREE "hakmem: (double|invalid) free[^:]*: pointer 0x[0-9a-f]+"
#define INVALID_ANY "hakmem: [a-z ]+[^:]*: pointer 0x[0-9a-f]+"
#define OF_LANE(lane) ", size class " lane ", slab 0x[0-9a-f]+"

class Misuse : public testing::Test {
  protected:
    Misuse() {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
    }
};

using MisuseDeathTest = Misuse;

unsigned char *block_of(std::size_t size) {
    auto *block = static_cast<unsigned char *>(hak_malloc(size));
    if (block == nullptr) {
        std::abort();
    }
    std::memset(block, 1, size);
    return block;
}

void free_twice_with_a_flush_between(std::size_t size) {
    void *block = block_of(size);
    hak_free(block);
    hak_tiny_magazine_flush_all();
    hak_free(block);
    hak_tiny_magazine_flush_all();
}

void free_twice_at_once(std::size_t size) {
    void *block = block_of(size);
    hak_free(block);
    hak_free(block);
    hak_tiny_magazine_flush_all();
}

void free_inside(std::size_t size, std::size_t offset) {
    hak_free(block_of(size) + offset);
    hak_tiny_magazine_flush_all();
}

TEST_F(MisuseDeathTest, DoubleFreeOfATinyBlockIsNamedWhenTheMagazineIsFlushed) {
    EXPECT_DEATH(free_twice_with_a_flush_between(kTiny), DOUBLE_FREE);
    EXPECT_DEATH(free_twice_with_a_flush_between(8), DOUBLE_FREE);
    EXPECT_DEATH(free_twice_with_a_flush_between(1 * kKiB), DOUBLE_FREE);
    EXPECT_DEATH(free_twice_at_once(kTiny), DOUBLE_FREE);
}

TEST_F(MisuseDeathTest, DoubleFreeOfAMidBlockIsNamed) {
    EXPECT_DEATH(free_twice_with_a_flush_between(kMid), DOUBLE_FREE);
    EXPECT_DEATH(free_twice_with_a_flush_between(64 * kKiB), DOUBLE_FREE);
    EXPECT_DEATH(free_twice_at_once(kMid), DOUBLE_FREE);
}

TEST_F(MisuseDeathTest, DoubleFreeOfALargeBlockIsNamedAtOnce) {
    const auto misuse = [] {
        void *block = block_of(kLarge);
        hak_free(block);
        hak_free(block);
    };
    EXPECT_DEATH(misuse(), EITHER_FREE OF_LANE("large"));
}

TEST_F(MisuseDeathTest, DoubleFreeOfAHugeBlockIsNamedAtOnce) {
    const auto misuse = [] {
        void *block = block_of(kHuge);
        hak_free(block);
        hak_free(block);
    };
    EXPECT_DEATH(misuse(), EITHER_FREE OF_LANE("huge"));
}

TEST_F(MisuseDeathTest, DoubleFreeAfterACollectIsNamed) {
    const auto misuse = [](std::size_t size) {
        void *block = block_of(size);
        hak_free(block);
        hak_collect();
        hak_free(block);
        hak_tiny_magazine_flush_all();
    };
    for (std::size_t size : {kTiny, kMid, kLarge, kHuge}) {
        EXPECT_DEATH(misuse(size), EITHER_FREE) << size;
    }
    EXPECT_DEATH(misuse(5 * kLarge), EITHER_FREE OF_LANE("large"));
    EXPECT_DEATH(misuse(kHuge), EITHER_FREE OF_LANE("huge"));
}

TEST_F(MisuseDeathTest, InteriorPointerOfATinyBlockIsNamedWhenTheMagazineIsFlushed) {
    EXPECT_DEATH(free_inside(kTiny, 16), INVALID_FREE);
    EXPECT_DEATH(free_inside(kTiny, 1), INVALID_FREE);
    EXPECT_DEATH(free_inside(kTiny, 8), INVALID_FREE);
    EXPECT_DEATH(free_inside(1 * kKiB, 512), INVALID_FREE);
}

TEST_F(MisuseDeathTest, InteriorPointerOfAMidBlockIsNamed) {
    EXPECT_DEATH(free_inside(kMid, 16), INVALID_FREE);
    EXPECT_DEATH(free_inside(kMid, 4096), INVALID_FREE);
    EXPECT_DEATH(free_inside(64 * kKiB, 32 * kKiB), INVALID_FREE);
}

TEST_F(MisuseDeathTest, InteriorPointerOfALargeBlockIsNamedAtOnce) {
    EXPECT_DEATH(hak_free(block_of(kLarge) + 16), EITHER_FREE);
    EXPECT_DEATH(hak_free(block_of(kLarge) + 4096), EITHER_FREE);
    EXPECT_DEATH(hak_free(block_of(kLarge) + 128 * kKiB), EITHER_FREE);
}

TEST_F(MisuseDeathTest, InteriorPointerOfAHugeBlockIsNamedAtOnce) {
    EXPECT_DEATH(hak_free(block_of(kHuge) + 16), EITHER_FREE);
    EXPECT_DEATH(hak_free(block_of(kHuge) + 4096), EITHER_FREE);
    EXPECT_DEATH(hak_free(block_of(kHuge) + 2048 * kKiB), EITHER_FREE);
}

// By two threads at once, of which the second has seen that the block was there. From 256 MiB on its region
// has ended by then.
TEST_F(MisuseDeathTest, DoubleUseOfAHugeBlockByTwoThreadsIsNamed) {
    for (const std::size_t size : {kHuge, std::size_t{400} << 20}) {
        EXPECT_DEATH(hakmem_test_free_late(size), "hakmem: double free[^:]*: pointer 0x[0-9a-f]+") << size;
        EXPECT_DEATH(hakmem_test_resize_late(size), "hakmem: invalid realloc[^:]*: pointer 0x[0-9a-f]+")
            << size;
        EXPECT_DEATH(hakmem_test_measure_late(size), "hakmem: invalid usable size[^:]*: pointer 0x[0-9a-f]+")
            << size;
    }
}

// Nothing is left of it that its address leads to.
TEST_F(MisuseDeathTest, DoubleFreeOfABlockWhoseRegionHasEndedIsNamed) {
    const auto freed = [] {
        void *block = hak_malloc(std::size_t{400} << 20);
        hak_free(block);
        return block;
    };
    EXPECT_DEATH(hak_free(freed()), "hakmem: double free[^:]*: pointer 0x[0-9a-f]+" OF_LANE("huge"));
    EXPECT_DEATH(hak_realloc(freed(), 10), "hakmem: invalid realloc .its slab is not in use.: pointer");
    EXPECT_DEATH(hak_usable_size(freed()), "hakmem: invalid usable size .its slab is not in use.: pointer");
}

// The last block of a slab is handed out after all others, so of a new slab it never was.
void *last_of_its_slab(std::size_t size) {
    const auto block = reinterpret_cast<std::uintptr_t>(block_of(size));
    const int size_class = hak_size_class_of(size);
    const std::size_t slab_bytes = hak_size_class_slab_bytes(size_class);
    const std::size_t bytes = hak_size_class_bytes(size_class);
    const std::uintptr_t slab = block & ~(64 * kKiB - 1);
    return reinterpret_cast<void *>(slab + (slab_bytes / bytes - 1) * bytes);
}

TEST_F(MisuseDeathTest, PointerThatWasNeverHandedOutIsNamed) {
    const auto misuse = [](std::size_t size) {
        hak_free(last_of_its_slab(size));
        hak_tiny_magazine_flush_all();
    };
    for (std::size_t size : {std::size_t{16}, kTiny, std::size_t{1000}, std::size_t{2000}}) {
        EXPECT_DEATH(misuse(size), EITHER_FREE) << size;
    }
}

TEST_F(MisuseDeathTest, ReallocOfAnInteriorPointerOfAMidBlockIsNamed) {
    EXPECT_DEATH(hak_realloc(block_of(kMid) + 64, 2 * kMid), INVALID_ANY);
    EXPECT_DEATH(hak_realloc(block_of(kMid) + 64, kMid), INVALID_ANY);
}

TEST_F(MisuseDeathTest, UsableSizeOfAnInteriorPointerOfAMidBlockIsNamed) {
    EXPECT_DEATH(hak_usable_size(block_of(kMid) + 64), INVALID_ANY);
}

TEST_F(MisuseDeathTest, ReallocOfAFreedLargeOrHugeBlockIsNamed) {
    const auto misuse = [](std::size_t size) {
        void *block = block_of(size);
        hak_free(block);
        hak_realloc(block, size + 4096);
    };
    EXPECT_DEATH(misuse(kLarge), INVALID_ANY OF_LANE("large"));
    EXPECT_DEATH(misuse(kHuge), INVALID_ANY OF_LANE("huge"));
}

TEST_F(MisuseDeathTest, DoubleFreeByAnotherThreadIsNamed) {
    const auto misuse = [] {
        void *block = block_of(kTiny);
        std::thread([block] { hak_free(block); }).join();
        std::thread([block] { hak_free(block); }).join();
    };
    EXPECT_DEATH(misuse(), DOUBLE_FREE);
}

// Parcels are sent once the library's thread looks after them; where there is none, the test is of the other
// way.
void wait_for_parcels() {
    for (int i = 0; i < 2000 && counter("remote_parcels") == 0; i++) {
        const std::vector<void *> blocks = make_equal_blocks(1000, 24);
        std::thread([&] { free_blocks(blocks); }).join();
    }
    hak_collect();
}

// On its way home with others, when its slab has gone: it must not be handed out again.
TEST_F(MisuseDeathTest, DoubleFreeByAnotherThreadBeforeTheSlabWentIsNamed) {
    const auto misuse = [](std::size_t large) {
        wait_for_parcels();
        const std::vector<void *> twice = make_equal_blocks(8000, kTiny);
        const std::vector<void *> once = make_equal_blocks(512, 24);
        std::promise<void> freed_first;
        std::promise<void> gone;
        std::thread other([&] {
            hak_free(hak_malloc(kTiny)); // so that it has a heap
            hak_free(twice[0]);
            freed_first.set_value();
            gone.get_future().wait();
            free_blocks(once);
        });
        freed_first.get_future().wait();
        free_blocks(twice);
        hak_tiny_magazine_flush_all();
        const std::vector<void *> instead = make_equal_blocks(large == 0 ? 0 : 100, large);
        gone.set_value();
        other.join();
        make_equal_blocks(8000, kTiny);
        _exit(0);
    };
    EXPECT_DEATH(misuse(0), DOUBLE_FREE);
    EXPECT_DEATH(misuse(kLarge), DOUBLE_FREE);
}

TEST_F(MisuseDeathTest, TheReportIsOneLine) {
    // The line ends the output: nothing but the end of the text may follow it.
    EXPECT_DEATH(free_twice_with_a_flush_between(kTiny), "hakmem: [^\n]+\n$");
}

} // namespace
