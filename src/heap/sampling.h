/* Sampling: which allocations the profile gets to know, and where their blocks lie.
 *
 * Each thread counts down the bytes to its next sample. A sampled block of the tiny or mid lane comes from a
 * heap that has nothing else, so that the page map tells it from all others and free needs no check of its
 * own; the block that it was given instead of, its shadow, stays taken for as long as it lives: the slabs
 * look as they would without sampling. A large block has a flag in its header.
 *
 * Promises that an allocation's chance to be sampled depends on its bytes alone, however the memory is
 * recycled; that a thread notices that sampling was switched on or off when a magazine has run empty, with
 * the next large block, and in any case within SAMPLING_LOOK_BYTES of its own allocations; and that nothing
 * is written while it is off but the thread's counter. Relies on profile and registry.
 */
#ifndef HAKMEM_HEAP_SAMPLING_H
#define HAKMEM_HEAP_SAMPLING_H

#include "heap/heap_table.h"
#include "heap/thread.h"
#include "profile/sample.h"

/* Bytes that a thread allocates, at most, between two looks whether sampling was switched. */
#define SAMPLING_LOOK_BYTES ((int64_t)1 << 20)

/* Whether sampling was switched since the calling thread last asked sampling_decide. */
static inline bool sampling_switched(void) {
    /* relaxed: sampling_decide acquires */
    return UNLIKELY(thread_self.sample_run !=
                    atomic_load_explicit(&profile_switch.run, memory_order_relaxed));
}

/* Counts an allocation of `bytes`; returns whether sampling_decide must be asked about it. One of 0 bytes is
 * never sampled. Where the counter is below 0 already, the fast path has counted these bytes: that is why it
 * came here. */
static inline bool sampling_due(size_t bytes) {
    if (LIKELY(thread_self.sample_left >= 0)) {
        thread_self.sample_left -= (int64_t)bytes;
    }
    return thread_self.sample_left < 0 || sampling_switched();
}

/* Sets the calling thread's counter anew, tells of an event (event.h), whose listener may sleep, and gives
 * back what lies idle if nobody else does (decay.h); true if the allocation of `bytes` is to be sampled. */
bool sampling_decide(size_t bytes);

/* Begins to sample anew, each `interval_bytes` on average (0: as the option says): 0, or -1 with EINVAL (more
 * than PROFILE_INTERVAL_MOST) or ENOTSUP (libc's allocator serves the program). */
int sampling_begin(uint64_t interval_bytes);
/* Has the calling thread ask sampling_decide with its next allocation, and samples no more for that. */
void sampling_come_soon(void);

/* What the program gets instead of the block `shadow`: a sampled one, or `shadow` itself where there is no
 * memory. No lock held; keeps errno. */
void *sampling_exchange(void *shadow, unsigned size_class, size_t size);

/* Whether `owner`, of a page-map word, is the heap of sampled blocks. */
static inline bool sampling_owns(uint32_t owner) {
    /* relaxed: whoever holds a sampled block got it from a thread that wrote this before */
    return UNLIKELY(owner == atomic_load_explicit(&heap_id_of_samples, memory_order_relaxed));
}

/* Has the profile forget a sampled block that is about to be freed; gives its shadow, or NULL. Keeps errno.
 */
void *sampling_forget(const void *block);
/* Frees a block of the heap of sampled blocks; gives its shadow, to be freed as any other block, or NULL.
 * `self` is the caller's own heap, or NULL. */
void *sampling_release(struct heap *self, void *block);

/* Tells the profile of a large block that is to be sampled for `chosen` of its `bytes`; true if it now knows
 * the block. Keeps errno. */
bool sampling_note_large(const void *block, size_t bytes, size_t chosen);

/* Retires the current slabs of the heap of sampled blocks. */
void sampling_collect(void);

/* Around fork: takes the lock of the heap of sampled blocks, and ends that. */
void sampling_lock_for_fork(void);
void sampling_unlock_after_fork(bool child);
/* In the child: the calling thread's next sample is not where its parent's is. */
void sampling_follow_into_child(void);

#endif
