// Counters: each stage counts what its name says, and they only grow, whoever reads while threads run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

extern "C" {
void registry_lock();
void registry_unlock();
std::uint64_t lock_waits();
}

namespace {

using hakmem_test::counter;
using hakmem_test::happens;
using hakmem_test::number_in;
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::statistics_json;
using hakmem_test::stats_now;

// By how much a counter grows meanwhile.
std::uint64_t growth(const std::string &name, const std::function<void()> &work) {
    const std::uint64_t before = counter(name);
    work();
    return counter(name) - before;
}

std::uint64_t sum_of_batches(const std::string &json, const std::string &name) {
    const std::size_t begin = json.find("\"" + name + "\":[");
    EXPECT_NE(begin, std::string::npos) << json;
    std::uint64_t sum = 0;
    const char *at = json.c_str() + begin + name.size() + 3;
    do {
        char *end = nullptr;
        sum += std::strtoull(at + 1, &end, 10);
        at = end;
    } while (*at == ',');
    return sum;
}

void allocate_and_free(std::size_t size, std::size_t count) {
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < count; i++) {
        blocks.push_back(hak_malloc(size));
    }
    for (void *block : blocks) {
        hak_free(block);
    }
}

std::uint64_t refills_by_source(const std::string &json) {
    std::uint64_t sum =
        number_in(json, "counters", "refills_parcels") + number_in(json, "counters", "refills_stock");
    for (const char *source : {"current", "partial", "inbox", "adopted", "fresh"}) {
        sum += number_in(json, "counters", "refills_" + std::string(source) + "_slab");
    }
    return sum;
}

