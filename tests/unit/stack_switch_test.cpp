// The call stack on other stacks than a thread's own, and in a forked child: what ThreadSanitizer does not
// follow.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>

#include "stack/capture.h"
#include "stack/memory.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::compare_chains;
using hakmem_test::Frames;
using hakmem_test::Guarded;
using hakmem_test::page_bytes;
using hakmem_test::run_in_thread;
using hakmem_test::scaled;

ucontext_t coroutine, resumed;
void (*coroutine_body)();

void run_coroutine() {
    coroutine_body();
    swapcontext(&coroutine, &resumed);
}

void run_on(const Guarded &stack, void (*body)()) {
    coroutine_body = body;
    ASSERT_EQ(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack.data();
    coroutine.uc_stack.ss_size = stack.size();
    coroutine.uc_link = nullptr;
    makecontext(&coroutine, run_coroutine, 0);
    ASSERT_EQ(swapcontext(&resumed, &coroutine), 0);
}

TEST(Stack, OfACoroutineIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(100); i++) {
        const Guarded stack((1 << 20) + page_bytes * (i % 7));
        run_on(stack, [] { compare_chains(300, 5); });
        compare_chains(400 + i, 1);
    }
}

TEST(Stack, AfterForkIsTheUnwinders) {
    compare_chains(4, 10);
    const auto child_succeeds = [] {
        const pid_t child = fork();
        if (child == 0) {
            compare_chains(5, 100);
            _exit(testing::Test::HasFailure() ? 1 : 0);
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    };
    child_succeeds();
    run_in_thread(child_succeeds);
}

#if defined(__x86_64__)
using hakmem_test::assemble;
using hakmem_test::Assembled;
using hakmem_test::with_a_given_pointer;

Assembled *edge_call;
std::uintptr_t edge;
std::size_t edge_frames;

TEST(Stack, DoesNotReadBeyondTheTopOfAStack) {
    const Guarded code(page_bytes);
    const Guarded stack(32 << 10);
    edge_call = assemble(code, with_a_given_pointer);
    edge = reinterpret_cast<std::uintptr_t>(stack.data()) + stack.size();
    edge_frames = 0;
    run_on(stack, [] {
        Frames frames;
        // Its word is the last one of the stack; what would be above it cannot be read.
        edge_call(hakmem_test::capture_frames, &frames, edge - sizeof edge);
        edge_frames = frames.count;
    });
    EXPECT_EQ(edge_frames, 2u);
}
#endif

} // namespace
