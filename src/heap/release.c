#include "heap/release.h"

#include "heap/flush.h"
#include "heap/foreign.h"
#include "heap/large.h"
#include "heap/magazine.h"
#include "heap/remote.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/whose.h"

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
        large_free(thread_heap_get_to_free(0), p, word);
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
    bool is_remote = page_word_is_class(word) && owner != page_word_owner(heap->tag) &&
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
