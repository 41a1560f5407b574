#include "heap/holes.h"

#include "arena/arena.h"
#include "os/os.h"

#include <limits.h>

/* System calls before the heap's lock is let go for a moment. */
#define CALLS_AT_ONCE 256
/* Slabs of one list that are looked at, each time: with the lock held, and most of them are not in the cache.
 */
#define LOOKS_MOST 16384
/* The part of a slab that must be free, or its pages will soon be wanted again. */
#define FREE_PART 4

struct pass {
    bool idle_only;
    uint8_t seen_now, seen_before; /* SLAB_SEEN_EVEN and SLAB_SEEN_ODD */
    unsigned calls;                /* that may still be made */
    unsigned until_pause;          /* of them, before the lock is let go */
    bool refused;                  /* the OS takes nothing */
    bool waiting;                  /* a slab is to be looked at again */
    size_t bytes;
};

static void purge_slab(struct pass *pass, const struct slab *slab) {
    uintptr_t start = arena_address(slab);
    size_t from = 0;
    size_t end = 0;
    size_t bytes = 0;
    unsigned calls = 0;
    while (!pass->refused && slab_next_hole(slab, &from, &end)) {
        pass->refused = !arena_purge_hole(start + from, end - from);
        bytes += pass->refused ? 0 : end - from;
        calls++;
    }
    if (calls > 0) {
        arena_note_holes(calls, bytes);
    }
    pass->calls -= calls < pass->calls ? calls : pass->calls;
    pass->until_pause -= calls < pass->until_pause ? calls : pass->until_pause;
    pass->bytes += bytes;
}

static bool is_sparse(const struct slab *slab) {
    return slab_count_free(slab) >= size_classes[slab->size_class].blocks / FREE_PART;
}

/* relaxed throughout: whoever returns a block meanwhile may see its note overwritten, and its page stays
 * until another one comes back */
static void look_at(struct pass *pass, struct slab *slab) {
    uint8_t seen = atomic_load_explicit(&slab->returned, memory_order_relaxed);
    if (seen == SLAB_NONE_RETURNED || seen == SLAB_WITHOUT_HOLES ||
        (pass->idle_only && seen == SLAB_HOLES_LEFT)) {
        return;
    }
    if (pass->idle_only && seen != pass->seen_before) {
        atomic_store_explicit(&slab->returned, pass->seen_now, memory_order_relaxed);
        pass->waiting = true;
    } else if (pass->idle_only && !is_sparse(slab)) {
        atomic_store_explicit(&slab->returned, SLAB_HOLES_LEFT, memory_order_relaxed);
    } else {
        atomic_store_explicit(&slab->returned, SLAB_WITHOUT_HOLES, memory_order_relaxed);
        purge_slab(pass, slab);
    }
}

static bool may_go_on(const struct pass *pass) {
    return !pass->refused && pass->calls > 0;
}

static void look_at_heap(struct pass *pass, struct heap *heap) {
    do {
        pass->until_pause = CALLS_AT_ONCE;
        lock_acquire(&heap->lock);
        bin_drain_inbox(heap);
        for (unsigned c = 0; c < SIZE_CLASSES; c++) {
            unsigned looks = pass->idle_only ? LOOKS_MOST : UINT_MAX;
            for (struct slab *slab = bin_first_partial(heap, c); slab != NULL && looks > 0; looks--) {
                struct slab *next = slab->next;
                if (!may_go_on(pass) || pass->until_pause == 0) {
                    break;
                }
                look_at(pass, slab);
                slab = next;
            }
        }
        lock_release(&heap->lock);
    } while (may_go_on(pass) && pass->until_pause == 0);
}

size_t holes_purge(struct heap *heap) {
    struct pass pass = {.idle_only = false, .calls = UINT_MAX};
    look_at_heap(&pass, heap);
    return pass.bytes;
}

bool holes_purge_idle(unsigned calls) {
    static _Atomic bool odd; /* relaxed: two callers at once would look twice */
    bool now = atomic_load_explicit(&odd, memory_order_relaxed);
    atomic_store_explicit(&odd, !now, memory_order_relaxed);
    struct pass pass = {.idle_only = true,
                        .seen_now = now ? SLAB_SEEN_ODD : SLAB_SEEN_EVEN,
                        .seen_before = now ? SLAB_SEEN_EVEN : SLAB_SEEN_ODD,
                        .calls = calls};
    for (uint32_t id = 1; id < heap_id_limit() && may_go_on(&pass); id++) {
        struct heap *heap = heap_by_id(id);
        if (heap != NULL) {
            look_at_heap(&pass, heap);
        }
    }
    return pass.waiting;
}
