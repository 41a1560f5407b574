// Each fall-back is counted under its name, and its line is written, when what it tells of comes about.
// (Those of the start are in tests/programs: libc forced, page map by region, no live page.)
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/faults.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

extern "C" void *__libc_malloc(std::size_t size);
extern "C" void __libc_free(void *block);

namespace {

using hakmem_test::counter;
using hakmem_test::dirty;
using hakmem_test::kEveryCall;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::number_in;
using hakmem_test::run_in_thread;
using hakmem_test::statistics_json;
using hakmem_test::switch_faults_off;

struct Fallback {
    const char *name;    // as in the statistics; in the line with blanks
    std::uint64_t times; // that it comes about; with `or_more`, at least
    bool or_more;
    void (*bring_about)();
};

void PrintTo(const Fallback &fallback, std::ostream *out) {
    *out << fallback.name;
}

std::uint64_t times_of(const std::string &name) {
    return number_in(statistics_json(), "fallbacks", name);
}

void free_a_block_of_libc() {
    const std::uint64_t before = counter("foreign_frees");
    hak_free(__libc_malloc(100));
    EXPECT_EQ(counter("foreign_frees"), before + 1);
}

void resize_a_block_of_libc() {
    __libc_free(hak_realloc(__libc_malloc(100), 300));
}

void measure_a_block_of_libc() {
    void *block = __libc_malloc(100);
    hak_usable_size(block);
    __libc_free(block);
}

// A block that needs a region of its own, whose address space is refused once.
void want_address_space_in_one_piece() {
    std::vector<void *> blocks;
    while (times_of("small_region") == 0 && blocks.size() < 100) {
        os_fault_set(OS_FAULT_RESERVE, 0, 1);
        blocks.push_back(hak_malloc(200 * kMiB));
    }
}

// The library's key is the older one: its destructor has run by then.
void allocate_in_a_destructor() {
    hak_free(hak_malloc(1));
    pthread_key_t key = 0;
    pthread_key_create(&key, [](void *) { hak_malloc(100); });
    run_in_thread([key] {
        hak_free(hak_malloc(100));
        pthread_setspecific(key, &key);
    });
}

void begin_a_thread_without_memory_for_a_heap() {
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    for (std::size_t size = kMiB; size >= 64 * kKiB; size /= 2) {
        while (hak_malloc(size) != nullptr) {
        }
    }
    run_in_thread([] { hak_free(hak_malloc(100)); });
}

// More than the arrays of all magazines have room for.
void use_magazines_of_all_sizes() {
    std::vector<void *> blocks(5000);
    for (int size_class = 0; size_class < hak_size_class_count(); size_class++) {
        for (void *&block : blocks) {
            block = hak_malloc(hak_size_class_bytes(size_class));
        }
        for (void *block : blocks) {
            hak_free(block);
        }
    }
}

void want_more_than_there_is() {
    hak_malloc(PTRDIFF_MAX);
}

void give_back_what_the_system_does_not_take() {
    void *block = hak_malloc(kMiB);
    dirty(block, kMiB, 1);
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    hak_free(block);
    hak_collect();
}

// As a limit of threads does, or a sandbox.
void forbid_clone() {
    std::array<sock_filter, 4> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        _exit(2);
    }
}

void want_the_librarys_thread() {
    forbid_clone();
    hak_option_set("background_thread", "2");
    hakmem_test::happens([] {
        void *block = hak_malloc(8 * kMiB);
        dirty(block, 8 * kMiB, 1);
        hak_free(block);
        return times_of("no_background_thread") > 0;
    });
}

// A block that must move, because another lies behind it.
void *grow_a_huge_block() {
    void *block = hak_malloc(3 * kMiB);
    hak_malloc(3 * kMiB);
    dirty(block, 3 * kMiB, 1);
    return hak_realloc(block, 20 * kMiB);
}

void move_a_block_that_cannot_be_moved() {
    os_fault_set(OS_FAULT_REMAP, 0, 1);
    grow_a_huge_block();
}

