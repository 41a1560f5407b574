#include "heap/bins.h"

#include "arena/arena.h"
#include "heap/adopt.h"
#include "heap/ahead.h"
#include "heap/event.h"
#include "heap/fresh.h"
#include "heap/heap_table.h"
#include "heap/partial.h"
#include "heap/slack.h"

/* Of a heap that a thread has, others take only slabs of which so much is free: one that is nearly full would
 * be pinned by the few blocks that they get of it when its owner is done with the others. */
#define ADOPTED_FREE_PART 4

static uint8_t state_of(const struct slab *slab) {
    /* relaxed: under the owner's lock, or a first look that is verified */
    return atomic_load_explicit(&slab->state, memory_order_relaxed);
}

void bin_drain_inbox(struct heap *heap) {
    /* acquire pairs with the release in bin_queue: the pusher's write to slab->next; seq_cst for
     * bin_release_if_free */
    struct slab *slab = atomic_exchange_explicit(&heap->inbox, NULL, memory_order_seq_cst);
    while (slab != NULL) {
        struct slab *next = slab->next;
        partial_add(heap, slab);
        slab = next;
    }
}

/* Bytes of blocks of a slab of the owner's that were never handed out, but are resident. */
static int64_t fresh_bytes_of(const struct slab *slab) {
    const struct size_class *c = &size_classes[slab->size_class];
    /* relaxed: its owner's, or nobody else's any more */
    uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    return slab->taken_clean ? 0 : (int64_t)((c->blocks - bump) * c->bytes);
}

/* Gives a slab to the arena that is in no list, and that nobody else can reach any more but by misuse. */
static void give_back(struct heap *self, struct slab *slab) {
    const struct size_class *c = &size_classes[slab->size_class];
    uintptr_t start = arena_address(slab);
    for (unsigned w = 0; w < c->words; w++) {
        /* relaxed: the arena's lock carries it to whoever takes the run next */
        atomic_store_explicit(&slab->words[w], 0, memory_order_relaxed);
    }
    page_map_set(start, c->run_slabs, 0);
    struct region *region = region_of(start);
    region_mark_run(region, region_slab_index(region, start), c->run_slabs, false);
    if (self != NULL) {
        count(&self->counters.slabs_released, 1);
    }
    /* relaxed: nobody else changes it any more */
    uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    slack_add(self, -(int64_t)(bump * c->bytes));
    fresh_add(self, -fresh_bytes_of(slab));
    slack_note_purged(-(int64_t)slab_purged_bytes(slab));
    slab_leave(slab);
    size_t used = slab->taken_clean ? slab_span(slab) : c->run_slabs * SLAB_BYTES;
    arena_give(slab, used, c->words * sizeof(uint64_t) > SMALL_BITMAP_BYTES);
}

/* Takes the slab out of its list if it is wholly free; the owner's lock is held. */
static bool unlink_if_free(struct heap *owner, struct slab *slab) {
    if (state_of(slab) != SLAB_PARTIAL || !slab_all_free(slab)) {
        return false;
    }
    partial_remove(owner, slab);
    /* Nobody's from here on: a thread that comes late and compares owners under this lock then sees
     * that the slab is not in the lock's care any more. relaxed: under the lock, and arena/walk.c takes
     * SLAB_INTERNAL as it finds it */
    atomic_store_explicit(&slab->owner, 0, memory_order_relaxed);
    atomic_store_explicit(&slab->state, SLAB_INTERNAL, memory_order_relaxed);
    return true;
}

void bin_release_if_free(struct heap *self, struct slab *slab) {
    for (;;) {
        /* relaxed: verified under the lock; the slab may have changed hands or been released by now */
        struct heap *owner = heap_by_id(atomic_load_explicit(&slab->owner, memory_order_relaxed));
        if (owner == NULL) {
            return;
        }
        lock_acquire(&owner->lock);
        /* acquire pairs with the releases in slab_init and bin_adopt: where the owner is the new one,
         * the state is not the old one */
        if (atomic_load_explicit(&slab->owner, memory_order_acquire) != owner->id) {
            lock_release(&owner->lock);
            continue;
        }
        /* seq_cst: after slab_put's count of full words, as bin_queue reads that count after it has set
         * the state and pushed; one of the two sees the other */
        if (atomic_load_explicit(&slab->state, memory_order_seq_cst) == SLAB_QUEUED) {
            bin_drain_inbox(owner);
        }
        bool unlinked = unlink_if_free(owner, slab);
        lock_release(&owner->lock);
        if (unlinked) {
            give_back(self, slab);
        }
        return;
    }
}

