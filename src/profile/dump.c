#include "profile/dump.h"

#include "os/maps.h"
#include "os/sink.h"

static void write_figures(struct sink *out, const struct figures *figures, size_t width) {
    sink_decimal_column(out, figures->live_blocks, width);
    sink_string(out, ": ");
    sink_decimal_column(out, figures->live_bytes, width);
    sink_string(out, " [");
    sink_decimal_column(out, figures->total_blocks, width);
    sink_string(out, ": ");
    sink_decimal_column(out, figures->total_bytes, width);
    sink_string(out, "] @");
}

static struct figures sum_of(const struct snapshot *snapshot) {
    struct figures sum = {0};
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct figures *figures = &snapshot->lines[i].figures;
        sum.live_blocks += figures->live_blocks;
        sum.live_bytes += figures->live_bytes;
        sum.total_blocks += figures->total_blocks;
        sum.total_bytes += figures->total_bytes;
    }
    return sum;
}

int dump_write(int fd, struct snapshot *snapshot) {
    struct sink out;
    struct figures sum = sum_of(snapshot);
    sink_begin(&out, fd);
    sink_string(&out, "heap profile: ");
    write_figures(&out, &sum, 6);
    sink_string(&out, " heap_v2/");
    sink_decimal(&out, snapshot->interval);
    sink_char(&out, '\n');
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct line *line = &snapshot->lines[i];
        write_figures(&out, &line->figures, 6);
        for (size_t f = 0; f < line->origin->depth; f++) {
            sink_char(&out, ' ');
            sink_hex(&out, line->origin->frames[f]);
        }
        sink_char(&out, '\n');
    }
    snapshot_end(snapshot);
    sink_string(&out, "\nMAPPED_LIBRARIES:\n");
    maps_copy(&out);
    return sink_end(&out);
}
