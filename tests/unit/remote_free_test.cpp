// Blocks that are freed by other threads than their owner, who may sleep or be gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

extern "C" unsigned hakmem_test_words_counted_by_a_late_free(std::size_t was_bytes, std::size_t is_bytes);
extern "C" bool hakmem_test_slab_goes_with_a_late_free(std::size_t size);
extern "C" bool hakmem_test_late_parcel_goes_back(std::size_t size);
extern "C" bool decay_is_on(); // arena/decay.h, which only C can read

namespace {

using hakmem_test::fill_pattern;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::pattern_intact;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::shuffle;
using hakmem_test::stats_at_rest;
using hakmem_test::stats_now;

struct Item {
    void *block = nullptr;
    std::size_t size = 0;
    std::uint64_t stamp = 0;
};

// A queue of one producer and one consumer; the producer waits when it is full.
class Pipe {
  public:
    void put(const Item &item) {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        while (tail - head_.load(std::memory_order_acquire) == items_.size()) {
            std::this_thread::yield();
        }
        items_[tail % items_.size()] = item;
        tail_.store(tail + 1, std::memory_order_release);
    }

    Item take() {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        while (tail_.load(std::memory_order_acquire) == head) {
            std::this_thread::yield();
        }
        const Item item = items_[head % items_.size()];
        head_.store(head + 1, std::memory_order_release);
        return item;
    }

