#include "arena/arena.h"
#include "arena/behind.h"
#include "arena/huge_pages.h"
#include "arena/tails.h"
#include "heap/large.h"
#include "heap/runs.h"
#include "os/move.h"
#include "os/report.h"
#include "profile/sample.h"

#include <string.h>

/* Moves the pages of a huge block, which cannot grow where it stands, and whose page-map word is taken, to a
 * larger run; NULL if there is none. */
static void *move_huge(struct heap *heap, struct slab *slab, void *p, size_t span) {
    struct zeros zeros;
    struct slab *target = arena_take_huge(span, SUPERSLAB_BYTES, true, &zeros);
    if (target == NULL) {
        return NULL;
    }
    uintptr_t address = arena_address(target);
    void *moved = (void *)address;
    behind_give_up(slab);
    /* The whole run and not just the span: what is left behind must read as zero throughout. */
    enum os_move move = os_move_pages(p, moved, arena_run_slabs(slab) << SLAB_SHIFT);
    if (move == OS_TARGET_LOST) {
        /* The run stays taken for ever: its addresses may be another mapping's by now. */
        report_fallback(FALLBACK_RUN_LOST, span);
        return NULL;
    }
    bool by_pages = move == OS_MOVED;
    if (by_pages) {
        target->moved = true;
        if (heap != NULL) {
            count(&heap->counters.huge_remaps, 1);
        }
    } else {
        report_fallback(FALLBACK_MOVE_BY_COPY, arena_span(slab));
        memcpy(moved, p, arena_span(slab));
    }
    size_t had = arena_span(slab);
    arena_set_span(target, span);
    page_map_set(address, 1, page_word(PAGE_OWNER_HUGE, 0));
    if (by_pages) {
        huge_pages_moved(slab, target);
        huge_pages_grown(target, had, span);
    }
    if (UNLIKELY(slab->sampled)) { /* before the old place may be another block's */
        slab->sampled = false;
        target->sampled = true;
        profile_rename((uintptr_t)p, address);
    }
    arena_give_huge(slab, !by_pages);
    return moved;
}

/* Gives a block of the large lane another length where it stands; false if its neighbours are not free. */
static bool resize_run(struct heap *heap, struct slab *slab, size_t span) {
    unsigned slabs = large_slabs(span);
    bool longer = slabs > slab->run_slabs;
    size_t had = arena_span(slab);
    bool was_dirty = tails_remove(slab, had);
    if (slabs < slab->run_slabs) {
        huge_pages_shortened(slab, span);
    }
    bool done = slabs == slab->run_slabs || arena_resize(slab, slabs) ||
                (heap != NULL && runs_return(heap) > 0 && arena_resize(slab, slabs));
    if (done) {
        arena_set_span(slab, span);
    }
    /* What the block has grown into may have been used before, and what it gives up was. */
    if (was_dirty || (done && (longer || span < had))) {
        tails_add(slab, arena_span(slab));
    }
    return done;
}

static void *resize(struct heap *heap, void *p, size_t size, uint32_t word) {
    size_t span = large_span(size);
    bool was_huge = page_word_owner(word) == PAGE_OWNER_HUGE;
    if (size <= MID_MAX_BYTES || was_huge != (span > LARGE_MAX_BYTES)) {
        return NULL; /* it is to be a block of another lane */
    }
    if (was_huge) { /* so that nobody else frees or resizes it meanwhile */
        large_take_word("invalid realloc", p);
    }
    struct slab *slab = large_head("invalid realloc", p);
    if (!was_huge) {
        return resize_run(heap, slab, span) ? p : NULL;
    }
    void *resized = arena_resize_huge(slab, span) ? p : move_huge(heap, slab, p, span);
    if (resized == NULL || resized == p) {
        page_map_set((uintptr_t)p, 1, word);
    }
    return resized;
}

void *large_resize(struct heap *heap, void *p, size_t size, uint32_t word) {
    heap_enter(heap);
    void *resized = resize(heap, p, size, word);
    heap_leave(heap);
    return resized;
}
