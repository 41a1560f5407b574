// Whether a sleeping thread is in a signal handler, by what is on its stack, and whether its heap is taken
// from it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "hakmem.h"
#include "support/resident.h"
#include "support/statistics.h"

extern "C" {
#include "os/asleep.h"
}

namespace {

using hakmem_test::kKiB;
using hakmem_test::stats_now;

// A thread with a heap that falls asleep in `body`, by wait_for_end, until this object's end.
class Sleeper {
  public:
    explicit Sleeper(std::function<void()> body) {
        sem_init(&end_, 0, 0);
        current_ = this;
        thread_ = std::thread([this, body = std::move(body)] {
            stack_end_ = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
            id_ = static_cast<int>(syscall(SYS_gettid));
            hak_free(hak_malloc(100));
            body();
        });
    }
    ~Sleeper() {
        sem_post(&end_);
        thread_.join();
        sem_destroy(&end_);
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    static void wait_for_end() {
        Sleeper *self = current_;
        self->sleeps_ = true;
        while (sem_wait(&self->end_) != 0) {
        }
    }

    bool is_in_signal_handler() {
        os_sleep sleep{};
        while (!sleeps_ || !os_asleep(id_, &sleep)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return os_in_signal_handler(&sleep, stack_end_);
    }

    // While a child, which runs in its memory, sleeps in its place.
    void wait_until_it_waits_for_its_child() const {
        while (!sleeps_ || os_is_running(id_)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    // Once it sleeps.
    static bool loses_its_heap() {
        const std::uint64_t before = stats_now().heaps_reclaimed;
        hak_collect();
        return stats_now().heaps_reclaimed > before;
    }

  private:
    static std::atomic<Sleeper *> current_;
    sem_t end_{};
    std::atomic<int> id_{0};
    std::atomic<bool> sleeps_{false};
    std::atomic<std::uintptr_t> stack_end_{0};
    std::thread thread_;
};
std::atomic<Sleeper *> Sleeper::current_;

void handle(int) {
    Sleeper::wait_for_end();
}

void raise_signal(int flags) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = handle;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before);
    pthread_kill(pthread_self(), SIGUSR1);
    sigaction(SIGUSR1, &before, nullptr);
}

TEST(Asleep, AThreadThatWaitsIsInNoHandler) {
    Sleeper sleeper(Sleeper::wait_for_end);
    EXPECT_FALSE(sleeper.is_in_signal_handler());
    EXPECT_TRUE(sleeper.loses_its_heap());
}

TEST(Asleep, OneWhoseHandlerWaitsIs) {
    Sleeper sleeper([] { raise_signal(0); });
    EXPECT_TRUE(sleeper.is_in_signal_handler());
    EXPECT_FALSE(sleeper.loses_its_heap()) << "whatever the signal has interrupted uses it";
}

TEST(Asleep, OneWhoseHandlerHasAStackOfItsOwnIs) {
    Sleeper sleeper([] {
        std::array<char, 65536> room;
        stack_t stack{};
        stack.ss_sp = room.data();
        stack.ss_size = room.size();
        sigaltstack(&stack, nullptr);
        raise_signal(SA_ONSTACK);
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, nullptr);
    });
    EXPECT_TRUE(sleeper.is_in_signal_handler());
    EXPECT_FALSE(sleeper.loses_its_heap());
}

// Flags and segments as a signal leaves them are also a counter, and the number 51.
TEST(Asleep, NumbersOfTheProgramAreNoHandler) {
    Sleeper sleeper([] {
        std::array<volatile std::uintptr_t, 64> numbers{};
        for (std::size_t i = 0; i < numbers.size(); i += 2) {
            numbers[i] = 0x246;
            numbers[i + 1] = 0x33;
        }
        Sleeper::wait_for_end();
    });
    EXPECT_FALSE(sleeper.is_in_signal_handler());
    EXPECT_TRUE(sleeper.loses_its_heap());
}

int sleep_in_the_parents_place(void *) {
    Sleeper::wait_for_end();
    return 0;
}

// As vfork makes it, which runs on the thread's variables, and may be in the midst of what uses the heap.
TEST(Asleep, OneThatWaitsForAChildInItsMemoryKeepsItsHeap) {
    Sleeper sleeper([] {
        std::array<char, 64 * kKiB> stack;
        const pid_t child = clone(sleep_in_the_parents_place, stack.data() + stack.size(),
                                  CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
        EXPECT_GT(child, 0);
        EXPECT_EQ(waitpid(child, nullptr, 0), child);
    });
    sleeper.wait_until_it_waits_for_its_child();
    EXPECT_FALSE(sleeper.loses_its_heap());
}

TEST(Asleep, NobodyLosesAHeapWhereThatIsSwitchedOff) {
    hak_option_set("reclaim", "0");
    Sleeper sleeper(Sleeper::wait_for_end);
    EXPECT_FALSE(sleeper.is_in_signal_handler()) << "and so it sleeps";
    EXPECT_FALSE(Sleeper::loses_its_heap());
    hak_option_set("reclaim", "1");
    EXPECT_TRUE(Sleeper::loses_its_heap());
}

} // namespace