void free_a_moved_block_whose_pages_cannot_be_renewed() {
    void *moved = grow_a_huge_block();
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    hak_free(moved);
}

void use_more_sites_than_there_is_room_for() {
    for (hak_site_t site = 1; site <= 17'000; site++) {
        hak_alloc_at(1, site);
    }
}

void sample_without_memory() {
    constexpr std::size_t kEveryBlock = 1;
    hak_profile_start(kEveryBlock);
    hak_malloc(100);
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    for (int i = 0; i < 2000; i++) {
        hak_malloc(100);
    }
}

class Fallbacks : public testing::TestWithParam<Fallback> {};

// In a child: much of it lasts. What it does not free, its end does.
TEST_P(Fallbacks, AreCountedAndWritten) {
    std::FILE *const error_output = std::tmpfile();
    ASSERT_NE(error_output, nullptr);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        dup2(fileno(error_output), STDERR_FILENO);
        hak_option_set("wrap_diag", "1");
        GetParam().bring_about();
        switch_faults_off();
        std::fprintf(error_output, "%llu\n", static_cast<unsigned long long>(times_of(GetParam().name)));
        std::fflush(error_output);
        _exit(HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    std::string line = std::string("hakmem: fall-back: ") + GetParam().name;
    std::replace(line.begin(), line.end(), '_', ' ');
    std::rewind(error_output);
    std::uint64_t lines = 0;
    std::string read;
    for (std::array<char, 200> some{}; std::fgets(some.data(), some.size(), error_output) != nullptr;) {
        read = some.data();
        const char next = read.compare(0, line.size(), line) == 0 ? read[line.size()] : '\0';
        lines += next == '\n' || next == ',' ? 1 : 0; // the size concerned may follow
    }
    std::fclose(error_output);
    const std::uint64_t counted = std::strtoull(read.c_str(), nullptr, 10);
    EXPECT_GE(counted, GetParam().times);
    EXPECT_TRUE(GetParam().or_more || counted == GetParam().times) << counted;
    EXPECT_EQ(lines, counted);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Fallbacks,
    testing::Values(Fallback{"foreign_free", 1, false, free_a_block_of_libc},
                    Fallback{"foreign_realloc", 1, false, resize_a_block_of_libc},
                    Fallback{"foreign_usable_size", 1, false, measure_a_block_of_libc},
                    Fallback{"small_region", 1, true, want_address_space_in_one_piece},
                    Fallback{"thread_ending", 1, false, allocate_in_a_destructor},
                    Fallback{"no_heap", 1, true, begin_a_thread_without_memory_for_a_heap},
                    Fallback{"magazine_cannot_grow", 1, true, use_magazines_of_all_sizes},
                    Fallback{"out_of_memory", 1, false, want_more_than_there_is},
                    Fallback{"purge_failed", 1, true, give_back_what_the_system_does_not_take},
                    Fallback{"no_background_thread", 1, true, want_the_librarys_thread},
                    Fallback{"huge_block_copied", 1, false, move_a_block_that_cannot_be_moved},
                    Fallback{"address_space_lost_to_a_failed_mremap", 1, false,
                             free_a_moved_block_whose_pages_cannot_be_renewed},
                    Fallback{"site_table_full", 17'000 - 16'384, true, use_more_sites_than_there_is_room_for},
                    Fallback{"no_memory_for_a_sample", 1, true, sample_without_memory}),
    [](const testing::TestParamInfo<Fallback> &info) { return info.param.name; });

// Only what comes about is told: address space that is had in no piece at all is none in smaller ones.
TEST(FallbackThatFails, IsNotCounted) {
    std::vector<void *> blocks;
    void *block = nullptr;
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    while ((block = hak_malloc(200 * kMiB)) != nullptr && blocks.size() < 1000) {
        blocks.push_back(block);
    }
    switch_faults_off();
    EXPECT_EQ(block, nullptr); // or this tests nothing
    EXPECT_EQ(times_of("small_region"), 0u);
    for (void *had : blocks) {
        hak_free(had);
    }
}

} // namespace
