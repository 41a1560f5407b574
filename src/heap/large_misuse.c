#include "arena/run.h"
#include "arena/stray.h"
#include "heap/large.h"
#include "os/report.h"

#include <string.h>

static RARE const char *lane(bool huge) {
    return huge ? "huge" : "large";
}

RARE void large_report_misuse(const char *kind, const void *p) {
    report_misuse(&(struct misuse){.action = kind,
                                   .pointer = p,
                                   .lane = lane(arena_run_is_huge(arena_header((uintptr_t)p))),
                                   .slab = round_down((uintptr_t)p, SLAB_BYTES)});
}

/* `was_block`: it begins where a block began that was freed, of the lane `lane` if that is known. */
static RARE _Noreturn void report_not_in_use(const char *action, const void *p, bool was_block,
                                             const char *lane) {
    struct misuse misuse = {.action = action,
                            .detail = "its slab is not in use",
                            .pointer = p,
                            .lane = lane,
                            .slab = round_down((uintptr_t)p, SLAB_BYTES)};
    if (strcmp(action, "invalid free") == 0 && was_block) {
        misuse.action = "double free";
        misuse.detail = "its slab is no longer in use";
    } else if (strcmp(action, "invalid free") == 0) {
        misuse.action = "double or invalid free"; /* nothing says any more what was there before */
    }
    report_misuse(&misuse);
}

RARE void large_report_gone(const char *action, const void *p) {
    report_not_in_use(action, p, true, "huge"); /* no other blocks have regions that end */
}

/* Whether what was freed there surely was of these lanes: a run of blocks is as long as their class says. */
static RARE bool was_large(const struct stray *stray) {
    return stray->huge ||
           (stray->kind == STRAY_GONE && stray->run_slabs != size_classes[stray->size_class].run_slabs);
}

RARE void large_report_stray(const char *action, const void *p) {
    struct stray stray = arena_stray((uintptr_t)p);
    if (stray.kind != STRAY_INSIDE && stray.kind != STRAY_TAKEN) {
        report_not_in_use(action, p, stray.kind == STRAY_GONE, was_large(&stray) ? lane(stray.huge) : NULL);
    }
    report_misuse(&(struct misuse){.action = action,
                                   .detail = stray.kind == STRAY_INSIDE ? "not the start of a block"
                                                                        : "it is being freed or resized",
                                   .pointer = p,
                                   .lane = lane(stray.huge),
                                   .slab = stray.block});
}
