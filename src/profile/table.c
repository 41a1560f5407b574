#include "profile/table.h"

#include "base/bits.h"
#include "os/pages.h"

#define FIRST_CAPACITY 256

static size_t home_of(const struct table *table, uintptr_t address) {
    return (size_t)((address * GOLDEN_64) >> (64 - bit_highest(table->capacity)));
}

static size_t after(const struct table *table, size_t slot) {
    return (slot + 1) & (table->capacity - 1);
}

/* The slot of the record for `address`, or the free slot where it would stand. */
static struct record *place_of(const struct table *table, uintptr_t address) {
    size_t slot = home_of(table, address);
    while (table->slots[slot].address != 0 && table->slots[slot].address != address) {
        slot = after(table, slot);
    }
    return &table->slots[slot];
}

struct record *table_find(const struct table *table, uintptr_t address) {
    if (table->capacity == 0) {
        return NULL;
    }
    struct record *record = place_of(table, address);
    return record->address == 0 ? NULL : record;
}

bool table_wants_more(const struct table *table) {
    return table->count >= table->capacity / 4 * 3;
}

COLD size_t table_bytes(const struct table *table) {
    return table->capacity * sizeof *table->slots;
}

COLD size_t table_larger_bytes(const struct table *table) {
    return max_size(table->capacity * 2, FIRST_CAPACITY) * sizeof *table->slots;
}

COLD struct record *table_move(struct table *table, struct record *slots, size_t bytes) {
    struct record *old = table->slots;
    struct table larger = {.slots = slots, .capacity = bytes / sizeof *slots, .count = table->count};
    for (size_t i = 0; i < table->capacity; i++) {
        if (old[i].address != 0) {
            *place_of(&larger, old[i].address) = old[i];
        }
    }
    *table = larger;
    return old;
}

static bool grow(struct table *table) {
    size_t had = table_bytes(table);
    size_t bytes = table_larger_bytes(table);
    struct record *slots = pages_take(bytes);
    if (slots != NULL) {
        pages_give(table_move(table, slots, bytes), had);
    }
    return slots != NULL;
}

struct record *table_insert(struct table *table, uintptr_t address) {
    if (table->count >= table->capacity / 8 * 7 && !grow(table)) {
        return NULL;
    }
    struct record *record = place_of(table, address);
    *record = (struct record){.address = address};
    table->count++;
    return record;
}

/* Records behind the gap move into it, unless that is before the slot where the search for them begins. */
void table_remove(struct table *table, struct record *record) {
    size_t gap = (size_t)(record - table->slots);
    size_t mask = table->capacity - 1;
    for (size_t i = after(table, gap); table->slots[i].address != 0; i = after(table, i)) {
        size_t home = home_of(table, table->slots[i].address);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            table->slots[gap] = table->slots[i];
            gap = i;
        }
    }
    table->slots[gap] = (struct record){0};
    table->count--;
}
