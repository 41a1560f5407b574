/* The sampled blocks that are live: a hash table from address to record.
 *
 * Promises to grow as needed, and that a failure to do so leaves it as it was. Records may move whenever one
 * is inserted or removed. Relies on pages; the caller holds the profile's lock.
 */
#ifndef HAKMEM_PROFILE_TABLE_H
#define HAKMEM_PROFILE_TABLE_H

#include "profile/origins.h"

#include <stdbool.h>

struct record {
    uintptr_t address;   /* of the block; 0: the slot is free */
    void *shadow;        /* the block that it was given instead of; NULL for large ones */
    struct tally *tally; /* where it is counted; not to be looked at where it is of another run */
    size_t size;
    uint64_t since_ms; /* when it was allocated, on the clock of os_now_ms */
    uint64_t run;      /* the profile's run in which it was sampled; if that is over, it is counted nowhere */
};

struct table {
    struct record *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* The record for `address`; NULL if there is none. */
struct record *table_find(const struct table *table, uintptr_t address);
/* A new record for an address that has none: all zero but for the address. NULL if there is no memory. */
struct record *table_insert(struct table *table, uintptr_t address);
/* Whether an insertion will soon take more memory, unless table_move has brought it by then. */
bool table_wants_more(const struct table *table);
size_t table_bytes(const struct table *table);
size_t table_larger_bytes(const struct table *table);
/* Moves the records to `slots` of that many larger bytes, which are all zero; returns where they were. */
struct record *table_move(struct table *table, struct record *slots, size_t bytes);
void table_remove(struct table *table, struct record *record);

#endif