void bin_sweep(struct heap *self, struct heap *heap) {
    struct slab *released = NULL;
    lock_acquire(&heap->lock);
    bin_drain_inbox(heap);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        struct slab *next;
        for (struct slab *slab = partial_first(heap, c); slab != NULL; slab = next) {
            next = slab->next;
            if (unlink_if_free(heap, slab)) {
                slab->next = released;
                released = slab;
            }
        }
    }
    lock_release(&heap->lock);
    while (released != NULL) {
        struct slab *next = released->next;
        give_back(self, released);
        released = next;
    }
}

/* Parks the class's current slab, which has nothing left as far as its owner knows. */
static void park(struct heap *heap, unsigned size_class) {
    struct bin *bin = &heap->bins[size_class];
    struct slab *slab = bin->current;
    /* Let go first: from the moment it is FULL, others may queue and release it. */
    bin->current = NULL;
    bin->used_up = true;
    /* seq_cst, the store and the loads: pairs with slab_put and bin_queue, which write the summary and
     * then read the state; one side sees the other */
    atomic_exchange_explicit(&slab->state, SLAB_FULL, memory_order_seq_cst);
    uint64_t free_words = atomic_load_explicit(&slab->summary[0], memory_order_seq_cst) |
                          atomic_load_explicit(&slab->summary[1], memory_order_seq_cst);
    if (free_words != 0) {
        bin_queue(heap, slab); /* blocks came back just now */
    }
}

static void note_used(struct heap *heap, unsigned size_class) {
    heap->used_bins[size_class / 64] |= (uint64_t)1 << size_class % 64;
}

COLD void bin_settle_after_fork(struct heap *heap, unsigned size_class) {
    struct bin *bin = &heap->bins[size_class];
    if (bin->aside == bin->current || (bin->aside != NULL && state_of(bin->aside) != SLAB_CURRENT)) {
        bin->aside = NULL;
    }
    if (bin->current != NULL && state_of(bin->current) != SLAB_CURRENT) {
        bin->current = NULL;
    }
    if (bin->current == NULL) {
        bin->pending[0] = bin->pending[1] = 0;
    }
    if (bin->current != NULL || bin->aside != NULL) {
        note_used(heap, size_class); /* the lost thread may not have come to noting it */
    }
}

static void retire(struct heap *heap, struct slab *slab, uint64_t pending[2]) {
    fresh_add(heap, -fresh_bytes_of(slab)); /* slack from here on */
    slack_add(heap, (int64_t)slab_settle(slab, pending));
    lock_acquire(&heap->lock);
    partial_add(heap, slab);
    lock_release(&heap->lock);
    bin_release_if_free(heap, slab);
}

void bin_retire(struct heap *heap, unsigned size_class) {
    struct bin *bin = &heap->bins[size_class];
    struct slab *slab = bin->current;
    if (slab != NULL) {
        bin->current = NULL;
        bin->used_up = !slab_has_fresh(slab);
        retire(heap, slab, bin->pending);
    }
    slab = bin->aside;
    if (slab != NULL) {
        uint64_t none[2] = {0, 0};
        bin->aside = NULL;
        retire(heap, slab, none);
    }
}

void bin_queue(struct heap *self, struct slab *slab) {
    uint8_t expected = SLAB_FULL;
    /* seq_cst: pairs with park. Whoever wins owns the slab's list links until it is pushed. */
    if (!atomic_compare_exchange_strong_explicit(&slab->state, &expected, SLAB_QUEUED, memory_order_seq_cst,
                                                 memory_order_seq_cst)) {
        return;
    }
    if (self != NULL) {
        self->slabs_opened++;
    }
    unsigned words = size_classes[slab->size_class].words;
    /* relaxed: a slab that is neither current nor in a list keeps its owner */
    struct heap *owner = heap_by_id(atomic_load_explicit(&slab->owner, memory_order_relaxed));
    if (owner == self) {
        lock_acquire(&owner->lock);
        partial_add(owner, slab);
        lock_release(&owner->lock);
    } else {
        struct slab *head = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
        do {
            slab->next = head;
            /* release pairs with the acquire in bin_drain_inbox; seq_cst for what follows */
        } while (!atomic_compare_exchange_weak_explicit(&owner->inbox, &head, slab, memory_order_seq_cst,
                                                        memory_order_relaxed));
    }
    /* The last block may have come back before the slab was in a list. seq_cst: see
     * bin_release_if_free. From here on the slab may be released by anyone, so nothing but its atomics
     * may be read. */
    if (atomic_load_explicit(&slab->full_words, memory_order_seq_cst) == words) {
        bin_release_if_free(self, slab);
    }
}

