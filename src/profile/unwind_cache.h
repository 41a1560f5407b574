/* The rules of the instructions that were met before.
 *
 * A table of fixed size, mapped when the first rule is put into it. Any thread may look up and put at any
 * time, in a signal handler too; nobody waits. Promises that a rule is found under the key that it was put
 * under, or not at all: the two words of an entry are written one after the other, and must give the key
 * together. Nothing needs to be done at a fork. Relies on pages.
 */
#ifndef HAKMEM_PROFILE_UNWIND_CACHE_H
#define HAKMEM_PROFILE_UNWIND_CACHE_H

#include "base/bits.h"
#include "profile/unwind_rule.h"

#include <stdatomic.h>

#define CACHE_SETS_LOG2 12
#define CACHE_WAYS 2

/* relaxed everywhere: whoever reads an entry checks that its words belong together. */
struct cache_entry {
    _Atomic uint64_t check; /* key ^ rule * GOLDEN_64, which is not so where two entries have got mixed */
    _Atomic uint64_t rule;  /* 0: none */
};

struct cache {
    struct cache_entry sets[(size_t)1 << CACHE_SETS_LOG2][CACHE_WAYS];
};

/* The table; NULL until something was put. */
extern INTERNAL struct cache *_Atomic unwind_cache;

/* Puts a rule under `key`, unless there is no memory for the table. Keeps errno. */
void cache_put(uint64_t key, struct rule rule);

/* The key of the instruction at `address`. The identity of its module is part of it, so that rules of another
 * module that was at its place before are not found. */
static inline uint64_t cache_key(uintptr_t address, uint64_t module_identity) {
    return address ^ module_identity;
}

static inline size_t cache_set(uint64_t key) {
    return (size_t)(key * GOLDEN_64 >> (64 - CACHE_SETS_LOG2));
}

/* Finds the rule that was put under `key`; false if it is not there, or not any more. */
static inline bool cache_get(uint64_t key, struct rule *out) {
    /* acquire pairs with the release in make: the table is mapped */
    struct cache *cache = atomic_load_explicit(&unwind_cache, memory_order_acquire);
    if (UNLIKELY(cache == NULL)) {
        return false;
    }
    struct cache_entry *set = cache->sets[cache_set(key)];
    for (size_t way = 0; way < CACHE_WAYS; way++) {
        /* relaxed: the entry checks itself */
        uint64_t rule = atomic_load_explicit(&set[way].rule, memory_order_relaxed);
        uint64_t check = atomic_load_explicit(&set[way].check, memory_order_relaxed);
        if (LIKELY((check ^ rule * GOLDEN_64) == key && rule != 0)) {
            *out = rule_from_word(rule);
            return true;
        }
    }
    return false;
}

#endif
