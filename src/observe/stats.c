#define _GNU_SOURCE
/* Statistics: figures summed over all heaps on demand, and the screen that shows them.
 *
 * Promises not to stop any thread: figures of running threads are a moment old. Costs a walk over all
 * slabs in use. Relies on heap and arena.
 */
#include "observe/stats.h"
#include "arena/arena.h"
#include "arena/page_map.h"
#include "base/text.h"
#include "hakmem.h"
#include "heap/heap.h"
#include "options/options.h"
#include "os/os.h"
#include "os/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static uint64_t read_counter(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed); /* as count() */
}

static void visit_run(struct slab *head, uintptr_t address, void *context) {
    (void)address;
    struct hak_stats *out = context;
    /* acquire pairs with slab_init: the state may have become CURRENT since arena_visit read it */
    uint8_t state = atomic_load_explicit(&head->state, memory_order_acquire);
    size_t run = arena_run_slabs(head);
    out->slabs_in_use += run;
    if (state == SLAB_INTERNAL) {
        return;
    }
    if (state == SLAB_LARGE) {
        out->live_blocks++;
        out->live_bytes += atomic_load_explicit(&head->span_bytes, memory_order_relaxed);
        return;
    }
    const struct size_class *c = &size_classes[head->size_class];
    size_t free = min_size(slab_count_free(head), c->blocks);
    out->live_blocks += c->blocks - free;
    out->live_bytes += (c->blocks - free) * c->bytes;
    out->free_in_slab_bytes += free * c->bytes;
}

/* What magazines and remote buffers hold was counted as live, since its bits are not set. */
static void add_heap(struct heap *heap, struct hak_stats *out) {
    uint64_t cached_blocks = 0;
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        size_t held = magazine_count_from_outside(&heap->magazines[c]);
        cached_blocks += held;
        out->cached_bytes += held * size_classes[c].bytes;
    }
    out->cached_bytes += atomic_load_explicit(&heap->remote_bytes, memory_order_relaxed);
    cached_blocks += atomic_load_explicit(&heap->remote_count, memory_order_relaxed);
    out->live_blocks -= min_size(out->live_blocks, cached_blocks);
    const struct counters *k = &heap->counters;
    out->refills += read_counter(&k->refills);
    out->refilled_blocks += read_counter(&k->refilled_blocks);
    out->flushes += read_counter(&k->flushes);
    out->flushed_blocks += read_counter(&k->flushed_blocks);
    out->remote_frees += read_counter(&k->remote_frees);
    out->remote_flushes += read_counter(&k->remote_flushes);
    out->slabs_created += read_counter(&k->slabs_created);
    out->slabs_released += read_counter(&k->slabs_released);
    out->slabs_adopted += read_counter(&k->slabs_adopted);
    out->large_allocs += read_counter(&k->large_allocs);
    out->large_frees += read_counter(&k->large_frees);
    out->huge_allocs += read_counter(&k->huge_allocs);
    out->huge_frees += read_counter(&k->huge_frees);
    out->huge_remaps += read_counter(&k->huge_remaps);
    out->populated_bytes += read_counter(&k->populated_slabs) << SLAB_SHIFT;
    out->heaps_reclaimed += read_counter(&k->reclaimed);
    if (atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ABANDONED) {
        out->heaps_abandoned++;
    } else {
        out->heaps_active++;
    }
}

void hak_stats_get(hak_stats_t *out) {
    memset(out, 0, sizeof *out);
    arena_visit(visit_run, out);
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        add_heap(heap_by_id(id), out);
    }
    out->live_bytes -= min_size(out->live_bytes, out->cached_bytes);
    struct arena_figures figures;
    arena_figures(&figures);
    out->retained_bytes = figures.dirty_slabs << SLAB_SHIFT;
    out->metadata_bytes = figures.metadata_bytes + (uint64_t)(heap_id_limit() - 1) * sizeof(struct heap);
    out->reserved_bytes = region_reserved_bytes() + page_map_reserved_bytes();
    out->resident_bytes = os_resident_bytes();
    out->purges = figures.purges;
    out->purged_bytes = figures.purged_bytes;
    out->decayed_bytes = figures.decayed_bytes;
    out->exact_classes = size_class_count_exact();
    out->system_calls = os_call_count();
    for (int i = 0; i < FALLBACK_COUNT; i++) {
        out->fallbacks += report_fallback_count((enum fallback)i);
    }
}

/* ---- The screen -------------------------------------------------------------------------------- */

static void bytes_line(struct text *t, const char *name, uint64_t bytes, const char *note) {
    text_string(t, "  ");
    text_string(t, name);
    for (size_t n = strlen(name); n < 18; n++) {
        text_char(t, ' ');
    }
    text_bytes_column(t, bytes, 12);
    text_string(t, "  ");
    text_string(t, note);
    text_char(t, '\n');
}

static void counts_line(struct text *t, const char *name, const char *const *labels, const uint64_t *values,
                        size_t n) {
    text_string(t, "  ");
    text_string(t, name);
    for (size_t k = strlen(name); k < 18; k++) {
        text_char(t, ' ');
    }
    for (size_t i = 0; i < n; i++) {
        text_string(t, i == 0 ? " " : ", ");
        text_decimal(t, values[i]);
        text_char(t, ' ');
        text_string(t, labels[i]);
    }
    text_char(t, '\n');
}

