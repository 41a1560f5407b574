// Free memory that nobody needs goes back by itself, whoever freed it; what is in use never does.
//
// In a sanitizer's build resident memory says nothing (support/resident.h) and the allocator's thread is an
// ordinary one: there the allocator's own count of what it retains is judged, and the thread by what it does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "os/cgroup.h"
#include "os/fault.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::faults_so_far;
using hakmem_test::fill_pattern;
using hakmem_test::happens;
using hakmem_test::kEdges;
using hakmem_test::kKiB;
using hakmem_test::kLanes;
using hakmem_test::kMiB;
using hakmem_test::pattern_intact;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::shuffle;

using std::chrono::milliseconds;

// What may stay over the start, by the promise: caches of the threads and what is not worth giving back.
constexpr std::size_t kMayStay = 4 * kMiB;
// What the library itself leaves when nobody needs anything: less is not worth starting a thread for, and it
// may have ended just before the last frees.
constexpr std::size_t kMayStayRetained = 512 * kKiB;

void set_option(const char *name, const char *value) {
    ASSERT_EQ(hak_option_set(name, value), 0) << name << "=" << value;
}

std::size_t retained() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.retained_bytes;
}

std::uint64_t purged_bytes() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.purged_bytes;
}

#if !HAKMEM_TEST_SANITIZED
std::size_t thread_count() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}
#endif

// The allocator is not called while its memory goes back: asking for its figures comes after, or under a
// sanitizer, where nothing else can be asked.
void expect_memory_to_come_back(const ResidentMeter &meter, const char *after) {
#if !HAKMEM_TEST_SANITIZED
    EXPECT_TRUE(happens([&] { return meter.growth() <= static_cast<std::ptrdiff_t>(kMayStay); }))
        << meter.growth() << " bytes over the start stay resident " << after;
#else
    (void)meter;
#endif
    EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }))
        << retained() << " bytes stay retained " << after;
}

void *touched_block(std::size_t size) {
    void *block = hak_malloc(size);
    if (block != nullptr) {
        std::memset(block, 0xDB, size);
    }
    return block;
}

void allocate_all(PointerArray &blocks, std::size_t size) {
    for (void *&block : blocks) {
        block = touched_block(size);
        ASSERT_NE(block, nullptr) << size;
    }
}

void free_all(PointerArray &blocks) {
    for (void *&block : blocks) {
        hak_free(block);
        block = nullptr;
    }
}

// Frees `bytes` in blocks of the large lane: all of it reaches the free memory at once.
void use_and_free(std::size_t bytes) {
    constexpr std::size_t kBlock = 256 * kKiB;
    PointerArray blocks(bytes / kBlock);
    allocate_all(blocks, kBlock);
    free_all(blocks);
}

// Each test begins and ends with the options as they were, no fault, and nothing to give back.
class Decay : public testing::Test {
  protected:
    Decay() {
        for (const std::size_t size : kLanes) {
            hak_free(hak_malloc(size)); // sets up what the allocator keeps for good
        }
        settle();
        set_option("background_thread", "2"); // most of these programs have no threads
    }

    ~Decay() override {
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        for (const auto &[name, value] : kDefaults) {
            hak_option_set(name, value);
        }
        settle();
    }

    // Also waits for the allocator's thread, if there is one, to have ended.
    static void settle() {
        hak_collect();
        EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }));
#if !HAKMEM_TEST_SANITIZED
        // By their number: a thread that has just begun has no name of its own yet.
        EXPECT_TRUE(happens([] { return thread_count() == 1; }));
#endif
    }

    static constexpr const char *kThreadName = "hakmem";

    // The ids of the allocator's own threads.
    static std::vector<std::string> own_threads() {
        std::vector<std::string> found;
        for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name;
            std::getline(std::ifstream(task.path() / "comm"), name);
            if (name == kThreadName) {
                found.push_back(task.path().filename());
            }
        }
        return found;
    }

  private:
    static constexpr std::array<std::pair<const char *, const char *>, 5> kDefaults = {{
        {"retain_min", "2816K"},
        {"retain_percent", "12"},
        {"retain_grace", "128M"},
        {"decay_ms", "500"},
        {"background_thread", "1"},
    }};
};

// ---- Memory comes back, from every lane -------------------------------------------------------------------

class DecayOfLane : public Decay, public testing::WithParamInterface<std::size_t> {
  protected:
    DecayOfLane() {
        set_option("retain_min", "1G"); // only time gives memory back, and not the bound
    }

    static constexpr std::size_t kThreads = 4;

    // As many blocks as make up this much, shared between `threads`; under a sanitizer, less.
    static std::size_t count_for(std::size_t threads) {
        return std::max<std::size_t>(scaled(96 * kMiB) / GetParam() / threads, 4);
    }
};

TEST_P(DecayOfLane, ComesBackWithoutAnotherCall) {
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    free_all(blocks);
    expect_memory_to_come_back(meter, "after the last free");
}

