#include "observe/document.h"

#include "arena/arena.h"
#include "arena/page_map.h"
#include "arena/scarcity.h"
#include "base/version.h"
#include "heap/heap_table.h"
#include "observe/counters.h"
#include "observe/json.h"
#include "observe/uptime.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/program.h"
#include "os/resident.h"

static void write_head(struct json *json) {
    uint64_t loaded = loaded_ms();
    uint64_t begin = max_size(counters_begin_ms(), loaded);
    uint64_t now = os_now_ms(); /* not before: a reset may come in between */
    json_number(json, "schema", DOCUMENT_SCHEMA);
    json_string(json, "version", VERSION);
    json_number(json, "pid", (uint64_t)os_process_id());
    json_string(json, "program", os_program_name());
    json_number(json, "time_ms", os_real_ms());
    json_number(json, "uptime_ms", now - loaded);
    json_number(json, "counting_ms", now - begin);
}

static void write_container(struct json *json, bool is_scarce) {
    struct scarcity_figures container = scarcity_figures();
    if (container.limit_bytes != 0) {
        json_open(json, "container", '{');
        json_number(json, "limit_bytes", container.limit_bytes);
        json_number(json, "room_bytes", container.room_bytes);
        json_number(json, "age_ms", container.age_ms);
        json_bool(json, "scarce", is_scarce);
        json_close(json, '}');
    }
}

static void write_memory(struct json *json, const struct census *census) {
    struct memory_figures m;
    struct arena_figures arena;
    census_sum(census, &m);
    arena_figures(&arena);
    json_open(json, "memory", '{');
    json_number(json, "live_bytes", m.live_bytes);
    json_number(json, "live_blocks", m.live_blocks);
    json_number(json, "cached_bytes", m.cached_bytes);
    json_number(json, "cached_blocks", m.cached_blocks);
    json_number(json, "free_in_slabs_bytes", m.free_in_slabs_bytes);
    json_number(json, "slab_tail_bytes", m.slab_tail_bytes);
    json_number(json, "retained_bytes", m.retained_bytes);
    json_number(json, "metadata_bytes", m.metadata_bytes);
    json_number(json, "untouched_bytes", m.untouched_bytes);
    json_number(json, "heap_resident_bytes", m.resident_bytes);
    uint64_t process_bytes = census->measured ? os_resident_bytes() : 0;
    if (process_bytes != 0) {
        json_number(json, "process_resident_bytes", process_bytes);
    } else {
        json_null(json, "process_resident_bytes");
    }
    json_number(json, "reserved_bytes", region_reserved_bytes() + page_map_reserved_bytes());
    json_number(json, "committed_bytes", census->committed_bytes);
    json_number(json, "retained_limit_bytes", arena.retained_limit_bytes);
    json_bool(json, "measured", census->measured);
    json_close(json, '}');
    json_open(json, "metadata", '{');
    json_number(json, "regions_bytes", census->metadata.regions_bytes);
    json_number(json, "page_map_bytes", census->metadata.page_map_bytes);
    json_number(json, "heaps_bytes", census->metadata.heaps_bytes);
    json_number(json, "tables_bytes", census->metadata.tables_bytes);
    json_close(json, '}');
    write_container(json, arena.is_scarce);
}

/* Lanes and classes leave out what is 0, so that the live page of a small program is small. */
static void number_if_any(struct json *json, const char *name, uint64_t value) {
    if (value != 0) {
        json_number(json, name, value);
    }
}

static void write_lanes(struct json *json, const struct census *census) {
    static const char names[LANES][8] = {"tiny", "mid", "large", "huge"};
    json_open(json, "lanes", '{');
    for (int i = 0; i < LANES; i++) {
        const struct lane_figures *lane = &census->lanes[i];
        json_open(json, names[i], '{');
        number_if_any(json, "live_blocks", lane->live_blocks);
        number_if_any(json, "live_bytes", lane->live_bytes);
        number_if_any(json, "cached_blocks", lane->cached_blocks);
        number_if_any(json, "cached_bytes", lane->cached_bytes);
        number_if_any(json, "free_bytes", lane->free_bytes);
        number_if_any(json, "tail_bytes", lane->tail_bytes);
        number_if_any(json, "untouched_bytes", lane->untouched_bytes);
        number_if_any(json, "slab_bytes", lane->slab_bytes);
        number_if_any(json, "resident_bytes", lane->resident_bytes);
        json_close(json, '}');
    }
    json_close(json, '}');
}