#define COUNTS(t, name, labels, ...)                                                                         \
    counts_line(t, name, labels, (const uint64_t[]){__VA_ARGS__}, sizeof(labels) / sizeof(labels[0]))

void hak_stats_print(int fd) {
    hak_stats_t s;
    char buffer[4096];
    struct text t = TEXT_ON(buffer);
    hak_stats_get(&s);
    text_string(&t, "hakmem ");
    text_string(&t, hak_version());
    text_string(&t, " statistics, process ");
    text_decimal(&t, (uint64_t)os_process_id());
    text_string(&t, " (");
    text_string(&t, program_invocation_short_name);
    text_string(&t, ")\nmemory\n");
    bytes_line(&t, "live", s.live_bytes, "in blocks that the program holds");
    bytes_line(&t, "cached", s.cached_bytes, "free, in the threads' magazines and remote buffers");
    bytes_line(&t, "free in slabs", s.free_in_slab_bytes, "free, in slabs that are in use (resident or not)");
    bytes_line(&t, "retained", s.retained_bytes, "free, kept resident within the bound");
    bytes_line(&t, "metadata", s.metadata_bytes, "at most");
    bytes_line(&t, "resident", s.resident_bytes, "the whole process, as the kernel counts");
    bytes_line(&t, "reserved", s.reserved_bytes, "address space, the page map's included: costs nothing");
    text_string(&t, "events\n");
    static const char *const refill_labels[] = {"refills of magazines", "blocks"};
    COUNTS(&t, "malloc", refill_labels, s.refills, s.refilled_blocks);
    static const char *const free_labels[] = {"flushes", "blocks", "remote frees in", "flushes"};
    COUNTS(&t, "free", free_labels, s.flushes, s.flushed_blocks, s.remote_frees, s.remote_flushes);
    static const char *const slab_labels[] = {"in use", "created", "released", "adopted"};
    COUNTS(&t, "slabs", slab_labels, s.slabs_in_use, s.slabs_created, s.slabs_released, s.slabs_adopted);
    static const char *const large_labels[] = {"allocated", "freed"};
    COUNTS(&t, "large blocks", large_labels, s.large_allocs, s.large_frees);
    static const char *const huge_labels[] = {"allocated", "freed", "moved by remapping"};
    COUNTS(&t, "huge blocks", huge_labels, s.huge_allocs, s.huge_frees, s.huge_remaps);
    static const char *const heap_labels[] = {"active", "waiting for a thread",
                                              "taken from sleeping threads"};
    COUNTS(&t, "heaps", heap_labels, s.heaps_active, s.heaps_abandoned, s.heaps_reclaimed);
    static const char *const class_labels[] = {"made for this program"};
    COUNTS(&t, "size classes", class_labels, s.exact_classes);
    static const char *const os_labels[] = {"system calls for memory", "purges", "KiB purged",
                                            "KiB of them idle", "KiB populated"};
    COUNTS(&t, "operating system", os_labels, s.system_calls, s.purges, s.purged_bytes >> 10,
           s.decayed_bytes >> 10, s.populated_bytes >> 10);
    text_string(&t, "fall-backs          ");
    if (s.fallbacks == 0) {
        text_string(&t, " none");
    }
    for (int i = 0, shown = 0; i < FALLBACK_COUNT; i++) {
        uint64_t n = report_fallback_count((enum fallback)i);
        if (n > 0) {
            text_string(&t, shown++ == 0 ? " " : ", ");
            text_decimal(&t, n);
            text_string(&t, " ");
            text_string(&t, report_fallback_name((enum fallback)i));
        }
    }
    text_char(&t, '\n');
    os_write(fd, t.buffer, t.length);
}

/* "%p" becomes the process id. */
static void expand_path(const char *pattern, struct text *path) {
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            text_decimal(path, (uint64_t)os_process_id());
            pattern++;
        } else {
            text_char(path, *pattern);
        }
    }
}

static int error_output = STDERR_FILENO;

void stats_at_start(void) {
    if (option_bool(OPTION_STATS) && option_text(OPTION_STATS_FILE)[0] == '\0') {
        /* Many programs close their standard error in a last handler, to see whether that works. */
        int fd = os_duplicate(STDERR_FILENO);
        if (fd >= 0) {
            error_output = fd;
        }
    }
}

void stats_at_exit(void) {
    const char *pattern = option_text(OPTION_STATS_FILE);
    if (pattern[0] != '\0') {
        char buffer[OPTION_TEXT_BYTES];
        struct text path = TEXT_ON(buffer);
        expand_path(pattern, &path);
        int fd = os_open_for_writing(buffer);
        if (fd < 0) {
            char message[OPTION_TEXT_BYTES + 128];
            struct text line = TEXT_ON(message);
            text_string(&line, "HAKMEM_STATS_FILE: ");
            text_string(&line, buffer);
            text_string(&line, ": cannot be opened for writing (");
            text_string(&line, strerrordesc_np(errno));
            text_string(&line, "); the statistics go to stderr");
            report_line(message);
            hak_stats_print(error_output);
            return;
        }
        hak_stats_print(fd);
        os_close(fd);
    } else if (option_bool(OPTION_STATS)) {
        hak_stats_print(error_output);
    }
}
