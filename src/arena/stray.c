#include "arena/stray.h"

#include "arena/address_space.h"
#include "arena/internal.h"
#include "arena/run.h"

#define ENDED_NOTED 8

/* Where the last blocks began whose regions have ended. relaxed everywhere: it orders nothing */
static _Atomic uintptr_t ended[ENDED_NOTED];

/* relaxed, both: the program is about to end; a guess at what it did is all that is wanted */
static uint8_t state_of(const struct slab *slab) {
    return atomic_load_explicit(&slab->state, memory_order_relaxed);
}

static RARE struct stray look(const struct region *r, uintptr_t address) {
    size_t index = region_slab_index(r, address);
    const struct slab *slab = region_slab(r, index);
    bool begins_slab = address % SLAB_BYTES == 0;
    for (size_t back = 0; back <= index; back++) {
        const struct slab *head = region_slab(r, index - back);
        if (state_of(head) == SLAB_LARGE && arena_run_slabs(head) > back) {
            enum stray_kind kind = begins_slab && back == 0 ? STRAY_TAKEN : STRAY_INSIDE;
            return (struct stray){
                .kind = kind, .huge = arena_run_is_huge(head), .block = arena_address(head)};
        }
    }
    bool was_freed = state_of(slab) == SLAB_FREE || state_of(slab) == SLAB_KEPT;
    if (!begins_slab || !was_freed || arena_span(slab) == 0) {
        return (struct stray){.kind = STRAY_UNKNOWN};
    }
    return (struct stray){.kind = STRAY_GONE,
                          .huge = arena_run_is_huge(slab),
                          .run_slabs = slab->run_slabs,
                          .size_class = slab->size_class};
}

RARE struct stray arena_stray(uintptr_t address) {
    struct stray stray = {.kind = STRAY_UNKNOWN};
    if (arena_lock_in_time()) {
        const struct region *r = region_of_any(address);
        /* Regions end with huge blocks only. */
        stray = r == NULL ? (struct stray){.kind = STRAY_GONE, .huge = true} : look(r, address);
        lock_release(&arena.lock);
    }
    return stray;
}

COLD void stray_note_ended(uintptr_t block) {
    static unsigned next; /* under the arena's lock */
    atomic_store_explicit(&ended[next++ % ENDED_NOTED], block, memory_order_relaxed);
}

RARE bool stray_has_ended(uintptr_t address) {
    bool found = false;
    for (unsigned i = 0; i < ENDED_NOTED; i++) {
        found = found || atomic_load_explicit(&ended[i], memory_order_relaxed) == address;
    }
    return found;
}