  private:
    std::array<Item, 4096> items_{};
    std::atomic<std::size_t> head_{0};
    std::atomic<std::size_t> tail_{0};
};

Item make_item(Random &random, unsigned bits) {
    Item item;
    item.size = random.log_uniform(bits);
    item.stamp = random.next();
    item.block = hak_malloc(item.size);
    if (item.block != nullptr) {
        fill_pattern(item.block, item.size, item.stamp);
    }
    return item;
}

bool free_item(const Item &item) {
    const bool intact = item.block != nullptr && pattern_intact(item.block, item.size, item.stamp);
    hak_free(item.block);
    return intact;
}

TEST(RemoteFree, AProducerWhoseBlocksAreAllFreedElsewhereStaysSmall) {
    const std::size_t count = scaled(4'000'000);
    auto pipe = std::make_unique<Pipe>();
    const ResidentMeter meter;
    std::atomic<std::size_t> damaged{0};
    std::ptrdiff_t highest = 0;
    run_threads(2, [&](std::size_t number) {
        Random random(number);
        for (std::size_t i = 0; i < count; i++) {
            if (number == 0) {
                pipe->put(make_item(random, i % 50 == 0 ? 15 : 10));
                continue;
            }
            damaged += free_item(pipe->take()) ? 0 : 1;
            if (i % 100'000 == 0) {
                highest = std::max(highest, meter.growth());
            }
        }
    });
    EXPECT_EQ(damaged.load(), 0u);
#if !HAKMEM_TEST_SANITIZED
    EXPECT_LE(highest, static_cast<std::ptrdiff_t>(48 * kMiB))
        << "while 4096 blocks at most are on their way";
#endif
    hak_collect();
    meter.expect_growth_within(4 * kMiB, "after hak_collect");
}

TEST(RemoteFree, TwoThreadsThatFreeOnlyEachOthersBlocksStaySmall) {
    const std::size_t count = scaled(2'000'000);
    auto pipes = std::make_unique<std::array<Pipe, 2>>();
    const ResidentMeter meter;
    std::atomic<std::size_t> damaged{0};
    run_threads(2, [&](std::size_t number) {
        Random random(number);
        // Block by block, each would wait for the other's turn at the processor, where others want it, too.
        constexpr std::size_t kTogether = 50;
        for (std::size_t i = 0; i < count; i += kTogether) {
            for (std::size_t k = 0; k < kTogether; k++) {
                (*pipes)[number].put(make_item(random, 10));
            }
            for (std::size_t k = 0; k < kTogether; k++) {
                damaged += free_item((*pipes)[1 - number].take()) ? 0 : 1;
            }
        }
    });
    EXPECT_EQ(damaged.load(), 0u);
    meter.expect_growth_within(32 * kMiB, "after the exchange");
    hak_tiny_magazine_flush_all();
    EXPECT_EQ(stats_at_rest().live_blocks, 0u);
}

TEST(RemoteFree, MemoryOfOwnersThatExitedIsUsedAgain) {
    constexpr std::size_t kHeld = 20'000;
    constexpr std::uint64_t kOwners = HAKMEM_TEST_SANITIZED ? 20 : 60;
    const ResidentMeter meter;
    std::vector<Item> previous;
    for (std::uint64_t round = 0; round < kOwners; round++) {
        std::vector<Item> current(kHeld);
        run_in_thread([&] {
            Random random(round);
            for (Item &item : current) {
                item = make_item(random, 11);
            }
        });
        // The owner is gone: half is freed here, the other half by a third thread, after new blocks were
        // made.
        for (std::size_t i = 0; i < kHeld; i += 2) {
            ASSERT_TRUE(free_item(current[i])) << "round " << round;
        }
        run_in_thread([&] {
            for (std::size_t i = 1; i < previous.size(); i += 2) {
                EXPECT_TRUE(free_item(previous[i])) << "round " << round;
            }
        });
        previous.swap(current);
    }
    meter.expect_growth_within(64 * kMiB, "with 10,000 blocks live after many owners of 20,000 each");
    for (std::size_t i = 1; i < previous.size(); i += 2) {
        ASSERT_TRUE(free_item(previous[i]));
    }
    hak_collect();
    meter.expect_growth_within(4 * kMiB, "after hak_collect");
}

TEST(RemoteFree, FreesWhileTheOwnerExitsLoseNothing) {
    for (std::uint64_t round = 0; round < scaled(2000); round++) {
        auto pipe = std::make_unique<Pipe>();
        run_threads(2, [&](std::size_t number) {
            Random random(round);
            for (std::size_t i = 0; i < 300; i++) {
                if (number == 0) {
                    pipe->put(make_item(random, 12));
                } else {
                    EXPECT_TRUE(free_item(pipe->take()));
                }
            }
        });
    }
    hak_tiny_magazine_flush_all();
    const hak_stats_t stats = stats_at_rest();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
}

TEST(RemoteFree, AChildOfForkHasWhatIsInParcels) {
    std::vector<Item> items(3000);
    Random random(1);
    for (int round = 0; round < 5; round++) {
        for (Item &item : items) {
            item = make_item(random, 9);
        }
        run_in_thread([&] {
            for (const Item &item : items) {
                EXPECT_TRUE(free_item(item));
            }
        });
    }
    const pid_t child = fork();
    if (child == 0) {
        hak_option_set("background_thread", "0"); // ThreadSanitizer knows no threads that begin after a fork
        for (int round = 0; round < 5; round++) {
            for (Item &item : items) {
                item = make_item(random, 9);
            }
            for (const Item &item : items) {
                if (!free_item(item)) {
                    _exit(1);
                }
            }
        }
        hak_tiny_magazine_flush_all();
        const hak_stats_t stats = stats_now();
        _exit(stats.live_blocks == 0 ? 0 : 2);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// In runs of one owner, from one block to all; small blocks alone, and among larger ones.
class RemoteFreeOfManyOwners : public testing::TestWithParam<std::tuple<unsigned, std::size_t>> {};

TEST_P(RemoteFreeOfManyOwners, GetBackAllThatOneThreadFrees) {
    constexpr std::size_t kOwners = 5;
    constexpr std::size_t kHeld = 3000;
    const auto [bits, run] = GetParam();
    hak_option_set("reclaim", "0"); // who waits long would get another's heap, whose blocks are its own then
    std::vector<Item> items(kOwners * kHeld);
    std::atomic<std::size_t> damaged{0};
    const std::uint64_t before = stats_now().remote_frees;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, kOwners + 1);
    run_threads(kOwners + 1, [&, bits = bits, run = run](std::size_t number) {
        Random random(number);
        for (std::size_t round = 0; round < scaled(8); round++) {
            for (std::size_t i = number * kHeld; number < kOwners && i < (number + 1) * kHeld; i++) {
                items[i] = make_item(random, bits);
            }
            pthread_barrier_wait(&barrier);
            for (std::size_t i = 0; number == kOwners && i < items.size(); i++) {
                const std::size_t turn = i / (run * kOwners);
                const std::size_t of_turn = i % (run * kOwners);
                damaged += free_item(items[of_turn / run * kHeld + turn * run + of_turn % run]) ? 0 : 1;
            }
            pthread_barrier_wait(&barrier);
        }
    });
    pthread_barrier_destroy(&barrier);
    EXPECT_EQ(damaged.load(), 0u);
    hak_collect();
    const hak_stats_t stats = stats_at_rest();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.cached_bytes, 0u);
    EXPECT_EQ(stats.remote_frees - before, items.size() * scaled(8));
    hak_option_set("reclaim", "1");
}

INSTANTIATE_TEST_SUITE_P(Orders, RemoteFreeOfManyOwners,
                         testing::Combine(testing::Values(6, 10, 15),
                                          testing::Values<std::size_t>(1, 3, 100, 300, 3000)));

// While all send to all, some collect, and owners come and go.
TEST(RemoteFree, ParcelsLoseNothingWhoeverOpensThem) {
    constexpr std::size_t kThreads = 6;
    constexpr std::size_t kHeld = 1000;
    std::mutex mutex;
    std::vector<std::vector<Item>> waiting;
    std::atomic<std::size_t> damaged{0};
    const auto exchange = [&](std::vector<Item> &items) {
        const std::lock_guard<std::mutex> guard(mutex);
        waiting.push_back(std::move(items));
        items.clear();
        if (waiting.size() > kThreads) {
            items.swap(waiting.front());
            waiting.erase(waiting.begin());
        }
    };
    run_threads(kThreads, [&](std::size_t number) {
        for (std::size_t life = 0; life < scaled(60); life++) {
            run_in_thread([&] {
                Random random(number * 1000 + life);
                for (std::size_t round = 0; round < 5; round++) {
                    std::vector<Item> items(kHeld);
                    for (Item &item : items) {
                        item = make_item(random, 9);
                    }
                    exchange(items);
                    for (const Item &item : items) {
                        damaged += free_item(item) ? 0 : 1;
                    }
                }
                if (random.one_in(8)) {
                    hak_collect();
                }
            });
        }
    });
    for (const std::vector<Item> &items : waiting) {
        for (const Item &item : items) {
            damaged += free_item(item) ? 0 : 1;
        }
    }
    EXPECT_EQ(damaged.load(), 0u);
    hak_collect();
    const hak_stats_t stats = stats_at_rest();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.cached_bytes, 0u);
}