TEST_P(DecayOfLane, ComesBackWhenFreedInRandomOrder) {
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    Random random(GetParam());
    shuffle(blocks, random);
    free_all(blocks);
    expect_memory_to_come_back(meter, "after the last free");
}

TEST_P(DecayOfLane, ComesBackFromThreadsThatHaveEnded) {
    const ResidentMeter meter;
    run_threads(kThreads, [](std::size_t) {
        PointerArray blocks(count_for(kThreads));
        allocate_all(blocks, GetParam());
        free_all(blocks);
    });
    expect_memory_to_come_back(meter, "after the threads' end");
}

// Threads that meet at points of the test and sleep in between.
class Meeting {
  public:
    explicit Meeting(std::size_t members) : members_(members) {
    }
    void meet() {
        std::unique_lock<std::mutex> lock(mutex_);
        const std::size_t round = round_;
        if (++arrived_ == members_) {
            arrived_ = 0;
            round_++;
            all_here_.notify_all();
        }
        all_here_.wait(lock, [&] { return round_ != round; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_here_;
    std::size_t members_;
    std::size_t arrived_ = 0;
    std::size_t round_ = 0;
};

TEST_P(DecayOfLane, ComesBackFromThreadsThatSleep) {
    const ResidentMeter meter;
    Meeting meeting(kThreads);
    run_threads(kThreads, [&](std::size_t number) {
        {
            PointerArray blocks(count_for(kThreads));
            allocate_all(blocks, GetParam());
            free_all(blocks);
        }
        meeting.meet();
        if (number == 0) {
            expect_memory_to_come_back(meter, "while the threads sleep");
        }
        meeting.meet();
    });
}

TEST_P(DecayOfLane, ComesBackWhenOtherThreadsFreeIt) {
    const ResidentMeter meter;
    Meeting meeting(kThreads);
    std::array<std::unique_ptr<PointerArray>, kThreads> blocks;
    run_threads(kThreads, [&](std::size_t number) {
        blocks[number] = std::make_unique<PointerArray>(count_for(kThreads));
        allocate_all(*blocks[number], GetParam());
        meeting.meet();
        free_all(*blocks[(number + 1) % kThreads]);
        meeting.meet();
        blocks[number].reset();
        meeting.meet();
        if (number == 0) {
            expect_memory_to_come_back(meter, "while the threads that freed it sleep");
        }
        meeting.meet();
    });
}

TEST_P(DecayOfLane, WithoutABackgroundThreadLaterFreesGiveItBack) {
    set_option("background_thread", "0");
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    free_all(blocks);
    EXPECT_TRUE(happens([&] {
        hak_free(hak_malloc(300'000));
        std::this_thread::sleep_for(milliseconds(100));
#if HAKMEM_TEST_SANITIZED
        return retained() <= kMiB;
#else
        return meter.growth() <= static_cast<std::ptrdiff_t>(kMayStay) && retained() <= kMiB;
#endif
    })) << "retained: "
        << retained() << ", over the start: " << meter.growth();
#if !HAKMEM_TEST_SANITIZED
    EXPECT_EQ(thread_count(), 1u) << "there is a thread although it is switched off";
#endif
    set_option("background_thread", "2");
}

// A program goes on for some time in which it takes nothing again: nothing counts any more of what came back
// before it might keep enough. Whatever time that takes, each round is one period.
void forget_the_first_breaths() {
    PointerArray few(12);
    for (int period = 0; period < 40; period++) {
        allocate_all(few, 300'000);
        std::this_thread::sleep_for(milliseconds(11));
        set_option("decay_ms", "20");
        free_all(few);
        set_option("decay_ms", "60000");
    }
}

// A program that took a quarter of its memory again and again, and has now an eighth of it in use, would take
// no more than an eighth of that quarter again.
TEST_F(Decay, WithoutABackgroundThreadTheGraceFallsWithWhatIsInUse) {
    constexpr std::size_t kBlock = 256 * kKiB;
    constexpr std::size_t kInUse = 256 * kMiB;
    constexpr std::size_t kMayBreathe = 8 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    // As much as is breathed: more is learned where there are no huge pages.
    set_option("retain_grace", "64M");
    PointerArray blocks(kInUse / kBlock);
    allocate_all(blocks, kBlock);
    const std::size_t quarter = blocks.size() / 4;
    for (int i = 0; i < 20; i++) {
        for (std::size_t b = 0; b < quarter; b++) {
            hak_free(blocks[b]);
        }
        for (std::size_t b = 0; b < quarter; b++) {
            blocks[b] = touched_block(kBlock);
        }
    }
    forget_the_first_breaths();
    const std::uint64_t purged = purged_bytes();
    for (std::size_t b = 0; b < quarter; b++) {
        hak_free(blocks[b]);
        blocks[b] = nullptr;
    }
    EXPECT_LE(purged_bytes() - purged, 8 * kMiB) << "of what is taken again";
    EXPECT_GE(retained(), kInUse / 4 - 8 * kMiB);
    for (std::size_t b = quarter; b < blocks.size() * 7 / 8; b++) {
        hak_free(blocks[b]);
        blocks[b] = nullptr;
    }
    EXPECT_LE(retained(), kInUse / 8 * 12 / 100 + std::max(kMayBreathe, kInUse / 4 / 8) + kMiB);
    free_all(blocks);
    EXPECT_LE(retained(), kMayBreathe + 3 * kMiB);
    set_option("retain_grace", "128M");
    set_option("background_thread", "2");
}

// What the grace has fallen by stays so when a new period begins.
TEST_F(Decay, WithoutABackgroundThreadTheGraceThatHasFallenDoesNotComeBack) {
    constexpr std::size_t kBlock = 256 * kKiB;
    constexpr std::size_t kInUse = 128 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    PointerArray blocks(kInUse / kBlock);
    allocate_all(blocks, kBlock);
    const std::size_t half = blocks.size() / 2;
    const auto free_some = [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; b++) {
            hak_free(blocks[b]);
            blocks[b] = nullptr;
        }
    };
    set_option("retain_grace", "64M");
    for (int i = 0; i < 20; i++) {
        free_some(0, half);
        for (std::size_t b = 0; b < half; b++) {
            blocks[b] = touched_block(kBlock);
        }
    }
    forget_the_first_breaths();
    free_some(0, half);
    const std::size_t kept = retained();
    EXPECT_GE(kept, kInUse / 8) << "there is no grace";
    set_option("decay_ms", "20"); // the next free begins a period
    std::this_thread::sleep_for(milliseconds(30));
    hak_free(hak_malloc(kBlock));
    set_option("decay_ms", "60000");
    free_some(half, half + half / 4);
    EXPECT_LE(retained(), kept);
    free_all(blocks);
    set_option("background_thread", "2");
}

// One block in each slab keeps it, but is not what it takes.
TEST_F(Decay, WithoutABackgroundThreadTheGraceIsOfWhatIsInUseAndNotOfSlabs) {
    constexpr std::size_t kSmall = 1000;
    constexpr std::size_t kLarge = 256 * kKiB;
    constexpr std::size_t kStays = 64;
    constexpr std::size_t kMayBreathe = 8 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    PointerArray small(64 * kMiB / kSmall);
    PointerArray large(64 * kMiB / kLarge);
    allocate_all(small, kSmall);
    allocate_all(large, kLarge);
    for (int i = 0; i < 10; i++) {
        free_all(large);
        allocate_all(large, kLarge);
    }
    forget_the_first_breaths();
    for (std::size_t b = 0; b < small.size(); b++) {
        if (b % kStays != 0) {
            hak_free(small[b]);
            small[b] = nullptr;
        }
    }
    free_all(large);
    EXPECT_LE(retained(), kMayBreathe + 3 * kMiB);
    free_all(small);
    set_option("background_thread", "2");
}

// Nothing but small blocks is freed, and no slab becomes free of them.
TEST_F(Decay, WithoutABackgroundThreadFreeSlabsGoWhenBlocksInOthersAreFreed) {
    constexpr std::size_t kSmall = 1000;
    constexpr std::size_t kLarge = 256 * kKiB;
    constexpr std::size_t kStays = 64;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    set_option("retain_grace", "0");
    PointerArray small(128 * kMiB / kSmall);
    PointerArray large(32 * kMiB / kLarge);
    allocate_all(small, kSmall);
    allocate_all(large, kLarge);
    free_all(large);
    ASSERT_GE(retained(), 10 * kMiB) << "12 % of what is in use";
    for (std::size_t b = 0; b < small.size(); b++) {
        if (b % kStays != 0) {
            hak_free(small[b]);
            small[b] = nullptr;
        }
    }
    EXPECT_LE(retained(), 4 * kMiB);
    free_all(small);
    set_option("background_thread", "2");
}

INSTANTIATE_TEST_SUITE_P(Sizes, DecayOfLane, testing::Values(16, 1024, 10'000, 300'000, 5'000'000),
                         testing::PrintToStringParamName());

// ---- What is in use stays as it is ------------------------------------------------------------------------

// Blocks of all sizes that know what they must hold. Some are kept much longer than others, so that what
// decays lies between blocks in use.
class Population {
  public:
    explicit Population(std::uint64_t stream) : random_(stream), blocks_(300) {
    }
    ~Population() {
        for (Block &block : blocks_) {
            release(block);
        }
    }
    Population(const Population &) = delete;
    Population &operator=(const Population &) = delete;

    // Two thirds of the blocks are freed, some MiB in one go: the rest lives on.
    void shrink() {
        for (Block &block : blocks_) {
            if (!random_.one_in(3)) {
                release(block);
            }
        }
    }

    void grow() {
        for (Block &block : blocks_) {
            if (block.at == nullptr) {
                make(block);
            }
        }
    }

    void check() const {
        for (const Block &block : blocks_) {
            ASSERT_TRUE(block.at == nullptr || pattern_intact(block.at, block.size, block.stamp))
                << block.size << " bytes at " << block.at;
        }
    }

  private:
    struct Block {
        void *at = nullptr;
        std::size_t size = 0;
        std::uint64_t stamp = 0;
    };

    void make(Block &block) {
        block.size = random_.one_in(20) ? kEdges[random_.below(kEdges.size())]
                                        : 1 + random_.log_uniform(random_.one_in(4) ? 19 : 13);
        block.stamp = random_.next();
        const bool zeroed = random_.one_in(3);
        block.at = zeroed ? hak_calloc(1, block.size) : hak_malloc(block.size);
        ASSERT_NE(block.at, nullptr) << block.size;
        ASSERT_TRUE(!zeroed || all_zero(block.at, block.size)) << block.size << " bytes from calloc";
        fill_pattern(block.at, block.size, block.stamp);
    }

    void release(Block &block) {
        if (block.at != nullptr) {
            EXPECT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
            hak_free(block.at);
            block.at = nullptr;
        }
    }

    Random random_;
    std::vector<Block> blocks_;
};

TEST_F(Decay, TouchesNoBlockInUse) {
    set_option("decay_ms", "20");
    const std::uint64_t purged_before = purged_bytes();
    run_threads(3, [](std::size_t number) {
        Population population(number);
        for (std::size_t round = 0; round < scaled(60) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(number * 20));
            population.check();
        }
    });
    EXPECT_GT(purged_bytes(), purged_before) << "nothing was given back: this has tested nothing";
}

TEST_F(Decay, TouchesNoBlockInUseWithoutABackgroundThread) {
    set_option("background_thread", "0");
    set_option("decay_ms", "5");
    run_threads(3, [](std::size_t number) {
        Population population(100 + number);
        for (std::size_t round = 0; round < scaled(60) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(number * 5));
            population.check();
        }
    });
}

TEST_F(Decay, WhatWasGivenBackReadsAsZeroInCalloc) {
    for (const std::size_t size : {std::size_t{300'000}, std::size_t{5'000'000}}) {
        PointerArray blocks(std::max<std::size_t>(12 * kMiB / size, 2));
        allocate_all(blocks, size); // full of 0xDB
        free_all(blocks);
        ASSERT_TRUE(happens([] { return retained() <= kMayStayRetained; })) << size;
        for (void *&block : blocks) {
            block = hak_calloc(1, size);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(all_zero(block, size)) << size;
        }
        free_all(blocks);
    }
}

// For ThreadSanitizer above all: nothing orders the allocator's thread but its own locks.
TEST_F(Decay, GoesOnBesideThreadsThatAllocateCollectAskAndSetOptions) {
    set_option("decay_ms", "0");
    std::atomic<int> busy{3};
    run_threads(5, [&](std::size_t number) {
        if (number >= 3) {
            Random random(number);
            for (unsigned i = 0; busy > 0; i++) {
                if (number == 3) {
                    hak_collect();
                } else {
                    set_option("retain_min", random.one_in(2) ? "0" : "4M");
                    set_option("retain_grace", random.one_in(2) ? "0" : "16M");
                    set_option("background_thread", i % 8 == 0 ? "0" : "2");
                    retained();
                }
                std::this_thread::sleep_for(milliseconds(1));
            }
            return;
        }
        Population population(200 + number);
        for (std::size_t round = 0; round < scaled(300) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            population.check();
        }
        busy--;
    });
}

// ---- Threads in great numbers -----------------------------------------------------------------------------

#if !HAKMEM_TEST_SANITIZED
TEST_F(Decay, LeavesLittleOfThreadsThatWereManyAtOnce) {
    constexpr std::size_t kManyThreads = 1000;
    constexpr std::size_t kOfAThread = 8 * kKiB;
    const ResidentMeter meter;
    Meeting meeting(kManyThreads);
    std::vector<std::thread> threads;
    threads.reserve(kManyThreads);
    for (std::size_t i = 0; i < kManyThreads; i++) {
        threads.emplace_back([&meeting] {
            PointerArray blocks(40);
            for (std::size_t b = 0; b < 40; b++) {
                blocks[b] = touched_block(16 + b * 25);
            }
            meeting.meet();
            free_all(blocks);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const auto may_stay = static_cast<std::ptrdiff_t>(kMayStay + kManyThreads * kOfAThread);
    EXPECT_TRUE(happens([&] { return meter.growth() <= may_stay; }))
        << meter.growth() << " bytes over the start stay resident";
}

std::size_t metadata() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.metadata_bytes;
}

TEST_F(Decay, LeavesLittleOfThreadsThatOnlyFreeAndWereManyAtOnce) {
    constexpr std::size_t kManyThreads = 300;
    constexpr std::size_t kOfAThread = 8 * kKiB;
    constexpr std::size_t kOfEach = 200; // a few make no heap
    PointerArray blocks(kManyThreads * kOfEach);
    for (std::size_t b = 0; b < blocks.size(); b++) {
        blocks[b] = touched_block(16 + b % kOfEach * 4);
    }
    const std::size_t before = metadata();
    Meeting meeting(kManyThreads);
    run_threads(kManyThreads, [&](std::size_t thread) {
        for (std::size_t b = 0; b < kOfEach; b++) {
            hak_free(blocks[thread * kOfEach + b]);
        }
        meeting.meet();
    });
    EXPECT_TRUE(happens([before] { return metadata() <= before + kMiB + kManyThreads * kOfAThread; }))
        << metadata() - before << " bytes of metadata stay";
}
#endif

// ---- The kernel refuses -----------------------------------------------------------------------------------

TEST_F(Decay, LosesNothingWhileTheKernelTakesNothingBack) {
    set_option("decay_ms", "10");
    const ResidentMeter meter;
    {
        Population population(1);
        for (std::size_t round = 0; round < scaled(40) && !HasFailure(); round++) {
            os_fault_set(OS_FAULT_PURGE, 0, -1);
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(15));
            population.check();
            if (round % 2 == 0) {
                os_fault_set(OS_FAULT_PURGE, static_cast<long>(round % 5), 3); // now this call, now that
            }
            std::this_thread::sleep_for(milliseconds(15));
        }
        os_fault_set(OS_FAULT_PURGE, 0, -1);
    }
    std::this_thread::sleep_for(milliseconds(50)); // the thread tries, and fails
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    expect_memory_to_come_back(meter, "once the kernel takes it");
}

// ---- A program that breathes ------------------------------------------------------------------------------

#if !HAKMEM_TEST_SANITIZED
// A program without threads that does nothing but take as much again and again keeps up to 32 MiB of it, and
// no more.
class LongBreath : public Decay, public testing::WithParamInterface<std::size_t> {};

TEST_P(LongBreath, TakesFewFaultsAndNoMoreThanMayStay) {
    constexpr std::size_t kMayStay = 32 * kMiB;
    constexpr std::size_t kRounds = 100;
    const std::size_t bytes = GetParam() * kMiB;
    set_option("background_thread", "0");
    for (const std::size_t size : {bytes, kMiB, std::size_t{130'000}}) {
        PointerArray blocks(bytes / size);
        const auto breathe = [&](std::size_t rounds) {
            for (std::size_t i = 0; i < rounds; i++) {
                allocate_all(blocks, size);
                free_all(blocks);
            }
        };
        breathe(10);
        const std::size_t before = faults_so_far();
        breathe(kRounds);
        if (bytes <= kMayStay) {
            EXPECT_LE(faults_so_far() - before, bytes / 4096 * kRounds / 10) << "in blocks of " << size;
        }
        EXPECT_LE(retained(), kMayStay + 3 * kMiB) << "in blocks of " << size;
    }
    set_option("background_thread", "2");
}

INSTANTIATE_TEST_SUITE_P(MiB, LongBreath, testing::Values(12, 20, 30, 100),
                         testing::PrintToStringParamName());

// Allocates and frees the same 8 MiB every few milliseconds.
class Breath : public testing::TestWithParam<std::size_t> {
  protected:
    static constexpr std::size_t kBytes = 8 * kMiB;
    static constexpr std::size_t kPages = kBytes / 4096;
    static constexpr int kRoundsToLearn = 20;
    static constexpr int kRounds = 200;

    static void breathe(int rounds) {
        PointerArray blocks(std::max<std::size_t>(kBytes / GetParam(), 1));
        for (int i = 0; i < rounds; i++) {
            allocate_all(blocks, GetParam());
            free_all(blocks);
            std::this_thread::sleep_for(milliseconds(3));
        }
    }
};

TEST_P(Breath, TakesFewFaultsOfAProgramThatUsesMore) {
    PointerArray rest(32);
    allocate_all(rest, kMiB);
    breathe(kRoundsToLearn);
    const std::size_t before = faults_so_far();
    breathe(kRounds);
    EXPECT_LE(faults_so_far() - before, kPages * kRounds / 20) << "of " << kPages * kRounds << " pages used";
    free_all(rest);
}

// Between two breaths nothing at all is in use.
TEST_P(Breath, TakesFewFaultsOfAProgramThatUsesNothingElse) {
    breathe(kRoundsToLearn);
    const std::size_t before = faults_so_far();
    breathe(kRounds);
    EXPECT_LE(faults_so_far() - before, kPages * kRounds / 20) << "of " << kPages * kRounds << " pages used";
}

// However much it breathes, where the library's own thread gives back what is left when the program stops.
TEST_P(Breath, TakesFewFaultsOfAProgramWithThreadsThatBreathesMore) {
    constexpr std::size_t kTimes = 4;
    std::thread([] {
        std::vector<std::thread> threads;
        const auto breathe_together = [&](int rounds) {
            for (std::size_t i = 0; i < kTimes; i++) {
                threads.emplace_back([=] { breathe(rounds); });
            }
            for (std::thread &thread : threads) {
                thread.join();
            }
            threads.clear();
        };
        breathe_together(kRoundsToLearn);
        const std::size_t before = faults_so_far();
        breathe_together(kRounds);
        EXPECT_LE(faults_so_far() - before, kTimes * kPages * kRounds / 20)
            << "of " << kTimes * kPages * kRounds << " pages used";
    }).join();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Breath, testing::Values(16, 1024, 10'000, 300'000, 2'000'000, 8'000'000),
                         testing::PrintToStringParamName());
#endif

// ---- The thread -------------------------------------------------------------------------------------------

#if !HAKMEM_TEST_SANITIZED
class DecayThread : public Decay {};

TEST_F(DecayThread, IsNotThereForLittle) {
    use_and_free(256 * kKiB);
    EXPECT_EQ(thread_count(), 1u);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(thread_count(), 1u);
}

TEST_F(DecayThread, IsNotThereInAProgramThatHasNoOthersUnlessAskedFor) {
    set_option("background_thread", "1");
    use_and_free(8 * kMiB);
    EXPECT_EQ(thread_count(), 1u);
    std::thread([] {}).join();
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
}

TEST_F(DecayThread, ComesForMuchAndIsGoneWhenNothingIsLeftAndComesAgain) {
    set_option("decay_ms", "300");
    for (int round = 0; round < 3; round++) {
        use_and_free(8 * kMiB);
        EXPECT_TRUE(happens([] { return own_threads().size() == 1; })) << "in round " << round;
        EXPECT_TRUE(happens([] { return thread_count() == 1; })) << "in round " << round;
        EXPECT_LE(retained(), kMayStayRetained);
    }
}

TEST_F(DecayThread, IsOneHoweverManyThreadsFree) {
    set_option("decay_ms", "5");
    std::atomic<int> busy{4};
    std::size_t most = 0;
    run_threads(5, [&](std::size_t number) {
        if (number > 0) {
            for (int i = 0; i < 200; i++) {
                use_and_free(2 * kMiB);
                std::this_thread::sleep_for(milliseconds(2 * number));
            }
            busy--;
            return;
        }
        while (busy > 0) {
            most = std::max(most, own_threads().size());
        }
    });
    // One that is about to be gone may still be seen beside the next.
    EXPECT_GE(most, 1u);
    EXPECT_LE(most, 2u);
}

std::atomic<int> handled;
std::atomic<long> handled_by;

void handler(int) {
    handled_by = syscall(SYS_gettid);
    handled++;
}

std::uint64_t blocked_signals_of(const std::string &task) {
    std::ifstream status("/proc/self/task/" + task + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("SigBlk:", 0) == 0) {
            return std::strtoull(line.c_str() + 7, nullptr, 16);
        }
    }
    return 0;
}

TEST_F(DecayThread, IsInvisibleToSignals) {
    set_option("decay_ms", "3000");
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = handler;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    sigset_t all;
    sigset_t own_mask;
    sigfillset(&all);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, &own_mask), 0);
    use_and_free(8 * kMiB);
    ASSERT_TRUE(happens([] { return own_threads().size() == 1; }));

    constexpr std::uint64_t kCannotBeBlocked = std::uint64_t{1} << (SIGKILL - 1) | std::uint64_t{1}
                                                                                       << (SIGSTOP - 1);
    EXPECT_EQ(blocked_signals_of(own_threads().at(0)) | kCannotBeBlocked, ~std::uint64_t{0});

    // Everyone else blocks it: it must wait, for as long as the program likes.
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
    }
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(handled, 0) << "by " << handled_by;
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &own_mask, nullptr), 0);
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(handled_by, syscall(SYS_gettid));
    ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(DecayThread, LeavesTheMaskOfTheThreadThatStartsItAsItWas) {
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigaddset(&some, SIGTERM);
    sigset_t original;
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &some, &original), 0);
    errno = 4711;
    use_and_free(8 * kMiB);
    EXPECT_EQ(errno, 4711);
    sigset_t now;
    ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &original, &now), 0);
    for (int number = 1; number < SIGRTMAX; number++) {
        EXPECT_EQ(sigismember(&now, number), sigismember(&some, number)) << "signal " << number;
    }
}
#endif

