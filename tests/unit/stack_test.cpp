// The call stack is the one that the C++ runtime's unwinder finds, wherever it is asked for, and where nobody
// can tell it, asking does no harm.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <vector>

#include "os/environment.h"
#include "profile/stack.h"
#include "stack/capture.h"
#include "stack/chain.h"
#include "stack/memory.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::callers;
using hakmem_test::capture_pair;
using hakmem_test::Chain;
using hakmem_test::compare_chains;
using hakmem_test::expect_agreement;
using hakmem_test::Frames;
using hakmem_test::frames_most;
using hakmem_test::Guarded;
using hakmem_test::Link;
using hakmem_test::Pair;
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;

TEST(Stack, OfEachKindOfCallIsTheUnwinders) {
    for (std::size_t link = 0; link < static_cast<std::size_t>(Link::count); link++) {
        for (std::size_t build = 0; build < hakmem_test::link_builds; build++) {
            Pair pair;
            Chain chain(capture_pair, &pair);
            chain.add(static_cast<Link>(link), build);
            chain.run();
            expect_agreement(pair, chain.describe());
        }
    }
}

TEST(Stack, OfRandomChainsIsTheUnwinders) {
    compare_chains(1, scaled(3000));
}

TEST(Stack, OfANewThreadIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(50); i++) {
        run_in_thread([i] { compare_chains(100 + i, 3); });
    }
}

TEST(Stack, OfManyThreadsAtOnceIsTheUnwinders) {
    run_threads(8, [](std::size_t thread) { compare_chains(200 + thread, scaled(500)); });
}

TEST(Stack, OfAThreadThatEndsIsTheUnwinders) {
    static Pair pair;
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, capture_pair), 0);
    run_in_thread([key] { pthread_setspecific(key, &pair); });
    pthread_key_delete(key);
    expect_agreement(pair, "in a key's destructor");
}

// ---- What is asked for -----------------------------------------------------------------------------

std::vector<std::uintptr_t> all(const Frames &frames) {
    return {frames.address, frames.address + frames.count};
}

TEST(Stack, IsAsDeepAsWasAsked) {
    struct Views {
        Frames whole, part, skipped;
    } views;
    Chain chain(
        [](void *into) {
            Views &v = *static_cast<Views *>(into);
            // All from one place, so that they are equal: volatile keeps the loop a loop.
            for (volatile int i = 0; i < 3; i = i + 1) {
                Frames &frames = i == 0 ? v.whole : i == 1 ? v.part : v.skipped;
                frames.count = stack_capture(frames.address, i == 1 ? 5 : frames_most, i == 2 ? 3 : 0);
            }
        },
        &views);
    for (int i = 0; i < 10; i++) {
        chain.add(Link::plain, 1);
    }
    chain.run();
    const std::vector<std::uintptr_t> whole = all(views.whole);
    ASSERT_GT(whole.size(), 13u);
    EXPECT_EQ(all(views.part), std::vector<std::uintptr_t>(whole.begin(), whole.begin() + 5));
    EXPECT_EQ(all(views.skipped), std::vector<std::uintptr_t>(whole.begin() + 3, whole.end()));
    EXPECT_EQ(stack_capture(views.part.address, 0, 0), 0u);
}

TEST(Stack, HasNoFramesOfTheLibrary) {
    static Pair pair;
    pair = {};
    ASSERT_EQ(setenv("HAKMEM_TEST_STACK", "1", 1), 0);
    // A function of the library that calls back.
    os_visit_environment("HAKMEM_TEST_STACK", [](const char *, std::size_t) { pair.capture(); });
    unsetenv("HAKMEM_TEST_STACK");
    ASSERT_GT(pair.expected.count, 3u);
    // Where the unwinder has capture, the visitor, the library, this function and others, ours has one less.
    std::vector<std::uintptr_t> expected = callers(pair.expected);
    const auto own = std::find_if(expected.begin(), expected.end(), [&](std::uintptr_t address) {
        return !std::count(pair.ours.address, pair.ours.address + pair.ours.count, address);
    });
    ASSERT_NE(own, expected.end());
    expected.erase(own);
    EXPECT_EQ(callers(pair.ours), expected);
}

TEST(Stack, KeepsErrno) {
    run_in_thread([] {
        Pair pair;
        errno = 12345;
        pair.capture();
        EXPECT_EQ(errno, 12345);
    });
}

// ---- Odd stacks ------------------------------------------------------------------------------------

Pair signal_pair;

void capture_on_signal(int, siginfo_t *, void *) {
    signal_pair.capture();
}

// A handler for SIGUSR2 while it lives.
class Handler {
  public:
    explicit Handler(int flags) {
        struct sigaction action {};
        action.sa_sigaction = capture_on_signal;
        action.sa_flags = SA_SIGINFO | flags;
        sigaction(SIGUSR2, &action, &before_);
    }
    ~Handler() {
        sigaction(SIGUSR2, &before_, nullptr);
    }
    Handler(const Handler &) = delete;
    Handler &operator=(const Handler &) = delete;

  private:
    struct sigaction before_ {};
};

void raise_signal(void *) {
    raise(SIGUSR2);
}

void compare_in_handlers(std::uint64_t stream) {
    Random random(stream);
    for (std::size_t round = 0; round < scaled(300); round++) {
        Chain chain(raise_signal, nullptr);
        chain.add_random(random, 4);
        signal_pair = {};
        chain.run();
        expect_agreement(signal_pair, "in a handler, " + chain.describe());
    }
}

TEST(Stack, InASignalHandlerIsTheUnwinders) {
    const Handler handler(0);
    compare_in_handlers(2);
}

TEST(Stack, InAHandlerOnAStackOfItsOwnIsTheUnwinders) {
    const Guarded memory(128 << 10);
    stack_t alternate{};
    alternate.ss_sp = memory.data();
    alternate.ss_size = memory.size();
    stack_t before{};
    ASSERT_EQ(sigaltstack(&alternate, &before), 0);
    {
        const Handler handler(SA_ONSTACK);
        compare_in_handlers(3);
    }
    before.ss_flags |= before.ss_sp == nullptr ? SS_DISABLE : 0;
    sigaltstack(&before, nullptr);
}

} // namespace
