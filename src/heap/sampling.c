#include "heap/sampling.h"

#include "arena/decay.h"
#include "base/floating.h"
#include "heap/bins.h"
#include "heap/event.h"
#include "heap/flush.h"
#include "heap/idle_caches.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "os/clock.h"
#include "os/os.h"
#include "profile/files.h"
#include "profile/poisson.h"
#include "profile/sample.h"
#include "profile/stack.h"

#include <errno.h>

/* Further than any program gets, and far from overflow. */
#define NEVER (INT64_MAX / 4)

static struct lock lock; /* protects the heap of sampled blocks; no thread owns it */
static struct heap *samples;

/* A thread's way to its next sample. */
struct sampler {
    int64_t further; /* bytes from where thread_self.sample_left ends to the next sample */
    uint64_t random;
};
static _Thread_local __attribute__((tls_model("initial-exec"))) struct sampler sampler;

/* Where a thread's random numbers begin. Threads that follow each other have the same address, and may begin
 * within one tick of the clock: what tells them apart is their number, which is multiplied so that none
 * begins where another comes to. */
static COLD uint64_t seed(void) {
    static _Atomic uint64_t threads; /* relaxed: each gets another number */
    uint64_t number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return number * 0xD1342543DE82EF95u ^ (uintptr_t)&sampler ^ os_now_ms() << 32 ^
           (uint64_t)os_process_id() << 32;
}

/* Bytes to the next sample, drawn anew; NEVER while sampling is off. */
static int64_t distance(void) {
    /* relaxed: after the acquire load of the run in sampling_decide */
    uint64_t interval = atomic_load_explicit(&profile_switch.interval, memory_order_relaxed);
    if (interval == 0) {
        return NEVER;
    }
    if (sampler.random == 0) {
        sampler.random = seed();
    }
    struct floating held = floating_hold();
    uint64_t bytes = poisson_distance(&sampler.random, interval);
    floating_restore(held);
    return (int64_t)bytes;
}

/* What is to be done now and then: a program that only exchanges blocks for others of their size comes to no
 * other slow path, whatever it has left behind before. */
static void keep_house(void) {
    /* Without a heap, the caller holds the shared heap's lock. */
    heap_event(thread_heap_now() != &heap_of_no_thread ? HEAP_EVENT_UNLOCKED : HEAP_EVENT_IN_PROGRAM);
    decay_look_if_much();
    /* The heap may have been taken meanwhile. relaxed: see decay.h */
    if (UNLIKELY(atomic_load_explicit(&decay_idle_ticks, memory_order_relaxed) >= IDLE_CACHES_TICKS) &&
        thread_heap_now() != &heap_of_no_thread) {
        idle_caches_empty(thread_heap_now());
    }
}

/* The fast path counts down to the next look only; the rest of the way is in `further`. */
NOINLINE bool sampling_decide(size_t bytes) {
    keep_house(); /* first, because sampling may begin anew there */
    /* acquire pairs with the release where the run grows (profile/sample.c): the interval is set by then */
    uint64_t run = atomic_load_explicit(&profile_switch.run, memory_order_acquire);
    int64_t left = thread_self.sample_left + sampler.further;
    if (thread_self.sample_run != run) {
        thread_self.sample_run = run;
        left = distance() - (int64_t)bytes;
    }
    bool sampled = left < 0;
    if (sampled) {
        left = distance();
        sampled = left != NEVER;
    }
    thread_self.sample_left = left < SAMPLING_LOOK_BYTES ? left : SAMPLING_LOOK_BYTES;
    sampler.further = left - thread_self.sample_left;
    return sampled;
}

/* Has the calling thread notice at its next allocation that sampling was switched. */
static void look_soon(void) {
    if (sampling_switched()) {
        thread_self.sample_left = 0;
    }
}

COLD int sampling_begin(uint64_t interval_bytes) {
    if (interval_bytes > PROFILE_INTERVAL_MOST) {
        errno = EINVAL;
        return -1;
    }
    if (runtime_libc_forced()) {
        errno = ENOTSUP;
        return -1;
    }
    profile_start(interval_bytes);
    look_soon();
    return 0;
}

COLD void sampling_come_soon(void) {
    sampler.further += thread_self.sample_left;
    thread_self.sample_left = 0;
}

/* A block of the class from the heap of sampled blocks, which is made if need be; NULL if there is no
 * memory. */
static void *take(unsigned size_class) {
    lock_acquire(&lock);
    if (samples == NULL) {
        samples = heap_make_for_samples();
        if (samples != NULL) {
            /* relaxed: see sampling_owns */
            atomic_store_explicit(&heap_id_of_samples, samples->id, memory_order_relaxed);
        }
    }
    void *block = NULL;
    if (samples != NULL) {
        bin_take(samples, size_class, &block, 1); /* no magazines: they would hold blocks that few ask for */
    }
    lock_release(&lock);
    return block;
}

/* Makes the block, whose `frames` and `depth` are set here, known as a sample; false if it is not. */
static bool add(struct sample sample) {
    uintptr_t frames[FRAMES_MOST];
    sample.frames = frames;
    sample.depth = stack_capture(frames, FRAMES_MOST, 0);
    return profile_add(&sample, thread_self.sample_run);
}

COLD void *sampling_exchange(void *shadow, unsigned size_class, size_t size) {
    int saved_errno = errno;
    void *block = take(size_class);
    if (block != NULL &&
        !add((struct sample){.address = (uintptr_t)block, .shadow = shadow, .size = size, .chosen = size})) {
        heap_return_blocks(NULL, &block, 1);
        block = NULL;
    }
    files_write_if_peak();
    errno = saved_errno;
    return block != NULL ? block : shadow;
}

COLD void *sampling_forget(const void *block) {
    files_write_if_peak(); /* what has grown until now without a sample in a while begins to fall */
    return profile_remove((uintptr_t)block);
}

COLD void *sampling_release(struct heap *self, void *block) {
    /* The record first: as soon as the block is back, another sample may get it. */
    void *shadow = sampling_forget(block);
    heap_return_blocks(self, &block, 1);
    return shadow;
}

COLD bool sampling_note_large(const void *block, size_t bytes, size_t chosen) {
    int saved_errno = errno;
    bool known = add((struct sample){.address = (uintptr_t)block, .size = bytes, .chosen = chosen});
    files_write_if_peak();
    errno = saved_errno;
    return known;
}

COLD void sampling_collect(void) {
    lock_acquire(&lock);
    if (samples != NULL) {
        heap_retire_slabs(samples);
    }
    lock_release(&lock);
}

/* The way to the next sample is drawn anew with the next block: no run has this number. */
void sampling_follow_into_child(void) {
    sampler.random = 0;
    thread_self.sample_run = UINT64_MAX;
    look_soon();
}

RARE void sampling_lock_for_fork(void) {
    lock_acquire(&lock);
}

RARE void sampling_unlock_after_fork(bool child) {
    lock_end_fork(&lock, child);
}
