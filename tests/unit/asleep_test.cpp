// Whether a sleeping thread is in a signal handler, by what is on its stack.
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
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

extern "C" {
#include "os/asleep.h"
}

namespace {

// A thread that falls asleep in `body`, by wait_for_end, until this object's end.
class Sleeper {
  public:
    explicit Sleeper(std::function<void()> body) {
        sem_init(&end_, 0, 0);
        current_ = this;
        thread_ = std::thread([this, body = std::move(body)] {
            stack_end_ = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
            id_ = static_cast<int>(syscall(SYS_gettid));
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
}

TEST(Asleep, OneWhoseHandlerWaitsIs) {
    Sleeper sleeper([] { raise_signal(0); });
    EXPECT_TRUE(sleeper.is_in_signal_handler());
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
}

} // namespace