TEST(Counters, EachRefillHasOneSourceAndOneBatch) {
    hak_stats_reset();
    allocate_and_free(48, 5'000);
    allocate_and_free(48, 5'000);
    allocate_and_free(2'000, 3'000);
    run_in_thread([] { allocate_and_free(48, 1'000); });
    run_in_thread([] { allocate_and_free(48, 1'000); });
    const std::string json = statistics_json();
    const std::uint64_t refills = number_in(json, "counters", "refills");
    EXPECT_GT(number_in(json, "counters", "refills_stock"), 0u) << json;
    EXPECT_GT(refills, 0u);
    EXPECT_EQ(refills_by_source(json), refills) << json;
    EXPECT_EQ(sum_of_batches(json, "refill"), refills) << json;
    EXPECT_GE(number_in(json, "counters", "refilled_blocks"), refills);
}

// What is taken up and then gives no block is no source.
TEST(Counters, EachRefillHasOneSourceWhereOthersFreeMeanwhile) {
    hak_stats_reset();
    run_threads(3, [](std::size_t thread) {
        Random random(thread + 1);
        std::vector<void *> blocks(3000);
        for (std::size_t i = 0; i < scaled(200'000); i++) {
            void *&block = blocks[random.below(blocks.size())];
            hak_free(block);
            block = hak_malloc(random.below(random.below(8) > 0 ? 600 : 40'000));
        }
        for (void *block : blocks) {
            hak_free(block);
        }
    });
    const std::string json = statistics_json();
    EXPECT_EQ(refills_by_source(json), number_in(json, "counters", "refills")) << json;
}

TEST(Counters, EachFlushHasOneCauseAndOneBatch) {
    hak_stats_reset();
    allocate_and_free(48, 20'000);
    run_in_thread([] { allocate_and_free(96, 100); });
    hak_tiny_magazine_flush_all();
    const std::string json = statistics_json();
    const std::uint64_t full = number_in(json, "counters", "flushes_magazine_full");
    const std::uint64_t exits = number_in(json, "counters", "flushes_thread_exit");
    const std::uint64_t asked = number_in(json, "counters", "flushes_api");
    EXPECT_GT(full, 0u) << json;
    EXPECT_GT(exits, 0u) << json;
    EXPECT_GT(asked, 0u) << json;
    const std::uint64_t stocked = number_in(json, "counters", "flushes_stocked");
    EXPECT_GT(stocked, 0u) << json;
    EXPECT_LE(stocked, full) << json;
    EXPECT_GT(number_in(json, "counters", "stock_returned_blocks"), 0u) << json;
    const std::uint64_t flushes = number_in(json, "counters", "flushes");
    const std::uint64_t idle = number_in(json, "counters", "flushes_idle");
    EXPECT_EQ(full + exits + asked + idle + number_in(json, "counters", "flushes_reclaim"), flushes) << json;
    EXPECT_EQ(sum_of_batches(json, "flush"), flushes) << json;
}

TEST(Counters, EachWayOfAFreeIsCounted) {
    EXPECT_EQ(growth("large_frees", [] { hak_free(hak_malloc(100'000)); }), 1u);
    EXPECT_EQ(growth("huge_frees", [] { hak_free(hak_malloc(10'000'000)); }), 1u);
    std::vector<void *> blocks(777);
    for (void *&block : blocks) {
        block = hak_malloc(80);
    }
    EXPECT_EQ(growth("remote_freed_blocks",
                     [&] {
                         run_in_thread([&] {
                             for (void *block : blocks) {
                                 hak_free(block);
                             }
                         });
                     }),
              blocks.size());
}

TEST(Counters, FreesOfAThreadThatAForkLostCountInTheChild) {
    hak_option_set("reclaim", "0"); // this thread waits, and shall keep its heap
    std::vector<void *> blocks(100);
    for (void *&block : blocks) {
        block = hak_malloc(80);
    }
    const std::uint64_t before = counter("remote_freed_blocks");
    std::promise<void> freed;
    std::promise<void> end;
    std::thread other([&] {
        for (void *block : blocks) {
            hak_free(block);
        }
        freed.set_value();
        end.get_future().wait();
    });
    freed.get_future().wait();
    const pid_t child = fork();
    if (child == 0) {
        const hak_stats_t stats = stats_now();
        _exit(stats.remote_frees - before == blocks.size() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    end.set_value();
    other.join();
    hak_option_set("reclaim", "1");
}

// From 1 KiB on, as far as its magazines have room; the room comes with its own allocations.
TEST(Counters, BlocksThatAThreadKeepsOfThoseOfOthersAreCounted) {
    for (const std::size_t size :
         {std::size_t{80}, std::size_t{1024}, std::size_t{1025}, std::size_t{5000}}) {
        std::vector<void *> blocks(6);
        for (void *&block : blocks) {
            block = hak_malloc(size);
        }
        const auto free_all = [&] {
            run_in_thread([&] {
                hak_free(hak_malloc(size));
                for (void *block : blocks) {
                    hak_free(block);
                }
            });
        };
        EXPECT_EQ(growth("remote_kept_blocks", free_all), size > 1024 ? blocks.size() : 0) << size;
    }
}

// Most sizes of most threads are wanted a few times only: what lies ready for more is a thread's each.
TEST(Counters, AFirstRefillBringsLittle) {
    for (const std::size_t size :
         {std::size_t{640}, std::size_t{2'500}, std::size_t{10'000}, std::size_t{30'000}}) {
        const auto allocate = [size] { hak_free(hak_malloc(size)); };
        EXPECT_LE(growth("refilled_blocks", allocate), std::max<std::size_t>(8192 / size, 1)) << size;
    }
}

// And many come at once where many are wanted, whatever they take.
TEST(Counters, GrowthTakesFewRefills) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{2'500}, std::size_t{8'000}}) {
        std::vector<void *> blocks(1'000);
        EXPECT_LT(growth("refills",
                         [&] {
                             for (void *&block : blocks) {
                                 block = hak_malloc(size);
                             }
                         }),
                  blocks.size() / 4)
            << size;
        for (void *block : blocks) {
            hak_free(block);
        }
    }
}

class Parcels : public testing::TestWithParam<std::size_t> {};

TEST_P(Parcels, BringBackWhatAnotherThreadFreed) {
    std::vector<void *> blocks(2'000);
    const auto allocate_all = [&] {
        for (void *&block : blocks) {
            block = hak_malloc(GetParam());
        }
    };
    const auto free_all_elsewhere = [&] {
        run_in_thread([&] {
            for (void *block : blocks) {
                hak_free(block);
            }
        });
    };
    // Until the magazine has its room, and the background thread is there, which the first frees asked for.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int round = 0;
         round < 5 || (counter("remote_parcels") == 0 && std::chrono::steady_clock::now() < patience);
         round++) {
        allocate_all();
        free_all_elsewhere();
    }
    allocate_all();
    const bool small = GetParam() <= 1024; // of larger ones, four parcels are as many bytes as may be
    EXPECT_GT(growth("remote_parcels", free_all_elsewhere), small ? 4u : 2u);
    // And lie there until the magazine has room for them, instead of going to their slabs.
    EXPECT_GT(growth("refills_parcels", allocate_all), small ? 2u : 1u);
    free_all_elsewhere();
}

// Of the larger ones a buffer has 13, of the largest 4.
INSTANTIATE_TEST_SUITE_P(Of, Parcels, testing::Values(200, 20'000, 60'000),
                         testing::PrintToStringParamName());

// Where no thread looks after parcels, there are none.
TEST(Counters, BlocksThatAnotherThreadFreedComeBackThroughTheInbox) {
    hak_option_set("background_thread", "0");
    EXPECT_GT(growth("refills_inbox_slab",
                     [] {
                         for (int round = 0; round < 5; round++) {
                             std::vector<void *> blocks(300);
                             for (void *&block : blocks) {
                                 block = hak_malloc(10'000);
                             }
                             // Not all of them: a slab that is wholly free is given back.
                             run_in_thread([&] {
                                 for (std::size_t i = 0; i < blocks.size(); i += 2) {
                                     hak_free(blocks[i]);
                                 }
                             });
                             allocate_and_free(10'000, 300);
                             for (std::size_t i = 1; i < blocks.size(); i += 2) {
                                 hak_free(blocks[i]);
                             }
                         }
                     }),
              0u);
    hak_option_set("background_thread", "1");
}

TEST(Counters, SlabsOfEndedThreadsAreAdopted) {
    hak_free(hak_malloc(1)); // so that this thread has a heap and does not get that of the other one
    std::vector<void *> blocks;
    run_in_thread([&] {
        for (int i = 0; i < 2'000; i++) {
            blocks.push_back(hak_malloc(3'500));
        }
    });
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        hak_free(blocks[i]);
    }
    hak_tiny_magazine_flush_all();
    EXPECT_GT(growth("refills_adopted_slab", [] { allocate_and_free(3'500, 500); }), 0u);
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        hak_free(blocks[i]);
    }
}

TEST(Counters, SlabsAreCreatedOpenedRecycledAndReleased) {
    hak_collect();
    EXPECT_GT(growth("slabs_created", [] { allocate_and_free(1'000, 1'000); }), 0u);
    EXPECT_GT(growth("slabs_recycled",
                     [] {
                         allocate_and_free(1'000, 1'000);
                         hak_tiny_magazine_flush_all();
                         allocate_and_free(500, 2'000);
                     }),
              0u);
    EXPECT_GT(growth("slabs_released", [] { hak_collect(); }), 0u);
    EXPECT_GT(growth("superslabs_opened", [] { hak_free(hak_malloc(50'000'000)); }), 0u);
}

TEST(Counters, MagazinesThatGrowAreCounted) {
    run_in_thread([] { // which may have got an ended thread's, of other sizes
        EXPECT_GT(growth("magazine_growths", [] { allocate_and_free(112, 5'000); }), 0u);
    });
}

TEST(Counters, WaitsForAnotherLockThanTheArenasAreCounted) {
    const std::uint64_t before = lock_waits();
    EXPECT_GE(growth("other_lock_waits",
                     [before] {
                         registry_lock();
                         std::thread other([] { hak_free(hak_malloc(1)); }); // it needs a heap
                         EXPECT_TRUE(happens([before] { return lock_waits() > before; }));
                         registry_unlock();
                         other.join();
                     }),
              1u);
}

TEST(Counters, AddressSpaceForABlockThatIsLargerThanAllThereWasIsCounted) {
    hak_free(hak_malloc(1)); // the first region, if there is none yet
    EXPECT_EQ(growth("regions_created", [] { hak_free(hak_malloc(std::size_t{1} << 34)); }), 1u);
}

TEST(Counters, WhatIsGivenBackBecauseItLiesIdleIsCounted) {
    hak_option_set("decay_ms", "20");
    hak_option_set("background_thread", "2");
    const std::uint64_t purged = counter("purged_bytes");
    const std::uint64_t decayed = counter("decayed_bytes");
    std::vector<void *> blocks(4); // together less than may stay
    for (void *&block : blocks) {
        block = hak_malloc(500'000);
        std::memset(block, 1, 500'000);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    EXPECT_TRUE(happens([&] { return counter("decayed_bytes") > decayed; }));
    EXPECT_GE(counter("purged_bytes") - purged, counter("decayed_bytes") - decayed);
    hak_option_set("background_thread", "1");
    hak_option_set("decay_ms", "500");
}

TEST(Counters, AResetMakesThemBeginAtZero) {
    allocate_and_free(64, 10'000);
    hak_free(hak_malloc(200'000));
    ASSERT_GT(counter("refills"), 0u);
    hak_stats_reset();
    const std::string json = statistics_json();
    EXPECT_EQ(number_in(json, "counters", "refills"), 0u) << json;
    EXPECT_EQ(number_in(json, "counters", "large_allocs"), 0u) << json;
    EXPECT_EQ(sum_of_batches(json, "refill"), 0u) << json;
    const hak_stats_t stats = stats_now();
    EXPECT_EQ(stats.large_allocs, 0u);
    hak_free(hak_malloc(200'000));
    EXPECT_EQ(counter("large_allocs"), 1u);
}

TEST(Counters, NeverGoBackForAReaderWhileEightThreadsAllocate) {
    constexpr std::size_t kThreads = 8;
    std::atomic<bool> stop{false};
    std::array<std::atomic<void *>, 64> exchanged{};
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < kThreads; number++) {
        threads.emplace_back([&stop, &exchanged, number] {
            Random random(number);
            std::vector<void *> blocks(100, nullptr);
            while (!stop.load(std::memory_order_relaxed)) {
                for (int i = 0; i < 500; i++) {
                    void *&block = blocks[random.below(blocks.size())];
                    hak_free(exchanged[random.below(exchanged.size())].exchange(block));
                    block = hak_malloc(random.log_uniform(random.one_in(500) ? 19 : 12));
                }
                // The reader shall come to its reads on a machine with few processors, too.
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            for (void *block : blocks) {
                hak_free(block);
            }
        });
    }
    hak_stats_t before = stats_now();
    // And on until the threads have begun: on a busy machine the reader may be through before.
    for (std::size_t i = 0; i < scaled(5000) || before.remote_frees == 0; i++) {
        const hak_stats_t now = stats_now();
        ASSERT_GE(now.refills, before.refills) << i;
        ASSERT_GE(now.refilled_blocks, before.refilled_blocks) << i;
        ASSERT_GE(now.flushed_blocks, before.flushed_blocks) << i;
        ASSERT_GE(now.remote_frees, before.remote_frees) << i;
        ASSERT_GE(now.slabs_created, before.slabs_created) << i;
        ASSERT_GE(now.large_allocs, before.large_allocs) << i;
        ASSERT_GE(now.large_frees, before.large_frees) << i;
        ASSERT_GE(now.purged_bytes, before.purged_bytes) << i;
        ASSERT_GE(now.system_calls, before.system_calls) << i;
        before = now;
    }
    stop.store(true, std::memory_order_relaxed);
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_GT(before.remote_frees, 0u);
    for (const std::atomic<void *> &block : exchanged) {
        hak_free(block.load());
    }
}

TEST(StatsJson, SaysHowLongItIsAndNeverWritesMore) {
    const std::size_t length = hak_stats_json(nullptr, 0);
    EXPECT_GT(length, 500u);
    std::string text(length * 2, '#');
    hak_stats_json(&text[0], 100);
    EXPECT_EQ(text[99], '\0');
    EXPECT_EQ(text[100], '#');
    EXPECT_EQ(std::strlen(text.c_str()), 99u);
}

} // namespace