static void set_current(struct heap *heap, unsigned size_class, struct slab *slab) {
    heap->bins[size_class].current = slab;
    note_used(heap, size_class);
}

static void make_current(struct heap *heap, unsigned size_class, struct slab *slab) {
    set_current(heap, size_class, slab);
    /* relaxed, here and for the span: the slab came out of a list under the lock; others take both as
     * hints */
    atomic_store_explicit(&slab->state, SLAB_CURRENT, memory_order_relaxed);
    if (UNLIKELY(slab_purged(slab) != 0)) {
        slack_note_taken(slab_purged_bytes(slab));
        slack_note_purged(-(int64_t)slab_purged_bytes(slab));
    }
    atomic_store_explicit(&slab->span_bytes, slab->run_slabs * SLAB_BYTES, memory_order_relaxed);
}

/* Another thread's free may still read the old owner in the page map: it keeps such a block as it would one
 * of another heap's, and returns it to the bitmap, where nobody asks whose it is. */
bool bin_adopt(struct heap *heap, unsigned size_class, struct heap *from) {
    struct slab *slab = NULL;
    lock_acquire(&from->lock);
    bin_drain_inbox(from);
    /* relaxed: a heap with slabs in its lists got its state before these, and the lock brings it along;
     * whether a thread has it may change at any time */
    uint32_t state = atomic_load_explicit(&from->state, memory_order_relaxed);
    if (state == HEAP_ABANDONED) {
        slab = partial_fullest(from, size_class);
    } else if (state == HEAP_ACTIVE) {
        slab = partial_sparse(from, size_class, size_classes[size_class].blocks / ADOPTED_FREE_PART);
    }
    if (slab != NULL) {
        partial_remove(from, slab);
        make_current(heap, size_class, slab);
        heap->bins[size_class].fresh = 0;
        /* release pairs with the acquire in bin_release_if_free; a thread that read the old owner takes
         * the old owner's lock and looks again */
        atomic_store_explicit(&slab->owner, heap->id, memory_order_release);
        page_map_set(arena_address(slab), slab->run_slabs, page_word(heap->id, size_class * CLASS_SCALE));
    }
    lock_release(&from->lock);
    return slab != NULL;
}

static bool fresh_slab(struct heap *heap, unsigned size_class) {
    const struct size_class *c = &size_classes[size_class];
    struct bin *bin = &heap->bins[size_class];
    struct taken taken;
    enum arena_use use = ahead_use(heap, size_class);
    struct slab *slab = arena_take(c->run_slabs, 1, SLAB_INTERNAL, use, &taken);
    if (slab == NULL) {
        return false;
    }
    struct region *region = region_of((uintptr_t)slab);
    size_t index = region_slab_number(region, slab);
    _Atomic uint64_t *words = region_bitmap(region, index, c->words * sizeof(uint64_t));
    region_mark_run(region, index, c->run_slabs, true);
    size_class_grow(size_class);
    size_t left = taken.zero ? 0 : slab_left_purged_bytes(slab, c->run_slabs);
    slab->taken_clean = taken.zero ? !taken.resident
                                   : !bin->used_up && fresh_clean_if_many(slab, (size_t)c->blocks * c->bytes);
    if (UNLIKELY(left > 0)) { /* its holes are wanted again, although its other blocks came back since */
        slack_note_taken(left);
    }
    slab_init(slab, size_class, heap->id, words);
    page_map_set(region->base + (index << SLAB_SHIFT), c->run_slabs,
                 page_word(heap->id, size_class * CLASS_SCALE));
    set_current(heap, size_class, slab);
    bin->pending[0] = bin->pending[1] = 0;
    if (taken.zero && use == ARENA_USE_UNKNOWN) {
        bin->fresh++;
    }
    if (taken.zero && !taken.resident && arena_is_large() && ahead_of_run(heap, slab, use)) {
        slab->taken_clean = false;
    }
    fresh_add(heap, fresh_bytes_of(slab));
    count(&heap->counters.slabs_created, 1);
    count(&heap->counters.slabs_recycled, taken.zero ? 0 : 1);
    heap_event(HEAP_EVENT_IN_PROGRAM);
    return true;
}

