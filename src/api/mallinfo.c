/* libc's ways of asking for statistics, answered from HAKMEM's. */
#include "api/libc_serves.h"
#include "api/names.h"
#include "observe/census.h"
#include "observe/output.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#ifdef HAKMEM_STANDARD_NAMES
static int clip(size_t value) {
    return value > INT_MAX ? INT_MAX : (int)value;
}

HAK_EXPORT struct mallinfo2 mallinfo2(void) {
    struct mallinfo2 (*of_libc)(void);
    if (libc_serves("mallinfo2", (void *)&of_libc)) {
        return of_libc();
    }
    hak_stats_t s;
    hak_stats_get(&s);
    size_t free = s.cached_bytes + s.free_in_slab_bytes + s.retained_bytes;
    return (struct mallinfo2){
        .arena = s.live_bytes + free,
        .uordblks = s.live_bytes,
        .fordblks = free,
        .fsmblks = s.cached_bytes,
        .keepcost = s.retained_bytes,
    };
}

/* Superseded by mallinfo2, because figures may not fit an int: here these are clipped, not wrapped. */
HAK_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 m = mallinfo2();
    return (struct mallinfo){
        .arena = clip(m.arena),
        .uordblks = clip(m.uordblks),
        .fordblks = clip(m.fordblks),
        .fsmblks = clip(m.fsmblks),
        .keepcost = clip(m.keepcost),
    };
}

HAK_EXPORT void malloc_stats(void) {
    void (*of_libc)(void);
    if (libc_serves("malloc_stats", (void *)&of_libc)) {
        of_libc();
        return;
    }
    hak_stats_print(STDERR_FILENO);
}

/* An XML element, put together in `line` and written whole by end(). */
struct element {
    FILE *stream;
    bool failed;
    struct output out;
    char line[512];
};

static void begin(struct element *e, const char *name) {
    e->out = output_to_buffer(e->line, sizeof e->line);
    out_string(&e->out, "  <");
    out_string(&e->out, name);
}

static void attribute(struct element *e, const char *name, uint64_t value) {
    out_char(&e->out, ' ');
    out_string(&e->out, name);
    out_string(&e->out, "=\"");
    out_decimal(&e->out, value);
    out_char(&e->out, '"');
}

static void end(struct element *e) {
    out_string(&e->out, "/>\n");
    e->failed = fputs(e->line, e->stream) < 0 || e->failed;
}

static void total(struct element *e, const char *type, uint64_t bytes) {
    begin(e, "total type=\"");
    out_string(&e->out, type);
    out_char(&e->out, '"');
    attribute(e, "size", bytes);
    end(e);
}

static void write_lanes(struct element *e, const struct census *census) {
    static const char *const names[LANES] = {"tiny", "mid", "large", "huge"};
    for (int i = 0; i < LANES; i++) {
        const struct lane_figures *lane = &census->lanes[i];
        begin(e, "lane name=\"");
        out_string(&e->out, names[i]);
        out_char(&e->out, '"');
        attribute(e, "live-blocks", lane->live_blocks);
        attribute(e, "live", lane->live_bytes);
        attribute(e, "cached", lane->cached_bytes);
        attribute(e, "free", lane->free_bytes);
        attribute(e, "untouched", lane->untouched_bytes);
        attribute(e, "resident", lane->resident_bytes);
        end(e);
    }
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        if (census->classes[c].slabs != 0) {
            begin(e, "class");
            attribute(e, "size", size_classes[c].bytes);
            attribute(e, "slabs", census->classes[c].slabs);
            attribute(e, "live-blocks", census_class_live(census, c));
            attribute(e, "cached-blocks", census->classes[c].cached_blocks);
            attribute(e, "free-blocks", census->classes[c].free_blocks);
            end(e);
        }
    }
}

HAK_EXPORT int malloc_info(int options, FILE *stream) {
    int (*of_libc)(int, FILE *);
    if (libc_serves("malloc_info", (void *)&of_libc)) {
        return of_libc(options, stream);
    }
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct census census;
    struct memory_figures m;
    struct element e = {.stream = stream};
    census_take(&census, true);
    census_sum(&census, &m);
    e.failed = fputs("<malloc version=\"hakmem ", stream) < 0 || fputs(hak_version(), stream) < 0 ||
               fputs("\">\n", stream) < 0;
    total(&e, "live", m.live_bytes);
    total(&e, "cached", m.cached_bytes);
    total(&e, "free-in-slabs", m.free_in_slabs_bytes);
    total(&e, "slab-tails", m.slab_tail_bytes);
    total(&e, "retained", m.retained_bytes);
    total(&e, "metadata", m.metadata_bytes);
    total(&e, "untouched", m.untouched_bytes);
    total(&e, "resident", m.resident_bytes);
    write_lanes(&e, &census);
    e.failed = fputs("</malloc>\n", stream) < 0 || e.failed;
    return e.failed ? -1 : 0;
}
#endif
