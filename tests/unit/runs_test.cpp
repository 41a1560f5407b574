// Runs that are kept: a buffer of the large lane that is freed and taken again costs no search, holds no more
// memory than may be free, and is never lost or handed out twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "support/busy_thread.h"
#include "support/collector.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace {

using hakmem_test::BusyThread;
using hakmem_test::Collector;
using hakmem_test::counter;
using hakmem_test::faults_so_far;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::number_in;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::statistics_json;

constexpr std::size_t kBuffer = 100'000;

// Frees and takes a buffer of such a size so often that its run is kept, and frees it.
void use_again_and_again(std::size_t size, std::size_t times = 10) {
    for (std::size_t i = 0; i < times; i++) {
        void *buffer = hak_malloc(size);
        std::memset(buffer, 1, size);
        hak_free(buffer);
    }
}

// A buffer whose every word says whose it is.
class Buffer {
  public:
    Buffer(std::size_t size, std::uint64_t mark)
        : words_(static_cast<std::uint64_t *>(hak_malloc(size))), count_(size / sizeof *words_), mark_(mark) {
        for (std::size_t i = 0; i < count_; i += kStep) {
            words_[i] = mark_;
        }
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    Buffer(Buffer &&other) noexcept : words_(other.words_), count_(other.count_), mark_(other.mark_) {
        other.words_ = nullptr;
    }
    Buffer &operator=(Buffer &&other) noexcept {
        std::swap(words_, other.words_);
        std::swap(count_, other.count_);
        std::swap(mark_, other.mark_);
        return *this;
    }
    ~Buffer() {
        EXPECT_TRUE(intact());
        hak_free(words_);
    }

    bool intact() const {
        for (std::size_t i = 0; words_ != nullptr && i < count_; i += kStep) {
            if (words_[i] != mark_) {
                return false;
            }
        }
        return true;
    }

  private:
    static constexpr std::size_t kStep = 256; // twice a page
    std::uint64_t *words_;
    std::size_t count_;
    std::uint64_t mark_;
};

// In the place of another, once there are so many.
void put_at_random(std::vector<Buffer> &buffers, std::size_t most, Random &random, Buffer buffer) {
    if (buffers.size() < most) {
        buffers.push_back(std::move(buffer));
    } else {
        buffers[random.below(most)] = std::move(buffer);
    }
}

class Runs : public testing::Test {
  protected:
    ~Runs() override {
        hak_option_set("retain_min", "2816K");
        hak_option_set("retain_percent", "12");
        hak_option_set("decay_ms", "500");
        hak_collect();
    }
};

TEST_F(Runs, OfBuffersThatAreFreedAndTakenAgainAreKept) {
    const std::uint64_t before = counter("large_kept");
    for (std::size_t size : {70 * kKiB, kBuffer, 300 * kKiB, kMiB}) {
        use_again_and_again(size, 100);
    }
    EXPECT_GE(counter("large_kept"), before + 4 * 90);
}

TEST_F(Runs, OfSeveralBuffersOfSeveralLengthsAreKept) {
    const std::uint64_t before = counter("large_kept");
    for (int i = 0; i < 100; i++) {
        const Buffer a(kBuffer, 1);
        const Buffer b(kBuffer, 2);
        const Buffer c(200'000, 3);
    }
    EXPECT_GE(counter("large_kept"), before + 3 * 90);
}

// Of more than may be kept those are kept that may: none is given back for the next, which is no better.
TEST_F(Runs, OfMoreBuffersThanMayStayAreKeptAsFarAsTheyMay) {
    constexpr std::size_t kRounds = 1000;
    constexpr std::size_t kLarge = 244'000; // 2816K has room for eleven
    const std::uint64_t before = counter("large_kept");
    for (std::size_t round = 0; round < kRounds; round++) {
        std::vector<void *> buffers(20);
        for (void *&buffer : buffers) {
            buffer = hak_malloc(kLarge);
        }
        for (void *buffer : buffers) {
            hak_free(buffer);
        }
    }
    EXPECT_GE(counter("large_kept") - before, kRounds * 8);
}

TEST_F(Runs, OfLengthsThatAreNotTakenAgainAreNotKept) {
    const std::uint64_t before = counter("large_kept");
    void *grown = nullptr;
    for (std::size_t size = 66 * kKiB; size < kMiB; size += 64 * kKiB) {
        void *next = hak_malloc(size);
        hak_free(grown);
        grown = next;
    }
    hak_free(grown);
    EXPECT_EQ(counter("large_kept"), before);
}

TEST_F(Runs, ServeShorterAndLongerBlocksOfAsManySlabs) {
    use_again_and_again(kBuffer);
    const std::uint64_t before = counter("large_kept");
    for (std::size_t size : {66'000U, 131'072U, 90'000U, 120'000U}) {
        char *buffer = static_cast<char *>(hak_malloc(size));
        EXPECT_EQ(hak_usable_size(buffer), (size + 4095) / 4096 * 4096);
        std::memset(buffer, 2, size);
        hak_free(buffer);
    }
    EXPECT_EQ(counter("large_kept"), before + 4);
}

// Of a block that is shortened for the first time, the pages are left to the next one.
TEST_F(Runs, ServeBlocksThatNobodyHasResizedYet) {
    use_again_and_again(kMiB);
    void *resized = hak_realloc(hak_malloc(kMiB), kMiB - 20'000);
    hak_free(resized);
    const std::uint64_t before = counter("large_kept");
    void *block = std::memset(hak_malloc(kMiB), 1, kMiB);
    EXPECT_EQ(counter("large_kept"), before + 1);
    EXPECT_EQ(block, resized);
    void *shortened = hak_realloc(block, 200'000);
    EXPECT_NE(shortened, resized);
    hak_free(shortened);
}

TEST_F(Runs, ReadAsZeroWhereThatIsAskedFor) {
    use_again_and_again(kBuffer);
    const std::uint64_t before = counter("large_kept");
    char *buffer = static_cast<char *>(hak_calloc(1, kBuffer));
    EXPECT_EQ(counter("large_kept"), before + 1);
    EXPECT_EQ(std::count(buffer, buffer + kBuffer, '\0'), static_cast<std::ptrdiff_t>(kBuffer));
    hak_free(buffer);
}

TEST_F(Runs, ServeNoBlockOfAGreaterAlignment) {
    use_again_and_again(kBuffer);
    for (std::size_t alignment = 4 * kKiB; alignment <= kMiB; alignment *= 2) {
        void *buffer = hak_aligned_alloc(alignment, kBuffer);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % alignment, 0u);
        hak_free(buffer);
    }
}

TEST_F(Runs, CountAsFreeMemory) {
    hak_collect();
    const std::uint64_t live = number_in(statistics_json(), "large", "live_bytes");
    use_again_and_again(kMiB);
    EXPECT_EQ(number_in(statistics_json(), "large", "live_bytes"), live);
}

TEST_F(Runs, GoBackOnRequest) {
    use_again_and_again(kBuffer);
    const std::uint64_t before = counter("large_kept");
    EXPECT_GE(hak_tiny_magazine_flush_all(), 1u);
    hak_free(hak_malloc(kBuffer));
    EXPECT_EQ(counter("large_kept"), before);
}

// Keeps a run, and has no use for it.
void keep_one() {
    use_again_and_again(kMiB);
}

TEST_F(Runs, GoBackWithTheRequestOfAnotherThread) {
    const ResidentMeter meter;
    const BusyThread keeper(keep_one);
    hak_collect();
    meter.expect_growth_within(kMiB / 2, "after a collection");
}

TEST_F(Runs, GoBackWhenTheirThreadNeedsThemNoMore) {
    ASSERT_EQ(hak_option_set("decay_ms", "50"), 0);
    const ResidentMeter meter;
    const BusyThread keeper(keep_one);
    meter.wait_for_growth_within(kMiB / 2);
    meter.expect_growth_within(kMiB / 2, "some periods later");
}

// As many as were never needed at the same time as the others go back, though the heap goes on using some.
TEST_F(Runs, GoBackWhereFewerAreOfUse) {
    ASSERT_EQ(hak_option_set("decay_ms", "50"), 0);
    const ResidentMeter meter;
    for (int round = 0; round < 100; round++) {
        std::vector<Buffer> buffers;
        while (buffers.size() < 10) {
            buffers.emplace_back(kBuffer, 1);
        }
    }
    EXPECT_TRUE(happens([&] {
        use_again_and_again(kBuffer, 100);
        return HAKMEM_TEST_SANITIZED || meter.growth() <= static_cast<std::ptrdiff_t>(kMiB / 2);
    }));
}

TEST_F(Runs, AreNotKeptWhereNothingMayStay) {
    ASSERT_EQ(hak_option_set("retain_min", "0"), 0);
    ASSERT_EQ(hak_option_set("retain_percent", "0"), 0);
    const std::uint64_t before = counter("large_kept");
    use_again_and_again(kBuffer, 100);
    EXPECT_EQ(counter("large_kept"), before);
}

TEST_F(Runs, OfManyThreadsAreWithinTheBoundOfAll) {
    constexpr std::size_t kThreads = 24;
    const ResidentMeter meter;
    std::atomic<std::size_t> kept{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; i++) {
        threads.emplace_back([&] {
            use_again_and_again(kMiB);
            kept.fetch_add(1, std::memory_order_release);
            while (!done.load(std::memory_order_acquire)) {
                std::this_thread::yield();
            }
        });
    }
    while (kept.load(std::memory_order_acquire) < kThreads) {
        std::this_thread::yield();
    }
    // retain_min, and what the threads have of their own: less than half of a run for each.
    meter.expect_growth_within(3 * kMiB + kThreads * 350 * kKiB, "with a run in hand");
    done.store(true, std::memory_order_release);
    for (std::thread &thread : threads) {
        thread.join();
    }
}

#if !HAKMEM_TEST_SANITIZED
// What a program with threads wants again may stay beyond what may be free in any: short runs are then there
// nearly always, once that is known, and never more than was in use.
TEST_F(Runs, OfShortLengthsMayUseTheGrace) {
    constexpr std::size_t kThreads = 2;
    constexpr std::size_t kBuffers = 16;
    constexpr std::size_t kTimes = 100'000;
    const ResidentMeter meter;
    const std::uint64_t kept = counter("large_kept");
    run_threads(kThreads, [](std::size_t thread) {
        Random random(thread + 1);
        std::vector<Buffer> buffers;
        for (std::size_t i = 0; i < kTimes; i++) {
            const std::size_t size = 65 * kKiB + random.below(191 * kKiB);
            put_at_random(buffers, kBuffers, random, Buffer(size, thread << 32 | i));
        }
    });
    EXPECT_GE(counter("large_kept") - kept, kThreads * kTimes * 7 / 10);
    meter.expect_growth_within(3 * kMiB + kThreads * kBuffers * 256 * kKiB, "after the last is freed");
}

// Where lengths are many, what is kept of one is missing for the others.
TEST_F(Runs, OfManyLengthsLeaveWhatTheNextBlockNeeds) {
    constexpr std::size_t kBuffers = 30;
    constexpr std::size_t kLengths = 8;
    Random random(1);
    std::vector<Buffer> buffers;
    const auto replace = [&](std::size_t times) {
        for (std::size_t i = 0; i < times; i++) {
            const std::size_t size = 70'000 + random.below(kLengths) * 64 * kKiB;
            put_at_random(buffers, kBuffers, random, Buffer(size, i));
        }
    };
    replace(2000);
    const std::size_t before = faults_so_far();
    replace(20'000);
    EXPECT_LE(faults_so_far() - before, 2000u);
}
#endif

// A huge block has the room that kept runs would take from it.
TEST_F(Runs, MakeRoomForHugeBlocks) {
    hak_collect();
    const ResidentMeter meter;
    for (int round = 0; round < 100; round++) {
        std::vector<void *> buffers(10);
        for (void *&buffer : buffers) {
            buffer = hak_malloc(200'000);
            std::memset(buffer, 1, 1);
        }
        for (void *buffer : buffers) {
            hak_free(buffer);
        }
        hak_free(std::memset(hak_malloc(3 * kMiB), 1, 3 * kMiB));
    }
    meter.expect_growth_within(5 * kMiB, "after the rounds");
}

// Blocks of all lengths, some of them of threads that have freed others' blocks, while what is kept is taken
// from under their hands.
TEST_F(Runs, AreNeitherLostNorHandedOutTwice) {
    ASSERT_EQ(hak_option_set("decay_ms", "20"), 0);
    {
        const Collector other;
        run_threads(3, [](std::size_t thread) {
            Random random(100 + thread);
            std::vector<Buffer> buffers;
            for (std::size_t i = 0; i < scaled(20'000); i++) {
                const std::size_t lengths = 1 + i / scaled(4000); // few at first
                const std::size_t size =
                    (1 + random.below(lengths)) * 64 * kKiB + 1 + random.below(64 * kKiB);
                put_at_random(buffers, 6, random, Buffer(size, thread << 32 | i));
            }
        });
    }
}

using RunsDeathTest = Runs;

TEST_F(RunsDeathTest, MisuseOfWhatIsKeptIsNamed) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto kept = [] {
        use_again_and_again(kBuffer);
        const std::uint64_t before = counter("large_kept");
        char *buffer = static_cast<char *>(hak_malloc(kBuffer));
        hak_free(buffer);
        return counter("large_kept") > before ? buffer : nullptr;
    };
    EXPECT_DEATH(hak_free(kept()), "double free");
    EXPECT_DEATH(hak_free(kept() + 8), "invalid free");
    EXPECT_DEATH(hak_realloc(kept(), 2 * kBuffer), "invalid realloc");
    EXPECT_DEATH(hak_usable_size(kept()), "invalid usable size");
}

} // namespace
