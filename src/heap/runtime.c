#include "heap/runtime.h"

#include "arena/arena.h"
#include "heap/background.h"
#include "heap/foreign.h"
#include "heap/fork.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/environment.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/program.h"
#include "os/report.h"
#include "profile/sample.h"
#include "slab/size_class.h"

#include <stdlib.h>

static struct lock start_lock;
/* release when all is set up pairs with the acquire in runtime_start */
static _Atomic bool started;
static bool libc_forced;
/* The thread that is at it, by its thread pointer. It may ask for a block meanwhile: where others stand in
 * for libc's functions (sanitizers), each may allocate when it is first called. relaxed: a thread only looks
 * for itself */
static _Atomic uintptr_t starter;

static COLD void refuse_pages(void) {
    if (!foreign_libc_present()) {
        report_line(
            "the kernel's pages are not of 4 KiB, which is all that HAKMEM can do: link another malloc");
        abort();
    }
    libc_forced = true;
    report_line("the kernel's pages are not of 4 KiB; libc's allocator serves this program");
    report_fallback(FALLBACK_LIBC_FORCED, 0);
}

static NOINLINE void start_slow(void) {
    uintptr_t self = (uintptr_t)__builtin_thread_pointer();
    if (atomic_load_explicit(&starter, memory_order_relaxed) == self) {
        return;
    }
    lock_acquire(&start_lock);
    atomic_store_explicit(&starter, self, memory_order_relaxed);
    /* relaxed: under the lock */
    if (!atomic_load_explicit(&started, memory_order_relaxed)) {
        os_note_process();
        options_init();
        size_class_init(option_number(OPTION_MAGAZINE_BYTES));
        arena_init();
        background_set_work();
        if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK) || option_bool(OPTION_PROF_LEAKS)) {
            profile_start(0);
        }
        thread_begin();
        if (UNLIKELY(!os_pages_are_known())) {
            refuse_pages();
        } else if (option_bool(OPTION_FORCE_LIBC_ALLOC)) {
            libc_forced = foreign_libc_present();
            if (libc_forced) {
                report_fallback(FALLBACK_LIBC_FORCED, 0);
            } else {
                report_line("HAKMEM_FORCE_LIBC_ALLOC: libc's allocator is not linked in; ignored");
            }
        }
        atomic_store_explicit(&started, true, memory_order_release);
    }
    atomic_store_explicit(&starter, 0, memory_order_relaxed);
    lock_release(&start_lock);
    fork_register_handlers();
}

void runtime_start(void) {
    if (UNLIKELY(!atomic_load_explicit(&started, memory_order_acquire))) {
        start_slow();
    }
}

bool runtime_libc_forced(void) {
    if (LIKELY(atomic_load_explicit(&started, memory_order_acquire))) {
        return libc_forced;
    }
    start_slow();
    return libc_forced || (!atomic_load_explicit(&started, memory_order_acquire) && foreign_libc_present());
}

RARE void runtime_lock_for_fork(void) {
    lock_acquire(&start_lock);
}

RARE void runtime_unlock_after_fork(bool child) {
    lock_end_fork(&start_lock, child);
}

/* glibc hands constructors what main gets. This one comes before those of libc, which set `environ`, and
 * before our own others. */
__attribute__((constructor(101))) static void at_load(int argc, char **argv, char **environment) {
    if (argc > 0) {
        os_note_program_name(argv[0]);
    }
    os_set_environment(environment);
    runtime_start();
#ifdef HAKMEM_STANDARD_NAMES
    if (!libc_forced) { /* in other builds nothing is taken before it is asked for */
        arena_reserve_first();
    }
#endif
}
