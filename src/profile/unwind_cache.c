#include "profile/unwind_cache.h"

#include "os/pages.h"

#include <errno.h>

struct cache *_Atomic unwind_cache;

/* Maps the table, or takes the one that another thread has made; NULL if there is no memory. Keeps errno. */
static struct cache *make(void) {
    int saved_errno = errno;
    struct cache *made = pages_take(sizeof *made);
    struct cache *first = NULL;
    /* acq_rel: release pairs with the acquire in cache_get and cache_put, acquire with another
     * thread's release here */
    if (made != NULL && !atomic_compare_exchange_strong_explicit(
                            &unwind_cache, &first, made, memory_order_acq_rel, memory_order_acquire)) {
        pages_give(made, sizeof *made);
        made = first;
    }
    errno = saved_errno;
    return made;
}

void cache_put(uint64_t key, struct rule rule) {
    /* acquire pairs with the release in make: the table is mapped */
    struct cache *cache = atomic_load_explicit(&unwind_cache, memory_order_acquire);
    if (cache == NULL) {
        cache = make();
    }
    if (cache == NULL) {
        return; /* the next walk works it out again */
    }
    struct cache_entry *set = cache->sets[cache_set(key)];
    /* The new entry goes to the front of its set, and the oldest one is overwritten. relaxed: an entry that
     * two threads have mixed does not give the key that is asked for */
    for (size_t way = CACHE_WAYS - 1; way > 0; way--) {
        uint64_t moved = atomic_load_explicit(&set[way - 1].rule, memory_order_relaxed);
        uint64_t check = atomic_load_explicit(&set[way - 1].check, memory_order_relaxed);
        atomic_store_explicit(&set[way].rule, moved, memory_order_relaxed);
        atomic_store_explicit(&set[way].check, check, memory_order_relaxed);
    }
    uint64_t word = rule_word(rule);
    atomic_store_explicit(&set[0].rule, word, memory_order_relaxed);
    atomic_store_explicit(&set[0].check, key ^ word * GOLDEN_64, memory_order_relaxed);
}