// ---- fork -------------------------------------------------------------------------------------------------

// A child of a sanitized program must start no thread, and does not report through gtest: see fork_test.cpp.
#if !HAKMEM_TEST_SANITIZED
enum ChildCode { kFine = 0, kNoMemory = 1, kDamaged = 2, kNotGivenBack = 3, kNoThread = 4 };

template <typename Body>
void expect_child_to_succeed(Body body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0) << std::strerror(errno);
    if (child == 0) {
        _exit(body());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), kFine);
}

int use_in_child(bool wait_for_memory) {
    // A run that another thread was giving back when the process forked is nobody's in the child.
    std::size_t lost = 0;
    if (wait_for_memory) {
        hak_collect();
        lost = retained();
    }
    std::array<void *, 12> blocks{};
    for (std::size_t i = 0; i < blocks.size(); i++) {
        const std::size_t size = 300'000 + i * 1000;
        blocks[i] = hak_malloc(size);
        if (blocks[i] == nullptr) {
            return kNoMemory;
        }
        fill_pattern(blocks[i], size, i);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (!pattern_intact(blocks[i], 300'000 + i * 1000, i)) {
            return kDamaged;
        }
        hak_free(blocks[i]);
    }
    const auto given_back = [lost] { return retained() <= lost + kMayStayRetained; };
    return !wait_for_memory || happens(given_back) ? kFine : kNotGivenBack;
}

class DecayAfterFork : public Decay {
  protected:
    static void expect_memory_to_come_back_in_a_raw_child();
};

// What a program may keep that uses nothing and has nobody to give it back: RETAIN_MIN, and of the grace 8
// MiB.
constexpr std::size_t kMayStayWithoutThread = 12 * kMiB;

// Keeps up to 64 MiB, because it takes them again and again.
void breathe_deeply() {
    for (int i = 0; i < 20; i++) {
        use_and_free(64 * kMiB);
    }
}

TEST_F(DecayAfterFork, AChildDoesNotInheritWhatItsParentBreathes) {
    set_option("decay_ms", "5000");
    breathe_deeply();
    EXPECT_GT(retained(), kMayStayWithoutThread); // or this tests nothing
    expect_child_to_succeed([] { return retained() <= kMayStayWithoutThread ? kFine : kNotGivenBack; });
}

TEST_F(DecayAfterFork, WhatWasBreathedGoesWithTheThreadThatLooksAfterIt) {
    expect_child_to_succeed([] {
        breathe_deeply();
        // From now on the thread may not do what the program may.
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
            return kFine;
        }
        return happens([] { return retained() <= kMayStayWithoutThread; }) ? kFine : kNotGivenBack;
    });
}

