// The call stack on other stacks than a thread's own, and in a forked child: what ThreadSanitizer does not
// follow.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hakmem.h"
#include "stack/capture.h"
#include "stack/memory.h"
#include "support/child.h"
#include "support/scale.h"
#include "support/threads.h"

extern "C" {
#include "os/stack_probe.h"
}

namespace {

using hakmem_test::compare_chains;
using hakmem_test::Frames;
using hakmem_test::Guarded;
using hakmem_test::kPage;
using hakmem_test::run_in_thread;
using hakmem_test::scaled;

ucontext_t coroutine, resumed;
void (*coroutine_body)();

void run_coroutine() {
    coroutine_body();
    swapcontext(&coroutine, &resumed);
}

void run_on(void *stack, std::size_t bytes, void (*body)()) {
    coroutine_body = body;
    ASSERT_EQ(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = bytes;
    coroutine.uc_link = nullptr;
    makecontext(&coroutine, run_coroutine, 0);
    ASSERT_EQ(swapcontext(&resumed, &coroutine), 0);
}

void run_on(const Guarded &stack, void (*body)()) {
    run_on(stack.data(), stack.size(), body);
}

// Its thread has the child's number then, as the first thread of any process, and another stack than those.
TEST(Stack, OfAForkedChildIsTheOneThatItsThreadHad) {
    const auto child_has_stack = [] {
        hakmem_test::expect_child_to_succeed([] { return os_own_stack_has(64 << 10) ? 0 : 1; });
    };
    child_has_stack();
    run_in_thread(child_has_stack);
}

TEST(Stack, OfACoroutineIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(100); i++) {
        const Guarded stack((1 << 20) + kPage * (i % 7));
        run_on(stack, [] { compare_chains(300, 5); });
        compare_chains(400 + i, 1);
    }
}

// Has the kernel refuse to tell the calling thread whether memory can be read; false if it cannot be had to.
bool refuse_questions() {
    constexpr std::uint32_t kNoAction = 0xFFFFFFFF;
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNoAction, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

void capture_below_a_large_frame(Frames &frames) {
    volatile char room[70'000];
    room[0] = 1;
    hakmem_test::capture_frames(&frames);
    room[1] = room[0];
}

TEST(Stack, OfAThreadIsAskedAboutNoMoreThoughItRanCoroutinesFirst) {
    run_in_thread([] {
        const Guarded stack(64 << 10);
        for (int i = 0; i < 10; i++) {
            run_on(stack, [] {
                Frames frames;
                hakmem_test::capture_frames(&frames);
            });
        }
        Frames asked, known;
        // Both from one place, whose rules are then known.
        for (volatile int i = 0; i < 2; i = i + 1) {
            if (i == 1) {
                ASSERT_TRUE(refuse_questions());
            }
            capture_below_a_large_frame(i == 0 ? asked : known);
        }
        EXPECT_GT(asked.count, 3u);
        EXPECT_EQ(known.count, asked.count);
    });
}

// What lies below a coroutine's stack may be anything.
TEST(Stack, HasRoomOnlyWhereItIsTheThreads) {
    constexpr std::size_t kBytes = 64 << 10;
    EXPECT_TRUE(os_own_stack_has(kBytes));
    const auto look = [] {
        EXPECT_TRUE(os_own_stack_has(kBytes));
        EXPECT_FALSE(os_own_stack_has(64 << 20));
        const Guarded stack(16 * kBytes);
        run_on(stack, [] { EXPECT_FALSE(os_own_stack_has(kBytes)); });
        EXPECT_TRUE(os_own_stack_has(kBytes));
    };
    run_in_thread(look);
    const Guarded stack(16 * kBytes);
    run_on(stack, [] { EXPECT_FALSE(os_own_stack_has(kBytes)); });
}

#if !HAKMEM_TEST_SANITIZED // whose frames are larger
void allocate_and_free_all_sizes() {
    constexpr std::size_t kMost = 8 << 20;
    for (int round = 0; round < 8; round++) {
        for (std::size_t size = 16; size <= kMost; size += size / 4) {
            auto *block = static_cast<char *>(hak_malloc(size));
            for (std::size_t at = 0; round % 2 == 0 && at < size; at += kPage) {
                static_cast<volatile char *>(block)[at] = 1;
            }
            hak_free(block);
        }
    }
}

// Coroutines have stacks of two pages, of which the program itself needs some.
TEST(Stack, OfTwoPagesHasRoomForAllocationAndMuchElse) {
#if defined(__x86_64__)
    constexpr std::size_t kMayBeUsed = 4 * 1024;
#else // a frame saves twice as many registers
    constexpr std::size_t kMayBeUsed = 5 * 1024;
#endif
    constexpr char kUntouched = 0x5A;
    hak_free(hak_malloc(1)); // the library's and the thread's first call are another matter
    const Guarded stack(64 << 10);
    std::memset(stack.data(), kUntouched, stack.size());
    run_on(stack, allocate_and_free_all_sizes);
    const char *end = stack.data() + stack.size();
    const char *deepest =
        std::find_if(static_cast<const char *>(stack.data()), end, [](char c) { return c != kUntouched; });
    EXPECT_LE(static_cast<std::size_t>(end - deepest), kMayBeUsed);
}
#endif

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
    const Guarded code(kPage);
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

// A coroutine's stack right below a thread's own, with nothing between them.
constexpr std::size_t kCoroutineBytes = 120 << 10, kThreadBytes = 256 << 10;
char *neighbours;

void *capture_in_neighbours(void *own_stack_first) {
    Frames frames;
    if (own_stack_first != nullptr) {
        hakmem_test::capture_frames(&frames);
    }
    for (int i = 0; i < 2; i++) {
        run_on(neighbours, kCoroutineBytes, [] {
            Frames below;
            capture_below_a_large_frame(below);
        });
    }
    char *half = neighbours + kCoroutineBytes / 2;
    EXPECT_EQ(mprotect(half, kCoroutineBytes / 2, PROT_NONE), 0);
    edge = reinterpret_cast<std::uintptr_t>(half) + kPage;
    run_on(neighbours, kCoroutineBytes / 2, [] {
        Frames below;
        edge_call(hakmem_test::capture_frames, &below, edge);
        edge_frames = below.count;
    });
    EXPECT_EQ(edge_frames, 2u);
    EXPECT_EQ(mprotect(half, kCoroutineBytes / 2, PROT_READ | PROT_WRITE), 0);
    return nullptr;
}

TEST(Stack, OfACoroutineBelowAThreadsIsNotTakenForTheThreads) {
    const Guarded code(kPage);
    const Guarded both(kCoroutineBytes + kThreadBytes);
    neighbours = both.data();
    edge_call = assemble(code, with_a_given_pointer);
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, neighbours + kCoroutineBytes, kThreadBytes), 0);
    for (void *own_stack_first : {static_cast<void *>(neighbours), static_cast<void *>(nullptr)}) {
        pthread_t thread{};
        ASSERT_EQ(pthread_create(&thread, &attributes, capture_in_neighbours, own_stack_first), 0);
        pthread_join(thread, nullptr);
    }
    pthread_attr_destroy(&attributes);
}

// Calls function(context) with a frame pointer from which its table leads to the caller, and which is not
// one.
extern "C" void call_with_a_wrong_pointer(void (*function)(void *), void *context, std::uintptr_t pointer);
__asm__(R"(
    .text
    .type call_with_a_wrong_pointer, @function
call_with_a_wrong_pointer:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rdx, %rbp
    .cfi_def_cfa_register %rbp
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    .cfi_def_cfa %rsp, 16
    pop %rbp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size call_with_a_wrong_pointer, . - call_with_a_wrong_pointer
)");

constexpr std::size_t kAboveBytes = 64 << 10;

void *capture_with_wrong_pointers(void *above) {
    const auto start = reinterpret_cast<std::uintptr_t>(above);
    Frames frames;
    hakmem_test::capture_frames(&frames);
    call_with_a_wrong_pointer(hakmem_test::capture_frames, &frames, start + kAboveBytes);
    EXPECT_EQ(mprotect(above, kAboveBytes, PROT_NONE), 0);
    call_with_a_wrong_pointer(hakmem_test::capture_frames, &frames, start + kAboveBytes / 2);
    EXPECT_EQ(frames.count, 2u);
    EXPECT_EQ(mprotect(above, kAboveBytes, PROT_READ | PROT_WRITE), 0);
    return nullptr;
}

TEST(Stack, EndsAtTheThreadsTopThoughAWalkHasReadBeyond) {
    const Guarded both(kThreadBytes + kAboveBytes);
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, both.data(), kThreadBytes), 0);
    pthread_t thread{};
    char *above = both.data() + kThreadBytes;
    ASSERT_EQ(pthread_create(&thread, &attributes, capture_with_wrong_pointers, above), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}
#endif

} // namespace
