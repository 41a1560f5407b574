// Large blocks from calloc on memory that was used before: zero whatever was there, and without memory where
// the program leaves such blocks nearly untouched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::faults_so_far;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_threads;
using hakmem_test::scaled;

constexpr std::size_t kTable = 8 * kMiB;

// Leaves memory behind that is full of other things than zeros.
void use_memory(std::size_t bytes) {
    void *block = hak_malloc(bytes);
    std::memset(block, 0xA5, bytes);
    hak_free(block);
}

bool is_zero(const char *block, std::size_t bytes) {
    return bytes == 0 || (block[0] == 0 && std::memcmp(block, block + 1, bytes - 1) == 0);
}

// A table from calloc of which a byte in each `step` is written, once it was found to be zero.
class Table {
  public:
    Table(std::size_t bytes, std::size_t step) : block_(static_cast<char *>(hak_calloc(1, bytes))) {
        EXPECT_NE(block_, nullptr);
        for (std::size_t i = 0; i < bytes; i += step) {
            EXPECT_EQ(block_[i], 0);
            block_[i] = 1;
        }
    }
    Table(const Table &) = delete;
    Table &operator=(const Table &) = delete;
    ~Table() {
        hak_free(block_);
    }

  private:
    char *block_;
};

extern "C" bool hakmem_test_heap_is_entered(void); // support/entered.c
int looks, looks_outside;

class Clear : public testing::Test {
  protected:
    ~Clear() override {
        hak_option_set("retain_min", "2816K");
        hak_collect();
    }
};

// A heap may be taken from a thread that sleeps in a call, if it does not say that it goes on with it.
TEST_F(Clear, AThreadHoldsOnToItsHeapWhileItAsksWhatIsResident) {
    hak_option_set("retain_min", "64M");
    use_memory(kMiB);
    looks = looks_outside = 0;
    for (int round = 0; round < 20; round++) {
        void *table = hak_calloc(1, kMiB);
        os_fault_listen([] {
            looks++;
            looks_outside += hakmem_test_heap_is_entered() ? 0 : 1;
        });
        hak_free(table);
        os_fault_listen(nullptr);
    }
    EXPECT_GT(looks, 0);
    EXPECT_EQ(looks_outside, 0);
}

#if !HAKMEM_TEST_SANITIZED
// To give them back would cost a fault for each page that is used, and one for each page of those that are
// overwritten all the same.
TEST_F(Clear, TablesOfWhichAnEighthIsUsedAreOverwritten) {
    constexpr std::size_t kRounds = 1000, kLive = 20, kPages = kMiB / (4 * kKiB);
    hak_option_set("retain_min", "64M");
    Random random(1);
    std::vector<char *> tables(kLive);
    std::size_t before = 0;
    for (std::size_t round = 0; round < kRounds; round++) {
        if (round == kRounds / 2) {
            before = faults_so_far();
        }
        char *&table = tables[random.below(kLive)];
        hak_free(table);
        table = static_cast<char *>(hak_calloc(1, kMiB));
        for (std::size_t i = 0; i < kPages / 8; i++) {
            table[random.below(kPages) * (4 * kKiB)] = 1;
        }
    }
    EXPECT_LT(faults_so_far() - before, kRounds / 2 * 10);
    for (char *table : tables) {
        hak_free(table);
    }
}

TEST_F(Clear, SparseTablesTakeTheMemoryThatTheyTouch) {
    hak_option_set("retain_min", "64M"); // what was used stays
    for (int round = 0; round < 5; round++) {
        use_memory(kTable);
        const Table table(kTable, kMiB);
    }
    use_memory(kTable);
    const ResidentMeter meter;
    const Table table(kTable, kMiB);
    EXPECT_LE(meter.growth(), -static_cast<std::ptrdiff_t>(kTable - kMiB));
}

TEST_F(Clear, FilledTablesAreOverwritten) {
    constexpr int kRounds = 50;
    hak_option_set("retain_min", "64M");
    const auto fill = [](int rounds) {
        for (int round = 0; round < rounds; round++) {
            const Table table(kTable, 4 * kKiB);
        }
    };
    fill(5);
    const std::size_t before = faults_so_far();
    fill(kRounds);
    EXPECT_LE(faults_so_far() - before, kRounds * kTable / (4 * kKiB) / 20);
}

// A program that has said that it will not wait for pages gets none taken away.
TEST_F(Clear, NothingIsGivenBackWhereAllIsToStay) {
    constexpr int kRounds = 50;
    hak_option_set("retain_min", "128T");
    { const Table first(kTable, 4 * kKiB); }
    const std::size_t before = faults_so_far();
    for (int round = 0; round < kRounds; round++) {
        const Table table(kTable, kMiB);
    }
    EXPECT_LE(faults_so_far() - before, kTable / (4 * kKiB));
}
#endif

// Kinds of blocks that are now sparse and now filled, beside others that leave what they want behind.
TEST_F(Clear, BlocksAreZeroWhateverWasThere) {
    run_threads(2, [](std::size_t thread) {
        Random random(thread + 1);
        std::vector<char *> blocks(6, nullptr);
        for (std::size_t i = 0; i < scaled(600); i++) {
            char *&block = blocks[random.below(blocks.size())];
            hak_free(block);
            const std::size_t bytes = 300 * kKiB + random.below(5 * kMiB);
            if (random.below(3) == 0) {
                block = static_cast<char *>(hak_malloc(bytes));
                std::memset(block, 0xA5, bytes);
                continue;
            }
            block = static_cast<char *>(hak_calloc(1, bytes));
            ASSERT_TRUE(is_zero(block, bytes)) << bytes;
            const bool filled = i / 50 % 2 == 0;
            std::memset(block, 1, filled ? bytes : 1 + random.below(4 * kKiB));
        }
        for (char *block : blocks) {
            hak_free(block);
        }
    });
}

// A look at a block that its program has made unreadable is none, and a free leaves errno as it is.
TEST_F(Clear, BlocksThatCannotBeReadAreFreedInSilence) {
    hak_option_set("retain_min", "64M");
    use_memory(kTable);
    void *table = hak_calloc(1, kTable);
    ASSERT_EQ(mprotect(table, kTable, PROT_NONE), 0);
    errno = 0;
    hak_free(table);
    const int left = errno;
    ASSERT_EQ(mprotect(table, kTable, PROT_READ | PROT_WRITE), 0); // whoever gets it next wants to use it
    EXPECT_EQ(left, 0);
}

TEST_F(Clear, WhatTheKernelDoesNotTakeBackIsOverwritten) {
    hak_option_set("retain_min", "64M");
    for (int round = 0; round < 20; round++) {
        use_memory(kTable);
        os_fault_set(OS_FAULT_PURGE, round % 3, -1);
        char *table = static_cast<char *>(hak_calloc(1, kTable - 100));
        EXPECT_TRUE(is_zero(table, kTable - 100)) << round;
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        hak_free(table);
    }
}

} // namespace
