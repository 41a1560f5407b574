#include "observe/screen.h"

#include "arena/arena.h"
#include "arena/page_map.h"
#include "base/version.h"
#include "heap/heap_table.h"
#include "observe/counters.h"
#include "observe/sites_text.h"
#include "observe/uptime.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/program.h"
#include "os/resident.h"

#define NAME_COLUMNS 18
#define BYTES_COLUMNS 12
#define CLASSES_SHOWN 8

static void bytes_line(struct output *out, const char *name, uint64_t bytes, const char *note) {
    out_string(out, "  ");
    out_left(out, name, NAME_COLUMNS);
    out_bytes_column(out, bytes, BYTES_COLUMNS);
    out_string(out, "  ");
    out_string(out, note);
    out_char(out, '\n');
}

static void write_memory(struct output *out, const struct census *census) {
    struct memory_figures m;
    census_sum(census, &m);
    out_string(out, "memory\n");
    bytes_line(out, "live", m.live_bytes, "in blocks that the program holds");
    bytes_line(out, "cached", m.cached_bytes, "free, in the threads' magazines, stocks, buffers and parcels");
    bytes_line(out, "free in slabs", m.free_in_slabs_bytes, "free, in slabs that hold other blocks");
    bytes_line(out, "slab tails", m.slab_tail_bytes, "no block fits");
    bytes_line(out, "retained", m.retained_bytes, "free, kept resident within the bound");
    bytes_line(out, "metadata", m.metadata_bytes, "the allocator's own");
    bytes_line(out, "less: untouched", m.untouched_bytes, "handed out, but not resident: never written");
    bytes_line(out, "resident", m.resident_bytes,
               census->measured ? "the sum: the heap, as the kernel counts" : "the sum: an estimate");
    uint64_t process_bytes = os_resident_bytes();
    if (process_bytes != 0) { /* there may be no /proc to say it */
        bytes_line(out, "process", process_bytes, "resident in all, as the kernel counts");
    }
    bytes_line(out, "reserved", region_reserved_bytes() + page_map_reserved_bytes(),
               "address space, the page map's included: costs nothing");
}

/* Ends a line with resident memory, and with the part of it that live blocks do not use, in percent. */
static void write_unused(struct output *out, uint64_t resident, uint64_t used) {
    out_bytes_column(out, resident, BYTES_COLUMNS);
    out_percent_column(out, resident - min_size(used, resident), resident, 10);
    out_char(out, '\n');
}

static void write_lanes(struct output *out, const struct census *census) {
    static const char *const names[LANES] = {"tiny, to 1 KiB", "mid, to 64 KiB", "large, to 2 MiB", "huge"};
    out_left(out, "lanes", NAME_COLUMNS + 2);
    out_string(out, " live blocks        live      cached free beside       tails    resident    unused\n");
    for (int i = 0; i < LANES; i++) {
        const struct lane_figures *lane = &census->lanes[i];
        if (lane->slab_bytes == 0) {
            continue;
        }
        out_string(out, "  ");
        out_left(out, names[i], NAME_COLUMNS);
        out_decimal_column(out, lane->live_blocks, BYTES_COLUMNS);
        out_bytes_column(out, lane->live_bytes, BYTES_COLUMNS);
        out_bytes_column(out, lane->cached_bytes, BYTES_COLUMNS);
        out_bytes_column(out, lane->free_bytes, BYTES_COLUMNS);
        out_bytes_column(out, lane->tail_bytes, BYTES_COLUMNS);
        write_unused(out, lane->resident_bytes, lane->live_bytes);
    }
}

static uint64_t class_resident(const struct census *census, unsigned c) {
    return (uint64_t)census->classes[c].resident_pages * OS_PAGE_BYTES;
}

/* Resident bytes of class `c` that are not in live blocks. */
static uint64_t class_unused(const struct census *census, unsigned c) {
    if (census->classes[c].slabs == 0) {
        return 0;
    }
    uint64_t live = census_class_live(census, c) * size_classes[c].bytes;
    uint64_t resident = class_resident(census, c);
    return resident - min_size(live, resident);
}