TEST_F(DecayAfterFork, AChildGivesItsMemoryBackToo) {
    for (const bool parent_has_thread : {false, true}) {
        if (parent_has_thread) {
            set_option("decay_ms", "2000");
            use_and_free(8 * kMiB);
        }
        expect_child_to_succeed([] {
            hak_option_set("decay_ms", "100");
            return use_in_child(true);
        });
    }
}

TEST_F(DecayAfterFork, AGrandchildGivesItsMemoryBackToo) {
    use_and_free(8 * kMiB);
    expect_child_to_succeed([] {
        const int code = use_in_child(false);
        if (code != kFine) {
            return code;
        }
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(use_in_child(true));
        }
        int status = 0;
        waitpid(grandchild, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    });
}

TEST_F(DecayAfterFork, AChildHasNoThreadUntilItNeedsOneAndThenItsOwn) {
    set_option("decay_ms", "2000");
    use_and_free(8 * kMiB);
    ASSERT_TRUE(happens([] { return own_threads().size() == 1; }));
    expect_child_to_succeed([] {
        if (thread_count() != 1) {
            return static_cast<int>(kNoThread);
        }
        use_and_free(8 * kMiB);
        if (!happens([] { return own_threads().size() == 1; })) {
            return static_cast<int>(kNoThread);
        }
        hak_option_set("decay_ms", "10");
        return happens([] { return thread_count() == 1; }) ? static_cast<int>(kFine) : kNotGivenBack;
    });
}

