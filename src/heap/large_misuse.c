#include "arena/arena.h"
#include "arena/stray.h"
#include "base/text.h"
#include "heap/large.h"
#include "os/report.h"

#include <string.h>

static const char *lane(bool huge) {
    return huge ? "huge" : "large";
}

COLD void large_report_misuse(const char *kind, const void *p) {
    report_misuse(kind, p, lane(arena_run_is_huge(arena_header((uintptr_t)p))), 0,
                  round_down((uintptr_t)p, SLAB_BYTES));
}

/* `action`, with `what` behind it. */
static COLD _Noreturn void report(const char *action, const char *what, const void *p, const char *lane,
                                  uintptr_t slab) {
    char kind[96];
    struct text line = TEXT_ON(kind);
    text_string(&line, action);
    text_string(&line, what);
    report_misuse(kind, p, lane, 0, slab);
}

/* `was_block`: it begins where a block began that was freed. */
static COLD _Noreturn void report_not_in_use(const char *action, const void *p, bool was_block) {
    uintptr_t slab = round_down((uintptr_t)p, SLAB_BYTES);
    if (strcmp(action, "invalid free") != 0) {
        report(action, " (its slab is not in use)", p, "unknown", slab);
    }
    if (was_block) {
        report("double free", " (its slab is no longer in use)", p, "unknown", slab);
    }
    /* nothing says any more what was there before */
    report("double or invalid free", " (its slab is not in use)", p, "unknown", slab);
}

COLD void large_report_gone(const char *action, const void *p) {
    report_not_in_use(action, p, true);
}

COLD void large_report_stray(const char *action, const void *p) {
    struct stray stray = arena_stray((uintptr_t)p);
    if (stray.kind == STRAY_INSIDE) {
        report(action, " (not the start of a block)", p, lane(stray.huge), stray.block);
    }
    if (stray.kind == STRAY_TAKEN) {
        report(action, " (it is being freed or resized)", p, lane(stray.huge), stray.block);
    }
    report_not_in_use(action, p, stray.kind == STRAY_GONE);
}
