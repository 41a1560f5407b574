// The allocator's own thread: there when it is worth it, one, and not to be noticed.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "support/decay.h"
#include "support/faults.h"
#include "support/lanes.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

extern "C" bool hakmem_test_start_thread_that_ends_early();

namespace {

using hakmem_test::Decay;
using hakmem_test::fallbacks;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMayStayRetained;
using hakmem_test::kMiB;
using hakmem_test::retained;
using hakmem_test::run_threads;
using hakmem_test::set_option;
using hakmem_test::stats_now;
using hakmem_test::thread_count;
using hakmem_test::use_and_free;

using std::chrono::milliseconds;

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

TEST_F(DecayThread, EndsWhereTheOptionChanges) {
    set_option("decay_ms", "60000"); // so that it has no other reason
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
    set_option("background_thread", "0");
    EXPECT_TRUE(happens([] { return own_threads().empty(); }));
}

// It would wait for itself to be gone, with the credentials that the program has dropped.
TEST_F(DecayThread, LeavesItToTheProgramToStartTheNext) {
    const std::uint64_t before = fallbacks();
    ASSERT_TRUE(hakmem_test_start_thread_that_ends_early());
    EXPECT_TRUE(happens([] { return thread_count() == 1; }));
    EXPECT_EQ(fallbacks(), before);
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
}

// A stack of which more is in use than is looked through for a signal's handler.
TEST_F(DecayThread, EndsThoughAThreadSleepsWhoseCachesItCannotTake) {
    constexpr std::size_t kDeep = 2 * kMiB;
    set_option("decay_ms", "20");
    std::promise<void> end;
    std::promise<void> sleeps;
    std::thread sleeper([&] {
        std::array<volatile char, kDeep> deep;
        deep[0] = 1;
        hak_free(hak_malloc(100));
        sleeps.set_value();
        end.get_future().wait();
        EXPECT_EQ(deep[0], 1);
    });
    sleeps.get_future().wait();
    use_and_free(8 * kMiB);
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
    EXPECT_TRUE(happens([] { return own_threads().empty(); }));
    end.set_value();
    sleeper.join();
}

// One that does nothing but compute is not asleep, however long it has not allocated; later it is.
TEST_F(DecayThread, TakesTheCachesOfAThreadThatSleepsAfterItHasComputedForLong) {
    const auto reclaimed = [] { return stats_now().heaps_reclaimed; };
    set_option("decay_ms", "20");
    const std::uint64_t before = reclaimed();
    std::promise<void> end;
    std::thread worker([&] {
        hak_free(hak_malloc(100));
        use_and_free(8 * kMiB);
        const auto computed = std::chrono::steady_clock::now() + milliseconds(120); // twelve periods
        while (std::chrono::steady_clock::now() < computed) {
        }
        end.get_future().wait();
    });
    EXPECT_TRUE(happens([&] { return reclaimed() > before; }));
    end.set_value();
    worker.join();
}

// Has the calling thread take `more` + 12 blocks of each size from 1 to 32 KiB and free twelve of each, which
// all stay in its caches: 1.9 MiB. Returns the others.
std::vector<void *> fill_caches(std::size_t more = 0) {
    std::vector<void *> kept;
    for (std::size_t size = kKiB; size <= 32 * kKiB; size += size / 4) {
        std::vector<void *> blocks(more + 12);
        for (void *&block : blocks) {
            block = hak_malloc(size);
            EXPECT_NE(block, nullptr);
        }
        kept.insert(kept.end(), blocks.begin() + 12, blocks.end());
        std::for_each_n(blocks.begin(), 12, hak_free);
    }
    return kept;
}

bool little_stays_cached() {
    return happens([] { return stats_now().cached_bytes <= kMiB; });
}

// In these three, what threads have cached is all that there is to give back.
TEST_F(DecayThread, TakesTheCachesOfAFewThreadsThatSleep) {
    set_option("decay_ms", "20");
    std::promise<void> end;
    std::shared_future<void> ended = end.get_future().share();
    std::atomic<unsigned> filled{0};
    std::vector<std::thread> threads(3);
    for (std::thread &thread : threads) {
        thread = std::thread([&filled, ended] {
            fill_caches();
            filled++;
            ended.wait();
        });
    }
    EXPECT_TRUE(happens([&] { return filled == threads.size(); }));
    EXPECT_TRUE(little_stays_cached()) << stats_now().cached_bytes;
    end.set_value();
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST_F(DecayThread, TakesTheCachesOfAThreadEachTimeThatItFallsAsleep) {
    set_option("decay_ms", "20");
    std::array<std::promise<void>, 3> wake;
    std::atomic<unsigned> filled{0};
    std::thread sleeper([&] {
        for (std::promise<void> &next : wake) {
            fill_caches();
            filled++;
            next.get_future().wait();
        }
    });
    for (std::promise<void> &next : wake) {
        const auto round = static_cast<unsigned>(&next - wake.data()) + 1;
        EXPECT_TRUE(happens([&] { return filled == round; }));
        EXPECT_TRUE(little_stays_cached()) << stats_now().cached_bytes << " in round " << round;
        EXPECT_TRUE(happens([] { return own_threads().empty(); }));
        next.set_value();
    }
    sleeper.join();
}

TEST_F(DecayThread, ComesAgainForTheCachesOfAThreadThatWasAwakeTooLong) {
    set_option("decay_ms", "20");
    std::atomic<bool> alone{false};
    std::promise<void> end;
    std::thread worker([&] {
        fill_caches();
        while (!alone) { // and does not sleep
        }
        const std::vector<void *> kept = fill_caches(100);
        end.get_future().wait();
        std::for_each(kept.begin(), kept.end(), hak_free);
    });
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
    EXPECT_TRUE(happens([] { return own_threads().empty(); }));
    alone = true;
    EXPECT_TRUE(happens([] { return own_threads().size() == 1; }));
    EXPECT_TRUE(little_stays_cached()) << stats_now().cached_bytes;
    end.set_value();
    worker.join();
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

} // namespace