TEST_F(DecayAfterFork, AChildOfAParentThatHasNoneGetsItsOwnToo) {
    expect_child_to_succeed([] {
        hak_option_set("decay_ms", "2000");
        use_and_free(8 * kMiB);
        return happens([] { return own_threads().size() == 1; }) ? kFine : kNoThread;
    });
}

// As vfork makes it, but on a stack of its own: in the parent's memory, while the caller waits. Returns its
// exit status.
int run_child_in_the_same_memory(int (*body)(void *)) {
    std::vector<char> stack(256 * kKiB);
    const pid_t child = clone(body, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child) << std::strerror(errno);
    return status;
}

TEST_F(DecayAfterFork, AChildInTheSameMemoryDoesNotStartTheThreadThatWouldEndWithIt) {
    set_option("decay_ms", "2000");
    const int status = run_child_in_the_same_memory([](void *) {
        use_and_free(8 * kMiB);
        _exit(static_cast<int>(thread_count()) - 1); // and its threads with it, which a return would not do
        return 0;
    });
    EXPECT_EQ(status, 0) << "another thread has been started in the child";
    EXPECT_EQ(thread_count(), 1u);
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; })) << "the parent may start it";
}

// Whether what the process has freed goes back while it goes on to free a little now and then.
bool memory_comes_back_in_passing() {
    hak_option_set("decay_ms", "20");
    use_and_free(32 * kMiB);
    return happens([] {
        hak_free(touched_block(70'000));
        return retained() <= kMayStay;
    });
}

// A child that libc does not know of, which has copied the parent's memory: nothing has told the library.
// Here the parent's thread is asleep.
void DecayAfterFork::expect_memory_to_come_back_in_a_raw_child() {
    ASSERT_TRUE(happens([] { return own_threads().size() == 1; }));
    std::this_thread::sleep_for(milliseconds(50));
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    ASSERT_GE(child, 0) << std::strerror(errno);
    if (child == 0) {
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        const bool alone = thread_count() == 1;
        const bool comes_back = memory_comes_back_in_passing();
        _exit(!comes_back ? kNotGivenBack : alone && thread_count() == 1 ? kFine : kNoThread);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, kFine << 8);
}

TEST_F(DecayAfterFork, AChildThatWasNotMadeByForkGivesItsMemoryBackInPassing) {
    set_option("retain_min", "1G"); // only time gives memory back
    set_option("decay_ms", "1000");
    use_and_free(8 * kMiB);
    expect_memory_to_come_back_in_a_raw_child(); // the thread is in its first sleep
}

TEST_F(DecayAfterFork, AChildThatWasNotMadeByForkDoesSoAlsoLaterInTheLifeOfTheThread) {
    set_option("retain_min", "1G");
    set_option("decay_ms", "100");
    os_fault_set(OS_FAULT_PURGE, 0, -1); // so that it stays
    use_and_free(8 * kMiB);
    std::this_thread::sleep_for(milliseconds(250));
    expect_memory_to_come_back_in_a_raw_child();
    os_fault_set(OS_FAULT_PURGE, 0, 0);
}

TEST_F(DecayAfterFork, InTheMiddleOfDecayNothingIsLost) {
    set_option("decay_ms", "0");
    std::atomic<bool> stop{false};
    std::thread hammer([&] {
        Population population(7);
        while (!stop && !HasFailure()) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(1));
        }
    });
    for (std::size_t i = 0; i < scaled(400) && !HasFatalFailure(); i++) {
        // What the parent's threads held for the moment belongs to nobody in the child, which therefore
        // counts from where it starts.
        expect_child_to_succeed([i] { return use_in_child(i % 8 == 0); });
    }
    stop = true;
    hammer.join();
}
#endif