/* The counter of a stage of refill. */
typedef _Atomic uint64_t stage;

/* The fullest of the partly-used slabs becomes the current one. Gives the stage that this is, or NULL. */
static stage *partial_slab(struct heap *heap, unsigned size_class) {
    /* relaxed: an idle look; bin_drain_inbox acquires */
    if (partial_first(heap, size_class) == NULL &&
        atomic_load_explicit(&heap->inbox, memory_order_relaxed) == NULL) {
        return NULL;
    }
    struct bin *bin = &heap->bins[size_class];
    bool returned = partial_first(heap, size_class) == NULL; /* what there is comes from the inbox */
    lock_acquire(&heap->lock);
    bin_drain_inbox(heap);
    struct slab *slab = partial_fullest(heap, size_class);
    if (slab != NULL) {
        partial_remove(heap, slab);
        if (bin->current != NULL) {
            bin->aside = bin->current;
        }
        make_current(heap, size_class, slab);
    }
    lock_release(&heap->lock);
    if (slab == NULL) {
        return NULL;
    }
    bin->fresh = 0;
    return returned ? &heap->counters.refills_inbox : &heap->counters.refills_partial;
}

/* As bin_take_used; `current` is the stage that the current slab comes from. */
static size_t take_used(struct heap *heap, unsigned size_class, void **out, size_t want, stage *current) {
    struct bin *bin = &heap->bins[size_class];
    for (;;) {
        struct slab *slab = bin->current;
        if (slab != NULL) {
            size_t n = slab_take_returned(slab, arena_address(slab), bin->pending, out, want);
            if (n > 0) {
                count(current, 1);
                slack_add(heap, -(int64_t)(n * size_classes[size_class].bytes));
                return n;
            }
            if (!slab_has_fresh(slab)) {
                park(heap, size_class);
            }
        }
        current = partial_slab(heap, size_class);
        if (current == NULL) {
            return 0;
        }
    }
}

/* Also takes blocks of other slabs, before those of the current one that were never used: the pages of
 * used ones are there. If it gives 0, there is no current slab, or one that has only blocks which were
 * never used. */
size_t bin_take_used(struct heap *heap, unsigned size_class, void **out, size_t want) {
    return take_used(heap, size_class, out, want, &heap->counters.refills_current);
}

/* Makes the slab that was set aside, one of another heap, or a new one the current slab; there is none. Gives
 * the stage that this is; NULL if there is no memory. */
static stage *next_slab(struct heap *heap, unsigned size_class) {
    struct bin *bin = &heap->bins[size_class];
    if (bin->aside != NULL) {
        bin->current = bin->aside;
        bin->aside = NULL;
        return &heap->counters.refills_current;
    }
    if (adopt_slab(heap, size_class)) {
        count(&heap->counters.slabs_adopted, 1);
        return &heap->counters.refills_adopted;
    }
    return fresh_slab(heap, size_class) ? &heap->counters.refills_fresh : NULL;
}

size_t bin_take(struct heap *heap, unsigned size_class, void **out, size_t want) {
    struct bin *bin = &heap->bins[size_class];
    for (stage *current = &heap->counters.refills_current;;) {
        if (bin->current == NULL) {
            current = next_slab(heap, size_class);
            if (current == NULL) {
                return 0;
            }
        }
        if (slab_has_fresh(bin->current)) {
            count(current, 1);
            size_t n = slab_take_fresh(bin->current, arena_address(bin->current), out, want);
            if (!bin->current->taken_clean) {
                fresh_add(heap, -(int64_t)(n * size_classes[size_class].bytes));
            }
            return n;
        }
        size_t n = take_used(heap, size_class, out, want, current);
        if (n > 0) {
            return n;
        }
    }
}
