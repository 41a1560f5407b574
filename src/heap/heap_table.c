#include "heap/heap_table.h"

#include "arena/arena.h"
#include "arena/purge.h"
#include "os/os.h"

#include <stddef.h>
#include <string.h>

/* Ids are below this. A page-map word has room for eight times as many, but no program needs more, and this
 * table takes 512 KiB. Threads for which there is no id use the shared heap. */
#define HEAP_IDS 65536

/* Heaps with ids below HEAPS_ALONE each get a run of slabs of their own, for programs with few threads; room
 * for those that follow is taken for HEAPS_AT_ONCE at a time. */
#define HEAPS_ALONE 8
#define HEAPS_AT_ONCE 5

/* `common` puts it behind all else that starts as zero: it is only read, and so costs no page. Not in a
 * static library, where it would be the same as a variable of the program's with this name. */
#ifdef HAKMEM_STATIC
struct heap heap_of_no_thread;
#else
__attribute__((common)) struct heap heap_of_no_thread;
#endif

/* release store in heap_make pairs with the acquire load in heap_id_limit: whoever sees an id finds its heap
 * in the table */
static _Atomic uint32_t id_limit = HEAP_FIRST_ID;

_Atomic uint32_t heap_id_of_samples;

/* Few programs have more threads at once; for those that do, a table of all ids is made. The release store of
 * an entry in heap_make pairs with the acquire load in heap_by_id: whoever sees a heap sees it made. */
#define FIRST_HEAPS 64
static struct heap *_Atomic first_heaps[FIRST_HEAPS];
/* release store in make_more_heaps pairs with the acquire load in entry: the table reads as zero by then */
static struct heap *_Atomic *_Atomic more_heaps;

/* Where the table has the heap with this id; NULL if it has no room for it. */
static struct heap *_Atomic *entry(uint32_t id) {
    if (LIKELY(id < FIRST_HEAPS)) {
        return &first_heaps[id];
    }
    struct heap *_Atomic *table = atomic_load_explicit(&more_heaps, memory_order_acquire);
    return table == NULL || id >= HEAP_IDS ? NULL : &table[id];
}

struct heap *heap_by_id(uint32_t id) {
    struct heap *_Atomic *heap = entry(id);
    return heap == NULL ? NULL : atomic_load_explicit(heap, memory_order_acquire);
}

uint32_t heap_id_limit(void) {
    return atomic_load_explicit(&id_limit, memory_order_acquire);
}

/* Makes resident slabs a heap that is all zero as far as that matters, and gives back most of the room for
 * parcels and magazines, which is not used for long, or never. */
static COLD void clear(struct heap *heap) {
    memset(heap, 0, offsetof(struct heap, parcels));
    char *from = (char *)round_up((uintptr_t)heap->parcels, OS_PAGE_BYTES);
    struct iovec room = {from, (size_t)((char *)heap + HEAP_BYTES - from)};
    bool done; /* if not, it stays as it is: nobody counts on zeros there */
    arena_purge_holes(&room, 1, &done);
}

/* Gives back the pages of slabs that are for threads which may never come; true if all of it is zero now. */
static COLD bool give_back_room(char *room, unsigned slabs) {
    struct iovec all = {room, slabs * SLAB_BYTES};
    bool done;
    arena_purge_holes(&all, 1, &done);
    return done;
}

/* Room for a heap, which `*zero` says is zero; NULL if there is no memory. From id HEAPS_ALONE on it is taken
 * a superslab's worth at a time: heaps stay for ever, and one in each superslab would keep all of these from
 * being wholly free again. Registry's lock held. */
static struct heap *take_room(uint32_t id, bool *zero) {
    static char *room;
    static unsigned heaps;
    static bool is_zero;
    for (unsigned at_once = id < HEAPS_ALONE ? 1 : HEAPS_AT_ONCE; heaps == 0 && at_once > 0; at_once /= 2) {
        struct taken taken;
        unsigned slabs = at_once * (unsigned)(HEAP_BYTES / SLAB_BYTES);
        struct slab *run = arena_take(slabs, 1, SLAB_INTERNAL, ARENA_USE_OWN, &taken);
        if (run != NULL) {
            room = (char *)arena_address(run);
            heaps = at_once;
            is_zero = taken.zero || (heaps > 1 && give_back_room(room, slabs));
        }
    }
    if (heaps == 0) {
        return NULL;
    }
    struct heap *heap = (struct heap *)(void *)room;
    room += HEAP_BYTES;
    heaps--;
    *zero = is_zero;
    return heap;
}

static struct heap *make(uint32_t id, enum heap_state state) {
    bool zero = false;
    struct heap *heap = take_room(id, &zero);
    if (heap == NULL) {
        return NULL;
    }
    if (!zero) {
        clear(heap);
    }
    heap->magazines[0].top = NULL; /* written to before it is read, or the page takes two faults */
    heap->id = id;
    /* relaxed: the release store of the table entry publishes it */
    atomic_store_explicit(&heap->state, state, memory_order_relaxed);
    heap->tag = page_word(id, 0);
    heap->slots_free = heap_first_slot(heap);
    heap->slots_end = (void **)(void *)((char *)heap + HEAP_BYTES);
    return heap;
}

static bool make_more_heaps(void) {
    /* relaxed: written under the registry's lock, which is held */
    if (atomic_load_explicit(&more_heaps, memory_order_relaxed) != NULL) {
        return true; /* made by a call before, which then had no memory for the heap */
    }
    struct taken taken;
    size_t bytes = HEAP_IDS * sizeof(struct heap *);
    struct slab *run = arena_take((unsigned)(bytes >> SLAB_SHIFT), 1, SLAB_INTERNAL, ARENA_USE_OWN, &taken);
    if (run == NULL) {
        return false;
    }
    void *table = (void *)arena_address(run);
    if (!taken.zero) {
        memset(table, 0, bytes);
    }
    atomic_store_explicit(&more_heaps, (struct heap * _Atomic *)table, memory_order_release);
    return true;
}

struct heap *heap_make(enum heap_state state) {
    /* relaxed: written under the registry's lock, which is held */
    uint32_t id = atomic_load_explicit(&id_limit, memory_order_relaxed);
    struct heap *heap = NULL;
    if (id < HEAP_IDS && (id != FIRST_HEAPS || make_more_heaps())) {
        heap = make(id, state);
    }
    if (heap != NULL) {
        atomic_store_explicit(entry(id), heap, memory_order_release);
        atomic_store_explicit(&id_limit, id + 1, memory_order_release);
    }
    return heap;
}

COLD void heap_count_states(struct heap_counts *out) {
    *out = (struct heap_counts){0, 0, 0};
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        /* relaxed: a statistic */
        switch (atomic_load_explicit(&heap_by_id(id)->state, memory_order_relaxed)) {
        case HEAP_ABANDONED:
            out->abandoned++;
            break;
        case HEAP_SHARED:
            out->shared++;
            break;
        case HEAP_OF_SAMPLES:
            break;
        default:
            out->active++;
            break;
        }
    }
}