// ---- Containers -------------------------------------------------------------------------------------------

// A container made of files, in which the process is the only one.
class Container {
  public:
    Container() {
        std::string name = (std::filesystem::temp_directory_path() / "hakmem-container-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) {
            std::perror("mkdtemp");
            std::abort();
        }
        root_ = name;
        file("/proc/self/cgroup", "0::/\n");
        file("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        file(kGroup + "/memory.current", std::to_string(kUsed) + "\n");
        limit(0);
        cgroup_set_root(root_.c_str());
    }
    ~Container() {
        std::filesystem::remove_all(root_);
    }
    Container(const Container &) = delete;
    Container &operator=(const Container &) = delete;

    void limit(std::size_t bytes) const {
        file(kGroup + "/memory.max", bytes == 0 ? "max\n" : std::to_string(bytes) + "\n");
    }

    static constexpr std::size_t kUsed = 1000 * kMiB;

  private:
    const std::string kGroup = "/sys/fs/cgroup";

    void file(const std::string &path, const std::string &contents) const {
        const std::filesystem::path full = root_ + path;
        std::filesystem::create_directories(full.parent_path());
        std::ofstream(full.string() + ".new") << contents;
        std::filesystem::rename(full.string() + ".new", full);
    }

    std::string root_;
};

// Frees 2 MiB, which may stay as a rule, and says how much does.
std::size_t retained_after_breath() {
    use_and_free(2 * kMiB);
    const std::size_t stays = retained();
    std::this_thread::sleep_for(milliseconds(5));
    return stays;
}

void retain_less_in_a_full_container(const char *background_thread, bool idle_meanwhile) {
    const Container container; // before anything has looked at the real one
    set_option("background_thread", background_thread);
    set_option("decay_ms", "200");
    EXPECT_GE(retained_after_breath(), 2 * kMiB);

    container.limit(Container::kUsed + 10 * kMiB);
    EXPECT_TRUE(happens([] { return retained_after_breath() <= kMiB; })) << "near the limit";

    if (idle_meanwhile) {
        EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }));
#if !HAKMEM_TEST_SANITIZED
        EXPECT_TRUE(happens([] { return thread_count() == 1; })); // nobody looks any more
#endif
    }
    container.limit(4 * Container::kUsed);
    EXPECT_TRUE(happens([] { return retained_after_breath() >= 2 * kMiB; })) << "with plenty of room again";
}

// In a process of its own, which has not looked at its real container yet.
void expect_right_in_a_container(const char *background_thread, bool idle_meanwhile) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto judged = [&] {
        retain_less_in_a_full_container(background_thread, idle_meanwhile);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    };
    EXPECT_EXIT(judged(), testing::ExitedWithCode(0), "");
}

TEST(DecayInAContainer, NearItsLimitLessStaysAndAfterwardsMoreAgain) {
    expect_right_in_a_container("2", false);
}

TEST(DecayInAContainer, AProgramThatWasIdleMeanwhileLearnsThatThereIsRoomAgain) {
    expect_right_in_a_container("2", true);
}

TEST(DecayInAContainer, WithoutABackgroundThreadToo) {
    expect_right_in_a_container("1", false);
}

} // namespace
