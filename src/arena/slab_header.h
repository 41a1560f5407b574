/* What is known of a slab: its header.
 *
 * Promises one cache line for each slab, in a dense array (arena/region.h) that stays readable for
 * ever, so that a thread that comes late to a released slab finds a state and not a fault. Who may
 * change the state, and in which order, is in docs/design.md. Relies on nothing.
 */
#ifndef HAKMEM_ARENA_SLAB_HEADER_H
#define HAKMEM_ARENA_SLAB_HEADER_H

#include "base/bits.h"

#include <stdatomic.h>
#include <stddef.h>

enum slab_state {
    SLAB_FREE,     /* the arena's */
    SLAB_CURRENT,  /* its owner takes blocks from it */
    SLAB_FULL,     /* parked, no free block known, in no list */
    SLAB_QUEUED,   /* on its way through the owner's inbox */
    SLAB_PARTIAL,  /* in the owner's list of slabs with free blocks */
    SLAB_LARGE,    /* one large or huge block */
    SLAB_INTERNAL, /* the allocator's own memory */
    SLAB_KEPT,     /* the run of a freed large block: on its way to the arena, or kept (heap/runs.h) */
};

/* Whether a run in `state` is one of blocks of a size class. */
static inline bool slab_state_has_blocks(uint8_t state) {
    return (unsigned)state - SLAB_CURRENT <= SLAB_PARTIAL - SLAB_CURRENT;
}

/* What is known of the free blocks in a slab's bitmap. Except for SLAB_NONE_RETURNED, the bitmap is worth a
 * look. */
enum slab_returned {
    SLAB_NONE_RETURNED,
    SLAB_RETURNED,      /* a block came back since anybody looked */
    SLAB_SEEN,          /* none came back since holes.c looked */
    SLAB_HOLES_LEFT,    /* none since, and too few are free for their pages to be given back */
    SLAB_WITHOUT_HOLES, /* none since, and pages that hold nothing but free blocks were given back */
};

/* What is known of a tail, the memory between the end of a large block and that of its run: tails.h. */
enum slab_tail {
    TAIL_CLEAN,  /* not resident, as far as it counts */
    TAIL_DIRTY,  /* may be resident, and counts */
    TAIL_PURGED, /* is being given back by whoever set this: nobody else may touch it until that is done */
};

/* One cache line. The header of a run is that of its first slab; those of the others are not touched. */
struct slab {
    _Atomic uint64_t summary[2]; /* bit w: word w of the bitmap may be non-zero; any thread; see slab_add */
    _Atomic uint64_t *words;     /* the bitmap: 1 = free; zero throughout while only bumped; see slab_add */
    _Atomic uint32_t bump; /* blocks handed out for the first time so far; owner writes; relaxed everywhere */
    _Atomic uint32_t owner; /* id of the heap; changes only while SLAB_PARTIAL, under its lock */
    union {
        struct {
            _Atomic uint8_t state; /* enum slab_state */
            uint8_t size_class;
            union {
                _Atomic uint8_t returned; /* of a run of blocks: enum slab_returned; relaxed: a hint */
                _Atomic uint8_t tail; /* of a large run: enum slab_tail; who may change it, and the orders:
                                         tails.c */
            };
            uint8_t run_slabs; /* length of the run; 0 if it consists of whole superslabs (arena_take_huge) */
        };
        _Atomic uint32_t kind; /* the four, for one look at them: slab_is */
    };
    /* Words in which every block is free; exact while parked. While the run is free, pages that were given
     * back of it when it last had blocks: slab_leave. */
    _Atomic uint16_t full_words;
    bool moved : 1;      /* a huge run whose pages came by os_move_pages */
    bool tail_dirty : 1; /* what of a huge run is behind its block may be resident */
    /* Of a large or huge block; see huge_pages.h */
    bool huge_pages : 1; /* asks the kernel for huge pages */
    bool ahead : 1;      /* got pages before it was written to */
    bool next_ahead : 1; /* its last superslab came ahead, because it grows by steps */
    bool watched : 1;    /* tells, when it is freed, whether the program filled it */
    bool cleared : 1;    /* tells, when it is freed, whether it was sparse: clear.h */
    bool sampled : 1;    /* a large or huge block that the profile knows; its owner writes */
    union {
        bool taken_clean; /* of a run of blocks: nothing of it was resident when it was taken */
        bool resized;     /* of a large block: it has been resized, or came of that */
    };
    union {
        struct slab *next;       /* in the inbox or in the owner's list */
        uintptr_t watched_start; /* of a large or huge block: where the part that tells of it begins */
    };
    union {
        struct slab *previous; /* in the owner's list */
        size_t watched_bytes;  /* of that part, of which nothing was resident at first */
    };
    /* Usable bytes of a large or huge block. Of a run of blocks, the lower half has the bytes perhaps used,
     * and the upper half a mask of pages that were given back while the run is in a list: see slab.h. relaxed
     * everywhere: whoever writes it has the run, or its heap's lock */
    _Atomic size_t span_bytes;
};
_Static_assert(sizeof(struct slab) == CACHE_LINE_BYTES, "a slab header is one cache line");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
                   offsetof(struct slab, state) == offsetof(struct slab, kind) &&
                   offsetof(struct slab, size_class) == offsetof(struct slab, kind) + 1 &&
                   offsetof(struct slab, returned) == offsetof(struct slab, kind) + 2 &&
                   offsetof(struct slab, run_slabs) == offsetof(struct slab, kind) + 3,
               "the bytes of slab_kind");

#endif
