#include "heap/fresh.h"

#include "arena/purge.h"

/* Fresh blocks may take FRESH_TIMES what free blocks in slabs may: what is given back of them is sure to be
 * wanted again. */
#define FRESH_TIMES 2

_Atomic int64_t fresh_resident;

COLD bool fresh_clean(struct slab *slab, size_t bytes) {
    int64_t now = atomic_load_explicit(&fresh_resident, memory_order_relaxed);
    return now + (int64_t)bytes > FRESH_TIMES * slack_allowed() && arena_purge_taken(slab);
}
