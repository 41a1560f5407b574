#include "heap/slack.h"

#include "arena/arena.h"
#include "arena/decay.h"
#include "heap/holes.h"
#include "options/options.h"
#include "os/os.h"

/* Each so many heaps make looks as far apart again: all of their counters are read. */
#define HEAPS_FOR_A_LOOK 8

/* Work in one look: some 0.3 ms. */
#define UNITS_AT_A_LOOK 4000

/* A search that finds less than this part of what is free was not worth it: after it the distance to the next
 * one is doubled, so often at most. */
#define WORTHLESS_PART 8
#define CAUTION_MOST 4u

/* Purged in addition to what is over the bound. */
#define PURGED_PART 16

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

/* Whoever has the turn of holes.h. */
static int64_t low;           /* resident slack: the least since the last search */
static size_t wanted;         /* of the search that has begun; 0: none has */
static unsigned caution = 1;  /* 2 and more after searches that were not worth it */
static size_t purged, grace;  /* in this period and not taken again; what may be free in addition */
static uint64_t taken_before; /* of holes_taken_again */
static uint64_t period_ms;    /* when it began */
static bool was_mistaken;     /* in this period */

/* Half of what was purged and taken again in the same period counts: what a program breathes may stay after a
 * few breaths, and where a phase has ended for good, little too much does. */
static void note_mistakes(void) {
    uint64_t taken = holes_taken_again();
    size_t mistaken = min_size((size_t)(taken - taken_before), purged);
    taken_before = taken;
    purged -= mistaken;
    grace = min_size(grace + mistaken / 2, option_number(OPTION_RETAIN_GRACE));
    was_mistaken = was_mistaken || mistaken > 0;
    uint64_t now = os_now_ms();
    if (now - period_ms >= decay_period_ms()) {
        period_ms = now;
        grace = was_mistaken ? grace : grace / 2;
        purged = 0;
        was_mistaken = false;
    }
}

/* What may be free above the least: as much as elsewhere (retention.h). */
static int64_t bound(int64_t slack) {
    size_t used = arena_used_bytes();
    size_t held = slack > 0 ? used - min_size((size_t)slack, used) : used;
    return (int64_t)(arena_share_bytes(held) * caution + grace);
}

/* What is over the bound and a part of that, so that the next look does not find so again. */
static size_t wanted_of(int64_t slack, int64_t grown) {
    int64_t most = bound(slack);
    return grown > most ? (size_t)(grown - most + most / PURGED_PART) : 0;
}

static void end_search(size_t bytes) {
    purged += bytes;
    if (bytes < wanted) {
        low = resident(sum_up()); /* the rest shares pages with blocks in use */
        caution =
            bytes >= wanted / WORTHLESS_PART ? 1 : (unsigned)min_size((size_t)caution * 2, CAUTION_MOST);
    }
    wanted = 0;
}

void slack_look(struct heap *self) {
    size_t bytes;
    if (self->returned_bytes < SLACK_LOOK_BYTES * (1 + heap_id_limit() / HEAPS_FOR_A_LOOK) ||
        !holes_take_turn()) {
        return;
    }
    self->returned_bytes = 0;
    int64_t slack = sum_up();
    int64_t now = resident(slack);
    arena_note_slack(slack > 0 ? (size_t)slack : 0);
    note_mistakes();
    low = now < low ? now : low;
    if (wanted == 0) {
        wanted = wanted_of(slack, now - low);
        holes_begin_round();
    }
    if (wanted > 0 && holes_purge_some(UNITS_AT_A_LOOK, wanted, &bytes)) {
        end_search(bytes);
    }
    holes_end_turn();
}
