#include "arena/run.h"
#include "arena/stray.h"
#include "heap/large.h"
#include "os/report.h"

#include <string.h>

static const char *lane(bool huge) {
    return huge ? "huge" : "large";
}

COLD void large_report_misuse(const char *kind, const void *p) {
    report_misuse(kind, "", p, lane(arena_run_is_huge(arena_header((uintptr_t)p))), 0,
                  round_down((uintptr_t)p, SLAB_BYTES));
}

/* `was_block`: it begins where a block began that was freed. */
static COLD _Noreturn void report_not_in_use(const char *action, const void *p, bool was_block) {
    uintptr_t slab = round_down((uintptr_t)p, SLAB_BYTES);
    if (strcmp(action, "invalid free") != 0) {
        report_misuse(action, " (its slab is not in use)", p, "unknown", 0, slab);
    }
    if (was_block) {
        report_misuse("double free", " (its slab is no longer in use)", p, "unknown", 0, slab);
    }
    /* nothing says any more what was there before */
    report_misuse("double or invalid free", " (its slab is not in use)", p, "unknown", 0, slab);
}

COLD void large_report_gone(const char *action, const void *p) {
    report_not_in_use(action, p, true);
}

COLD void large_report_stray(const char *action, const void *p) {
    struct stray stray = arena_stray((uintptr_t)p);
    if (stray.kind == STRAY_INSIDE) {
        report_misuse(action, " (not the start of a block)", p, lane(stray.huge), 0, stray.block);
    }
    if (stray.kind == STRAY_TAKEN) {
        report_misuse(action, " (it is being freed or resized)", p, lane(stray.huge), 0, stray.block);
    }
    report_not_in_use(action, p, stray.kind == STRAY_GONE);
}
