#include "arena/arena.h"
#include "base/text.h"
#include "heap/large.h"
#include "os/report.h"

#include <string.h>

static const char *lane_of(const struct slab *slab) {
    return arena_run_is_huge(slab) ? "huge" : "large";
}

COLD void large_report_misuse(const char *kind, const void *p) {
    report_misuse(kind, p, lane_of(arena_header((uintptr_t)p)), 0, round_down((uintptr_t)p, SLAB_BYTES));
}

COLD void large_report_stray(const char *action, const void *p) {
    const struct region *region = region_of((uintptr_t)p);
    size_t index = region_slab_index(region, (uintptr_t)p);
    char kind[96];
    const struct slab *slab = region_slab(region, index);
    /* relaxed throughout: the program is about to end; a guess at what it did is all that is wanted */
    uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
    bool was_block = ((uintptr_t)p & (SLAB_BYTES - 1)) == 0 && (state == SLAB_FREE || state == SLAB_KEPT) &&
                     arena_span(slab) != 0;
    struct text line = TEXT_ON(kind);
    text_string(&line, action);
    for (size_t back = 0; back <= index; back++) {
        const struct slab *head = region_slab(region, index - back);
        if (atomic_load_explicit(&head->state, memory_order_relaxed) == SLAB_LARGE &&
            arena_run_slabs(head) > back) {
            text_string(&line, " (not the start of a block)");
            report_misuse(kind, p, lane_of(head), 0, arena_address(head));
        }
    }
    bool is_free = strcmp(action, "invalid free") == 0;
    if (was_block && is_free) {
        report_misuse("double free (its slab is no longer in use)", p, "unknown", 0, (uintptr_t)p);
    }
    if (is_free) { /* nothing says any more what was there before */
        line.length = 0;
        text_string(&line, "double or invalid free");
    }
    text_string(&line, " (its slab is not in use)");
    report_misuse(kind, p, "unknown", 0, round_down((uintptr_t)p, SLAB_BYTES));
}