/* The next class after `last` (SIZE_CLASSES to begin with) when classes are ordered by class_unused, most
 * first, and then by number; SIZE_CLASSES if there is none with anything unused. */
static unsigned next_worst(const struct census *census, unsigned last) {
    unsigned best = SIZE_CLASSES;
    uint64_t limit = last == SIZE_CLASSES ? UINT64_MAX : class_unused(census, last);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        uint64_t unused = class_unused(census, c);
        bool after = unused < limit || (unused == limit && last != SIZE_CLASSES && c > last);
        if (unused > 0 && after && (best == SIZE_CLASSES || unused > class_unused(census, best))) {
            best = c;
        }
    }
    return best;
}

static void write_classes(struct output *out, const struct census *census) {
    unsigned c = next_worst(census, SIZE_CLASSES);
    if (c == SIZE_CLASSES) {
        return;
    }
    out_left(out, "classes, by unused", NAME_COLUMNS + 2);
    out_string(out, " live blocks       slabs      cached        free                resident    unused\n");
    for (int shown = 0; c != SIZE_CLASSES && shown < CLASSES_SHOWN; shown++, c = next_worst(census, c)) {
        const struct class_figures *figures = &census->classes[c];
        uint64_t live = census_class_live(census, c);
        out_string(out, "  ");
        out_decimal_column(out, size_classes[c].bytes, 8);
        out_left(out, c >= SPACED_CLASSES ? " B exact" : " B", NAME_COLUMNS - 8);
        out_decimal_column(out, live, BYTES_COLUMNS);
        out_decimal_column(out, figures->slabs, BYTES_COLUMNS);
        out_decimal_column(out, figures->cached_blocks, BYTES_COLUMNS);
        out_decimal_column(out, figures->free_blocks, BYTES_COLUMNS);
        out_left(out, "", BYTES_COLUMNS);
        write_unused(out, class_resident(census, c), live * size_classes[c].bytes);
    }
}

struct shown_count {
    uint64_t value;
    const char *label;
};

/* One line of counts, each with its label, which includes the comma if there is to be one. */
static void counts_line(struct output *out, const char *name, const struct shown_count *counts, size_t n) {
    out_string(out, "  ");
    out_left(out, name, NAME_COLUMNS);
    for (size_t i = 0; i < n; i++) {
        out_char(out, ' ');
        out_decimal(out, counts[i].value);
        out_char(out, ' ');
        out_string(out, counts[i].label);
    }
    out_char(out, '\n');
}

#define COUNTS(out, name, ...)                                                                               \
    counts_line(out, name, (const struct shown_count[]){__VA_ARGS__},                                        \
                sizeof((const struct shown_count[]){__VA_ARGS__}) / sizeof(struct shown_count))

static void write_blocks(struct output *out, const uint64_t *n) {
    COUNTS(out, "refills", {n[COUNTER_REFILLS], "with"}, {n[COUNTER_REFILLED_BLOCKS], "blocks, from"},
           {n[COUNTER_REFILLS_PARCELS], "parcels,"}, {n[COUNTER_REFILLS_STOCK], "stocks,"},
           {n[COUNTER_REFILLS_CURRENT_SLAB], "current,"}, {n[COUNTER_REFILLS_PARTIAL_SLAB], "partly-used,"},
           {n[COUNTER_REFILLS_INBOX_SLAB], "inbox,"}, {n[COUNTER_REFILLS_ADOPTED_SLAB], "adopted,"},
           {n[COUNTER_REFILLS_FRESH_SLAB], "fresh slabs"});
    COUNTS(out, "flushes", {n[COUNTER_FLUSHES], "with"}, {n[COUNTER_FLUSHED_BLOCKS], "blocks:"},
           {n[COUNTER_FLUSHES_MAGAZINE_FULL], "full,"}, {n[COUNTER_FLUSHES_STOCKED], "of them stocked,"},
           {n[COUNTER_FLUSHES_THREAD_EXIT], "on exit,"}, {n[COUNTER_FLUSHES_RECLAIM], "of sleepers,"},
           {n[COUNTER_FLUSHES_IDLE], "unused sizes,"}, {n[COUNTER_FLUSHES_SURPLUS], "surplus,"},
           {n[COUNTER_FLUSHES_API], "on request"});
    COUNTS(out, "other frees", {n[COUNTER_REMOTE_FREED_BLOCKS], "blocks of other threads,"},
           {n[COUNTER_REMOTE_KEPT_BLOCKS], "kept, the others returned in"},
           {n[COUNTER_REMOTE_FLUSHES], "goes;"}, {n[COUNTER_FOREIGN_FREES], "blocks of libc's"});
    COUNTS(out, "large blocks", {n[COUNTER_LARGE_ALLOCS], "allocated,"},
           {n[COUNTER_LARGE_KEPT], "of them on a run that was kept,"}, {n[COUNTER_LARGE_FREES], "freed"});
    COUNTS(out, "huge blocks", {n[COUNTER_HUGE_ALLOCS], "allocated,"}, {n[COUNTER_HUGE_FREES], "freed,"},
           {n[COUNTER_HUGE_REMAPS], "moved by remapping"});
}