// A thread that allocates and then sleeps until it is woken.
class Sleeper {
  public:
    Sleeper(PointerArray &blocks, std::size_t size)
        : thread_([this, &blocks, size] {
              for (void *&block : blocks) {
                  block = hak_malloc(size);
                  std::memset(block, 0x3C, size);
              }
              std::unique_lock<std::mutex> lock(mutex_);
              asleep_ = true;
              changed_.notify_all();
              changed_.wait(lock, [this] { return wake_; });
          }) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return asleep_; });
    }

    ~Sleeper() {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            wake_ = true;
            changed_.notify_all();
        }
        thread_.join();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool asleep_ = false;
    bool wake_ = false;
    std::thread thread_;
};

class SleepingOwner : public testing::TestWithParam<std::size_t> {};

TEST_P(SleepingOwner, HoldsNothingThatOthersFreed) {
    const std::size_t size = GetParam();
    PointerArray blocks(64 * kMiB / size);
    hak_free(hak_malloc(size));
    const ResidentMeter meter;
    const Sleeper owner(blocks, size);
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
    meter.expect_growth_within(2 * kMiB, "while the owner sleeps, after hak_collect of another thread");
}

#if !HAKMEM_TEST_SANITIZED // whose own memory grows
// Nobody calls the library any more: its own thread sees that the owner does not come for what waits for it.
TEST(RemoteFree, AnOwnerThatOnlyComputesHoldsNothingForLong) {
    PointerArray blocks(32 * kMiB / 1000);
    const ResidentMeter meter;
    for (void *&block : blocks) {
        block = hak_malloc(1000);
        std::memset(block, 1, 1000);
    }
    Random random(1);
    shuffle(blocks, random); // so that what waits is of all slabs
    std::atomic<bool> done{false};
    std::thread other([&] {
        for (void *block : blocks) {
            hak_free(block);
        }
        while (!done) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    });
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (meter.growth() > static_cast<std::ptrdiff_t>(6 * kMiB) &&
           std::chrono::steady_clock::now() < patience) {
        std::this_thread::yield();
    }
    EXPECT_LE(meter.growth(), static_cast<std::ptrdiff_t>(6 * kMiB));
    done = true;
    other.join();
}
#endif

// Its block holds a slab no more once it is in the bitmap: the slab may be of another class when the thread
// goes on, and a word that it had only partly freed a whole one of that class.
TEST(RemoteFree, ThatComesLateCountsNothingOfAnotherClass) {
    hak_free(hak_malloc(1)); // sets up the classes
    EXPECT_EQ(hakmem_test_words_counted_by_a_late_free(64, 16 * kKiB), 0u);
}

// Nobody else would look at the slab again.
TEST(RemoteFree, ThatComesLateGivesBackWhatOthersHaveMadeFree) {
    for (const std::size_t size : {100u, 1000u, 10'000u}) {
        EXPECT_TRUE(hakmem_test_slab_goes_with_a_late_free(size)) << size;
    }
}

// In a parcel that nobody would come for.
TEST(RemoteFree, ThatComesLateLeavesNothingWithAnOwnerThatHasGone) {
    hak_option_set("background_thread", "2");
    EXPECT_TRUE(happens([] {
        hak_free(hak_malloc(100 * kKiB));
        return decay_is_on();
    }));
    EXPECT_TRUE(hakmem_test_late_parcel_goes_back(1024));
    hak_option_set("background_thread", "1");
}

INSTANTIATE_TEST_SUITE_P(Sizes, SleepingOwner, testing::Values(16, 100, 1024, 8192, 100'000, 4'000'000),
                         testing::PrintToStringParamName());

} // namespace
