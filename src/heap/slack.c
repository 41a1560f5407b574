#include "heap/slack.h"

#include "arena/arena.h"
#include "heap/holes.h"

/* Each so many heaps make looks as far apart again: all of their counters are read. */
#define HEAPS_FOR_A_LOOK 8

/* Work in one look: some 0.3 ms. */
#define UNITS_AT_A_LOOK 4000

_Atomic int64_t slack_of_no_heap, slack_purged;

/* Bytes of free blocks in slabs, of all heaps, which may be at work meanwhile. */
static int64_t sum_up(void) {
    int64_t sum = atomic_load_explicit(&slack_of_no_heap, memory_order_relaxed);
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        sum += atomic_load_explicit(&heap_by_id(id)->slack_bytes, memory_order_relaxed);
    }
    return sum;
}

static int64_t resident(int64_t slack) {
    return slack - atomic_load_explicit(&slack_purged, memory_order_relaxed);
}

/* Whether so much more is free than at the least since the last search that the next one is to begin. */
static bool is_due(int64_t slack, int64_t grown) {
    int64_t used = (int64_t)arena_used_bytes();
    return grown >
           (int64_t)(arena_share_bytes((size_t)(used > slack ? used - slack : 0)) * holes_reluctance());
}

void slack_look(struct heap *self) {
    static int64_t low;   /* resident slack: the least since the last search */
    static size_t wanted; /* of the search that has begun; 0: none has */
    if (self->returned_bytes < SLACK_LOOK_BYTES * (1 + heap_id_limit() / HEAPS_FOR_A_LOOK) ||
        !holes_take_turn()) {
        return;
    }
    self->returned_bytes = 0;
    int64_t slack = sum_up();
    int64_t now = resident(slack);
    arena_note_slack(slack > 0 ? (size_t)slack : 0);
    low = now < low ? now : low;
    if (wanted == 0 && is_due(slack, now - low)) {
        holes_reconsider();
        wanted = is_due(slack, now - low) ? (size_t)(now - low) : 0;
    }
    if (wanted > 0 && holes_purge_some(UNITS_AT_A_LOOK, wanted)) {
        wanted = 0;
        low = resident(sum_up());
    }
    holes_end_turn();
}