static void write_events(struct output *out, const struct counter_values *values) {
    const uint64_t *n = values->counters;
    struct heap_counts heaps;
    heap_count_states(&heaps);
    out_string(out, "events\n");
    write_blocks(out, n);
    COUNTS(out, "slabs", {n[COUNTER_SLABS_CREATED], "created,"},
           {n[COUNTER_SLABS_RECYCLED], "of them of resident memory,"}, {n[COUNTER_SLABS_ADOPTED], "adopted,"},
           {n[COUNTER_SLABS_RELEASED], "released;"}, {n[COUNTER_SUPERSLABS_OPENED], "superslabs,"},
           {n[COUNTER_REGIONS_CREATED], "regions"});
    COUNTS(out, "heaps", {heaps.active + heaps.shared, "active,"}, {heaps.abandoned, "waiting for a thread,"},
           {n[COUNTER_HEAPS_RECLAIMED], "taken from sleeping threads;"},
           {n[COUNTER_MAGAZINE_GROWTHS], "magazines grown"});
    COUNTS(out, "operating system", {n[COUNTER_SYSTEM_CALLS], "calls,"}, {n[COUNTER_PURGES], "purges,"},
           {n[COUNTER_PURGED_BYTES] >> 10, "KiB purged,"},
           {n[COUNTER_DECAYED_BYTES] >> 10, "KiB of them idle;"},
           {n[COUNTER_PAGE_FAULTS_AVOIDED], "page faults spared if used"});
    COUNTS(out, "waiting for locks", {n[COUNTER_ARENA_LOCK_WAITS], "times for the arena's,"},
           {n[COUNTER_OTHER_LOCK_WAITS], "for others"});
    COUNTS(out, "size classes", {size_class_count_exact(), "made for this program"});
    out_string(out, "  ");
    out_left(out, "fall-backs", NAME_COLUMNS);
    int shown = 0;
    for (int i = 0; i < FALLBACK_COUNT; i++) {
        if (values->fallbacks[i] > 0) {
            out_string(out, shown++ == 0 ? " " : ", ");
            out_decimal(out, values->fallbacks[i]);
            out_char(out, ' ');
            out_string(out, report_fallback_name((enum fallback)i));
        }
    }
    out_string(out, shown == 0 ? " none\n" : "\n");
}

void screen_write(struct output *out, const struct census *census) {
    struct counter_values values;
    counters_read(&values);
    out_string(out, "hakmem ");
    out_string(out, VERSION);
    out_string(out, " statistics, process ");
    out_decimal(out, (uint64_t)os_process_id());
    out_string(out, " (");
    out_string(out, os_program_name());
    out_string(out, "), after ");
    out_decimal(out, os_now_ms() - loaded_ms());
    out_string(out, " ms\n");
    write_memory(out, census);
    write_lanes(out, census);
    write_classes(out, census);
    write_events(out, &values);
    sites_write_top(out);
}