static void write_class(struct json *json, const struct census *census, unsigned c) {
    const struct class_figures *figures = &census->classes[c];
    uint64_t live = census_class_live(census, c);
    json_open(json, NULL, '{');
    json_number(json, "bytes", size_classes[c].bytes);
    if (c >= SPACED_CLASSES) {
        json_bool(json, "exact", true);
    }
    number_if_any(json, "slabs", figures->slabs);
    number_if_any(json, "live_blocks", live);
    number_if_any(json, "live_bytes", live * size_classes[c].bytes);
    number_if_any(json, "cached_blocks", figures->cached_blocks);
    number_if_any(json, "free_blocks", figures->free_blocks);
    number_if_any(json, "resident_bytes", (uint64_t)figures->resident_pages * OS_PAGE_BYTES);
    json_close(json, '}');
}

/* Writes all classes in the order of their sizes: an exact class comes before the spaced one
 * that it is cut from. */
static void write_classes(struct json *json, const struct census *census) {
    json_open(json, "classes", '[');
    for (unsigned c = 0; c < SPACED_CLASSES; c++) {
        unsigned exact = c < TINY_CLASSES ? c : c + EXACT_CLASSES;
        const struct class_figures *figures = census->classes;
        if (exact != c && (figures[exact].slabs != 0 || figures[exact].cached_blocks != 0)) {
            write_class(json, census, exact);
        }
        if (figures[c].slabs != 0 || figures[c].cached_blocks != 0) {
            write_class(json, census, c);
        }
    }
    json_close(json, ']');
}

/* Copies `name` with '_' for each space into `buffer`, and returns that: "no heap" becomes "no_heap". */
static const char *as_key(const char *name, char *buffer, size_t capacity) {
    struct text key = {.buffer = buffer, .capacity = capacity, .length = 0};
    for (; *name != '\0'; name++) {
        text_char(&key, *name == ' ' ? '_' : *name);
    }
    return buffer;
}

static void write_batches(struct json *json, const char *name, const uint64_t *batches) {
    json_open(json, name, '[');
    for (int i = 0; i < BATCH_SIZES; i++) {
        json_number(json, NULL, batches[i]);
    }
    json_close(json, ']');
}

static void write_counters(struct json *json) {
    struct counter_values values;
    counters_read(&values);
    json_open(json, "counters", '{');
    for (int i = 0; i < COUNTERS; i++) {
        if (values.counters[i] != 0) {
            json_number(json, counter_name((enum counter)i), values.counters[i]);
        }
    }
    json_close(json, '}');
    json_open(json, "batches", '{');
    write_batches(json, "refill", values.refill_batches);
    write_batches(json, "flush", values.flush_batches);
    json_close(json, '}');
    json_open(json, "fallbacks", '{');
    for (int i = 0; i < FALLBACK_COUNT; i++) {
        char key[64];
        if (values.fallbacks[i] != 0) {
            json_number(json, as_key(report_fallback_name((enum fallback)i), key, sizeof key),
                        values.fallbacks[i]);
        }
    }
    json_close(json, '}');
}

static void write_rest(struct json *json) {
    struct heap_counts heaps;
    heap_count_states(&heaps);
    json_open(json, "heaps", '{');
    json_number(json, "active", heaps.active);
    json_number(json, "abandoned", heaps.abandoned);
    json_number(json, "shared", heaps.shared);
    json_close(json, '}');
    json_open(json, "options", '{');
    for (int i = 0; i < OPTION_COUNT; i++) {
        char value[32];
        if (option_differs((enum option)i, value, sizeof value)) {
            json_string(json, option_name((enum option)i), value);
        }
    }
    json_close(json, '}');
}

void document_write(struct output *out, const struct census *census, bool with_classes) {
    struct json json = {.out = out, .needs_comma = false};
    json_open(&json, NULL, '{');
    write_head(&json);
    write_memory(&json, census);
    write_lanes(&json, census);
    if (with_classes) {
        write_classes(&json, census);
    } else {
        json_open(&json, "classes", '[');
        json_close(&json, ']');
    }
    write_counters(&json);
    write_rest(&json);
    json_close(&json, '}');
    out_char(out, '\n');
}
