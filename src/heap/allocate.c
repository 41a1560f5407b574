#include "heap/allocate.h"

#include "arena/arena.h"
#include "arena/clear.h"
#include "heap/collect.h"
#include "heap/fast.h"
#include "heap/flush.h"
#include "heap/foreign.h"
#include "heap/large.h"
#include "heap/magazine.h"
#include "heap/remote.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/shared_heap.h"
#include "options/options.h"
#include "os/os.h"
#include "os/report.h"
#include "profile/sample.h"

#include <errno.h>
#include <string.h>

static COLD void *out_of_memory(size_t size) {
    report_fallback(FALLBACK_OUT_OF_MEMORY, size);
    errno = ENOMEM;
    return NULL;
}

/* A block of the class or, if `may_borrow`, of a larger one, which need not have the alignment of this one;
 * NULL if there is no memory. */
static inline void *pop(struct heap *heap, unsigned size_class, bool may_borrow) {
    struct magazine *m = &heap->magazines[size_class];
    if (LIKELY(m->top != m->base)) {
        return *--m->top;
    }
    return heap_refill(heap, size_class, may_borrow);
}

/* As allocate_class, for a thread that has no heap. */
static COLD void *allocate_shared(unsigned size_class, size_t size, bool may_borrow) {
    struct heap *heap = shared_heap_lock();
    if (heap == NULL) {
        return NULL;
    }
    bool sampled = sampling_due(size) && sampling_decide(size);
    void *p = pop(heap, size_class, may_borrow);
    shared_heap_unlock();
    return sampled && p != NULL ? sampling_exchange(p, size_class, size) : p;
}

static NOINLINE void *allocate_perhaps_sampled(struct heap *heap, unsigned size_class, size_t size,
                                               bool may_borrow) {
    heap_enter(heap); /* listeners of heap_event may sleep */
    bool sampled = sampling_decide(size);
    heap_leave(heap);
    void *p = pop(heap, size_class, may_borrow);
    return sampled && p != NULL ? sampling_exchange(p, size_class, size) : p;
}

static inline void *allocate_class(unsigned size_class, size_t size, bool may_borrow) {
    struct heap *heap = thread_heap_get();
    if (UNLIKELY(heap == NULL)) {
        return allocate_shared(size_class, size, may_borrow);
    }
    if (UNLIKELY(sampling_due(size))) {
        return allocate_perhaps_sampled(heap, size_class, size, may_borrow);
    }
    return pop(heap, size_class, may_borrow);
}

/* A large or huge block. For sampling it counts with its whole pages, as it does when it grows. */
static void *allocate_large(size_t size, size_t alignment, struct zeros *zeros) {
    void *p = large_allocate(thread_heap_get(), size, alignment, zeros);
    if (p == NULL) {
        return NULL;
    }
    size_t bytes = large_span(size);
    if (UNLIKELY(sampling_due(bytes)) && sampling_decide(bytes)) {
        large_set_sampled(p, sampling_note_large(p, bytes, bytes));
    }
    return p;
}

/* As malloc, but does not collect and try again: NULL if there is no memory. */
static ALWAYS_INLINE void *serve(size_t size) {
    struct zeros zeros;
    if (LIKELY(size <= MID_MAX_BYTES)) {
        if (UNLIKELY(thread_heap_now() == &heap_of_no_thread && runtime_libc_forced())) {
            return foreign_malloc(size);
        }
        return allocate_class(size_class_for(size), size, true);
    }
    if (size > REQUEST_MAX_BYTES) {
        return NULL;
    }
    return UNLIKELY(runtime_libc_forced()) ? foreign_malloc(size) : allocate_large(size, SLAB_BYTES, &zeros);
}

static void *serve_aligned(size_t alignment, size_t size, struct zeros *zeros) {
    return size <= MID_MAX_BYTES && alignment <= SLAB_BYTES
               ? allocate_class(size_class_aligned(size, alignment), size, false)
               : allocate_large(size, alignment, zeros);
}

/* Collects what threads hold back, for that may be all that is missing; true if another try is worth it. */
static bool may_try_again(size_t size) {
    return size <= REQUEST_MAX_BYTES && !runtime_libc_forced() && heap_collect_for(size);
}

