#define _GNU_SOURCE
#include "observe/stats.h"

#include "arena/page_map.h"
#include "arena/region.h"
#include "base/bits.h"
#include "heap/heap_table.h"
#include "observe/census.h"
#include "observe/counters.h"
#include "observe/document.h"
#include "observe/live.h"
#include "observe/screen.h"
#include "options/file.h"
#include "options/options.h"
#include "os/kept.h"
#include "os/os.h"
#include "os/resident.h"

#include <errno.h>
#include <string.h>

static void get_memory(hak_stats_t *out) {
    struct census census;
    struct memory_figures m;
    census_take(&census, true);
    census_sum(&census, &m);
    out->live_bytes = m.live_bytes;
    out->live_blocks = m.live_blocks;
    out->cached_bytes = m.cached_bytes;
    out->cached_blocks = m.cached_blocks;
    out->free_in_slab_bytes = m.free_in_slabs_bytes;
    out->slab_tail_bytes = m.slab_tail_bytes;
    out->untouched_bytes = m.untouched_bytes;
    out->retained_bytes = m.retained_bytes;
    out->metadata_bytes = m.metadata_bytes;
    out->heap_resident_bytes = m.resident_bytes;
    out->slabs_in_use = census.internal_slabs;
    for (int i = 0; i < LANES; i++) {
        out->slabs_in_use += census.lanes[i].slab_bytes >> SLAB_SHIFT;
    }
    out->reserved_bytes = region_reserved_bytes() + page_map_reserved_bytes();
    out->resident_bytes = os_resident_bytes();
}

static void get_counters(hak_stats_t *out) {
    struct counter_values values;
    counters_read(&values);
    const uint64_t *n = values.counters;
    out->refills = n[COUNTER_REFILLS];
    out->refilled_blocks = n[COUNTER_REFILLED_BLOCKS];
    out->flushes = n[COUNTER_FLUSHES];
    out->flushed_blocks = n[COUNTER_FLUSHED_BLOCKS];
    out->remote_frees = n[COUNTER_REMOTE_FREED_BLOCKS];
    out->remote_flushes = n[COUNTER_REMOTE_FLUSHES];
    out->slabs_created = n[COUNTER_SLABS_CREATED];
    out->slabs_released = n[COUNTER_SLABS_RELEASED];
    out->slabs_adopted = n[COUNTER_SLABS_ADOPTED];
    out->large_allocs = n[COUNTER_LARGE_ALLOCS];
    out->large_frees = n[COUNTER_LARGE_FREES];
    out->huge_allocs = n[COUNTER_HUGE_ALLOCS];
    out->huge_frees = n[COUNTER_HUGE_FREES];
    out->huge_remaps = n[COUNTER_HUGE_REMAPS];
    out->purges = n[COUNTER_PURGES];
    out->purged_bytes = n[COUNTER_PURGED_BYTES];
    out->decayed_bytes = n[COUNTER_DECAYED_BYTES];
    out->populated_bytes = n[COUNTER_POPULATED_BYTES];
    out->page_faults_avoided = n[COUNTER_PAGE_FAULTS_AVOIDED];
    out->heaps_reclaimed = n[COUNTER_HEAPS_RECLAIMED];
    out->system_calls = n[COUNTER_SYSTEM_CALLS];
    for (int i = 0; i < FALLBACK_COUNT; i++) {
        out->fallbacks += values.fallbacks[i];
    }
}

void stats_get(hak_stats_t *out) {
    struct heap_counts heaps;
    memset(out, 0, sizeof *out);
    get_memory(out);
    get_counters(out);
    heap_count_states(&heaps);
    out->heaps_active = heaps.active + heaps.shared;
    out->heaps_abandoned = heaps.abandoned;
    out->exact_classes = size_class_count_exact();
}

size_t stats_json(char *buffer, size_t capacity) {
    struct census census;
    census_take(&census, true);
    struct output out = output_to_buffer(buffer, capacity);
    document_write(&out, &census, true);
    return out.total;
}

/* Writes the statistics, as JSON or as a screen: 0, or -1 with errno. */
static COLD int write_to(int fd, bool as_json, enum patience patience) {
    struct census census;
    struct sink sink;
    sink_begin(&sink, fd);
    sink.patience = patience;
    census_take(&census, true);
    struct output out = output_to_sink(&sink);
    if (as_json) {
        document_write(&out, &census, true);
    } else {
        screen_write(&out, &census);
    }
    return sink_end(&sink);
}

void stats_print(int fd) {
    (void)write_to(fd, false, PATIENCE_SOME);
}

OFTEN static bool wanted_at_exit(void) {
    return option_bool(OPTION_STATS) || option_bool(OPTION_STATS_JSON);
}

OFTEN void stats_at_start(void) {
    uint64_t signal = option_number(OPTION_STATS_SIGNAL);
    if (option_has_text(OPTION_STATS_FILE)) {
        option_file_at_start(OPTION_STATS_FILE);
    } else if (wanted_at_exit() || signal != 0) {
        os_keep_error_output();
    }
    live_start((int)signal);
}

static COLD void write_where_wanted(enum patience patience) {
    bool as_json = option_bool(OPTION_STATS_JSON);
    if (!option_has_text(OPTION_STATS_FILE)) {
        /* an error could be reported nowhere else */
        (void)write_to(os_error_output(), as_json, patience);
        return;
    }
    struct option_file file;
    (void)option_file_name(&file, OPTION_STATS_FILE, 0, true);
    int fd = option_file_open(&file);
    if (fd < 0) {
        option_file_failed(&file, ": cannot be opened for writing (", errno, "); the statistics go to stderr",
                           patience);
        (void)write_to(os_error_output(), as_json, patience);
        return;
    }
    if (write_to(fd, as_json, patience) != 0) {
        option_file_failed(&file, ": the statistics are not whole (", errno, ")", patience);
    }
    os_close(fd);
}

COLD void stats_write(void) {
    write_where_wanted(PATIENCE_SOME);
}

COLD void stats_write_in_time(void) {
    write_where_wanted(PATIENCE_LIMITED);
}

OFTEN void stats_at_exit(void) {
    live_stop(); /* what is written at a signal may go to the same file */
    if (wanted_at_exit() || option_has_text(OPTION_STATS_FILE)) {
        stats_write();
    }
    live_end(); /* last: a process that is held up here is still looked for */
}
