/* The sampled blocks that are live: a hash table from address to record.
 *
 * Promises to grow as needed, and that a failure to do so leaves it as it was. A record moves whenever
 * another is inserted or removed. Relies on pages; the caller has the lock.
 */
#ifndef HAKMEM_PROFILE_TABLE_H
#define HAKMEM_PROFILE_TABLE_H

#include "profile/origins.h"

struct record {
    uintptr_t address;   /* 0: none */
    void *shadow;        /* the block that it was given instead of; NULL for large ones */
    struct tally *tally; /* where it is counted */
    size_t size;
    uint64_t since_ms; /* on the clock of os_now_ms */
    uint64_t run;      /* of the profile; one of an earlier run is counted nowhere */
};

struct table {
    struct record *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* NULL if there is none. */
struct record *table_find(const struct table *table, uintptr_t address);
/* A new record for an address that has none: all zero but for the address. NULL if there is no memory. */
struct record *table_insert(struct table *table, uintptr_t address);
void table_remove(struct table *table, struct record *record);

#endif