static COLD void *serve_at_last(size_t size) {
    void *p = may_try_again(size) ? serve(size) : NULL;
    return p != NULL ? p : out_of_memory(size);
}

static COLD void *serve_aligned_at_last(size_t alignment, size_t size, struct zeros *zeros) {
    void *p = may_try_again(size) ? serve_aligned(alignment, size, zeros) : NULL;
    return p != NULL ? p : out_of_memory(size);
}

NOINLINE void *allocate(size_t size) {
    void *p = serve(size);
    return LIKELY(p != NULL) ? p : serve_at_last(size);
}

NOINLINE void *allocate_mid(size_t size) {
    if (UNLIKELY(size - TINY_MAX_BYTES - 1 >= MID_MAX_BYTES - TINY_MAX_BYTES)) {
        return allocate(size);
    }
    return fast_pop(&thread_heap_now()->magazines[size_class_for_mid(size)], size);
}

void *allocate_aligned(size_t alignment, size_t size) {
    if (size > REQUEST_MAX_BYTES || alignment > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    if (runtime_libc_forced()) {
        return foreign_memalign(alignment, size);
    }
    struct zeros zeros;
    void *p = serve_aligned(alignment, size, &zeros);
    return p != NULL ? p : serve_aligned_at_last(alignment, size, &zeros);
}

static void *clear(unsigned char *block, size_t size, struct zeros zeros) {
    size_t begin = min_size(zeros.begin, size);
    size_t end = min_size(zeros.end, size);
    if (UNLIKELY(size - (end - begin) >= CLEARED_LEAST_BYTES) && clear_by_purge((uintptr_t)block, zeros)) {
        return block;
    }
    memset(block, 0, begin);
    memset(block + end, 0, size - end);
    return block;
}

void *allocate_zeroed(size_t size) {
    if (size <= MID_MAX_BYTES) {
        void *p = allocate_mid(size);
        return p == NULL ? NULL : memset(p, 0, size);
    }
    if (size > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    if (runtime_libc_forced()) {
        return foreign_calloc(1, size);
    }
    struct zeros zeros;
    void *p = allocate_large(size, SLAB_BYTES, &zeros);
    p = p != NULL ? p : serve_aligned_at_last(SLAB_BYTES, size, &zeros);
    return p == NULL ? NULL : clear(p, size, zeros);
}

/* OURS_STRAY: in a region, but where no block begins. */
enum whose { OURS_CLASS, OURS_LARGE, OURS_STRAY, NOT_OURS };

static inline enum whose whose(const void *p, uint32_t word) {
    if (LIKELY(word != 0)) {
        return page_word_owner(word) < PAGE_OWNER_HUGE ? OURS_CLASS : OURS_LARGE;
    }
    return region_of_any((uintptr_t)p) != NULL ? OURS_STRAY : NOT_OURS;
}

static void release_block(void *p, uint32_t word) {
    struct heap *heap = thread_heap_get_to_free(page_word_owner(word));
    if (sampling_owns(page_word_owner(word))) {
        heap_enter(heap); /* it may wait for the profile's lock */
        p = sampling_release(heap, p);
        heap_leave(heap);
        if (p == NULL) {
            return;
        }
        word = page_map_get(p); /* of the shadow, which takes the way of every block */
        heap = thread_heap_get_to_free(page_word_owner(word));
    }
    unsigned size_class = page_word_class(word);
    if (UNLIKELY(heap == NULL)) {
        count_without_heap(&counters_of_no_heap.remote_frees);
        heap_return_blocks(NULL, &p, 1);
        return;
    }
    if (heap->tag >> PAGE_WORD_OWNER_SHIFT != page_word_owner(word)) {
        heap_free_remote(heap, p, word);
        return;
    }
    struct magazine *m = &heap->magazines[size_class];
    if (m->top == m->end) {
        heap_make_room(heap, size_class);
        if (UNLIKELY(m->top == m->end)) {
            heap_return_blocks(heap, &p, 1);
            return;
        }
    }
    *m->top++ = p;
}

static NOINLINE void release_otherwise(void *p, uint32_t word) {
    switch (whose(p, word)) {
    case OURS_CLASS:
        release_block(p, word);
        break;
    case OURS_LARGE:
        large_free(thread_heap_get_to_free(0), p);
        break;
    case OURS_STRAY:
        large_report_stray("invalid free", p);
    case NOT_OURS:
        foreign_free(p, runtime_libc_forced());
        break;
    }
}

/* Tries the commonest case first: a block of another heap, for which this one has room in a magazine or in
 * its remote buffer. */
static NOINLINE void release_of_any(void *p, uint32_t word, struct heap *heap) {
    uint32_t owner = page_word_owner(word);
    bool is_remote = owner - 1 < PAGE_OWNER_HUGE - 1 && owner != page_word_owner(heap->tag) &&
                     heap != &heap_of_no_thread && !sampling_owns(owner);
    if (!is_remote || !heap_hold_remote(heap, p, word)) {
        release_otherwise(p, word);
    }
}

NOINLINE void release(void *p) {
    if (p != NULL) { /* before anything else: programs drop what may not be there */
        release_of_any(p, page_map_get(p), thread_heap_now());
    }
}

NOINLINE void release_of_others(void *p, uint32_t offset, struct heap *heap) {
    uint32_t theirs = offset ^ heap->remote_key;
    if (LIKELY(theirs < KEPT_CLASSES * CLASS_SCALE)) {
        size_t n = heap_remote_count(heap);
        if (LIKELY(n - 1 < REMOTE_BLOCKS - 1) && LIKELY(heap_put_remote(heap, n, p, theirs))) {
            return;
        }
    }
    if (p != NULL) {
        release_of_any(p, offset ^ heap->tag, heap);
    }
}

/* Bytes of the block if it surely is one of a size class, or 0. The slab's header is not read, so a block
 * that was never handed out passes, too: it is found when it comes back, and nothing is lost by then. */
static inline size_t sure_bytes(const void *p, uint32_t word) {
    const struct size_class *c = &size_classes[page_word_class(word)];
    bool sure =
        word != 0 && page_word_owner(word) < PAGE_OWNER_HUGE && size_class_surely_begins_at(c, (uintptr_t)p);
    return LIKELY(sure) ? c->bytes : 0;
}

static NOINLINE size_t usable_size_otherwise(const void *p, uint32_t word) {
    if (p == NULL) {
        return 0;
    }
    switch (whose(p, word)) {
    case OURS_CLASS:
        heap_check_block("invalid usable size", p);
        return size_classes[page_word_class(word)].bytes;
    case OURS_LARGE:
        return large_usable_size("invalid usable size", p);
    case OURS_STRAY:
        large_report_stray("invalid usable size", p);
    case NOT_OURS:
        break;
    }
    return foreign_usable_size(p, runtime_libc_forced());
}

size_t block_usable_size(const void *p) {
    uint32_t word = page_map_get(p);
    size_t bytes = sure_bytes(p, word);
    return LIKELY(bytes > 0) ? bytes : usable_size_otherwise(p, word);
}

/* Tells the profile of a large block at `p` that had `had` bytes and was given another size, where it stood
 * or by being moved. */
static void note_resized(void *p, size_t had) {
    size_t bytes = large_usable_size("invalid realloc", p);
    bool grown = bytes > had && UNLIKELY(sampling_due(bytes - had)) && sampling_decide(bytes - had) &&
                 sampling_note_large(p, bytes, bytes - had);
    if (grown) {
        large_set_sampled(p, true);
    } else if (UNLIKELY(large_is_sampled(p)) && bytes != had) {
        large_set_sampled(p, profile_resize((uintptr_t)p, bytes));
    }
}

/* Programs that shrink a block expect no failure. */
static COLD NOINLINE void *reallocate_without_memory(void *p, size_t held, size_t size) {
    return size <= held ? p : NULL;
}

/* What to ask for when a block of `held` bytes needs `size`. What grows by a small step will grow again, and
 * would be copied at every class, eight times until it is twice as large: four times are enough, and above
 * GROWS_COARSELY_BYTES, where what it has not reached yet is pages of its own, twice. */
#define SMALL_STEP_PART 16
#define GROWS_COARSELY_BYTES ((size_t)16 << 10)
static inline size_t room_to_grow(size_t held, size_t size) {
    if (size <= held || size > held + held / SMALL_STEP_PART || size > MID_MAX_BYTES) {
        return size;
    }
    unsigned steps_log2 = size > GROWS_COARSELY_BYTES ? 1 : 2;
    return round_up(size, (size_t)1 << (bit_highest(size - 1) - steps_log2));
}

static void *reallocate_by_copy(void *p, size_t held, size_t size) {
    void *fresh = fast_allocate(room_to_grow(held, size));
    if (UNLIKELY(fresh == NULL)) {
        return reallocate_without_memory(p, held, size);
    }
    memcpy(fresh, p, min_size(held, size));
    fast_release(p);
    return fresh;
}

/* Moving to a smaller class pays once half the block is unused. */
static inline bool may_stay(size_t held, size_t size) {
    return size <= held && (size > held / 2 || held <= 16);
}

/* Gives a large or huge block room for `size` bytes where it stands, or moves its pages; NULL if it must be
 * copied. */
static void *resize_large(void *p, size_t held, size_t size) {
    void *resized = large_resize(thread_heap_get(), p, size);
    if (resized != NULL) {
        note_resized(resized, held);
    }
    return resized;
}

/* Whether most of the first `bytes` of a large block, half of it at most, are resident; where it must not be
 * asked, they are not. */
static NOINLINE bool is_mostly_resident(const void *p, size_t bytes) {
    unsigned char resident[LARGE_MAX_BYTES / 2 / OS_PAGE_BYTES];
    size_t pages = bytes / OS_PAGE_BYTES;
    size_t found = 0;
    if (!option_bool(OPTION_HUGE_PAGES) || !os_which_resident(p, pages, resident)) {
        return false;
    }
    for (size_t i = 0; i < pages; i++) {
        found += resident[i];
    }
    return found > pages / 4 * 3;
}

/* Whether a block that is to become shorter is copied, and leaves its pages to another one: a program that
 * reads into a large buffer, and then gives back what it did not need, wants such a buffer again. Not where
 * it resizes its blocks again and again, or where the copy would have pages that the block has not. */
static bool leaves_its_pages(const void *p, size_t held, size_t size) {
    return held <= LARGE_MAX_BYTES && size > MID_MAX_BYTES && size <= held / 2 && !large_is_resized(p) &&
           is_mostly_resident(p, size);
}

static void *reallocate_large(void *p, size_t size) {
    size_t held = large_usable_size("invalid realloc", p);
    void *resized = leaves_its_pages(p, held, size) ? NULL : resize_large(p, held, size);
    if (resized != NULL) {
        large_note_resized(resized);
        return resized;
    }
    struct heap *heap = thread_heap_get();
    if (heap != NULL) {
        heap->grows = size > held;
    }
    resized = reallocate_by_copy(p, held, size);
    if (heap != NULL) {
        heap->grows = false;
    }
    if (UNLIKELY(resized == p)) {
        resize_large(p, held, size); /* there is no memory for a copy */
    }
    if (resized != NULL && size > MID_MAX_BYTES) {
        large_note_resized(resized);
    }
    return resized;
}

static NOINLINE void *reallocate_otherwise(void *p, size_t size, uint32_t word) {
    enum whose owner = whose(p, word);
    if (owner == NOT_OURS) {
        return foreign_realloc(p, size, runtime_libc_forced());
    }
    if (owner == OURS_STRAY) {
        large_report_stray("invalid realloc", p);
    }
    if (size > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    if (owner == OURS_LARGE) {
        return reallocate_large(p, size);
    }
    heap_check_block("invalid realloc", p);
    size_t held = size_classes[page_word_class(word)].bytes;
    return may_stay(held, size) ? p : reallocate_by_copy(p, held, size);
}

void *reallocate(void *p, size_t size) {
    uint32_t word = page_map_get(p);
    size_t bytes = sure_bytes(p, word);
    if (LIKELY(bytes > 0 && may_stay(bytes, size))) {
        return p;
    }
    if (LIKELY(bytes > 0 && size <= MID_MAX_BYTES)) {
        return reallocate_by_copy(p, bytes, size);
    }
    return reallocate_otherwise(p, size, word);
}

size_t request_good_size(size_t size) {
    if (size <= MID_MAX_BYTES) {
        return size_classes[size_class_for(size)].bytes;
    }
    size_t bytes = round_up(size, OS_PAGE_BYTES); /* 0 where that is past the last number */
    return bytes > REQUEST_MAX_BYTES ? 0 : bytes;
}
