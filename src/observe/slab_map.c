#include "observe/slab_map.h"

#include "arena/run.h"
#include "arena/walk.h"
#include "observe/json.h"
#include "slab/size_class.h"
#include "slab/slab.h"

/* The numbers by which the JSON names states. */
enum { STATE_CLEAN, STATE_DIRTY, STATE_CLASS, STATE_LARGE, STATE_INTERNAL };

/* A run of slabs. Kept small, because all entries of a step are on the stack of whoever asks. */
struct entry {
    uint32_t index, slabs;
    size_t block_bytes;
    uint16_t blocks, live_blocks;
    uint8_t state;
};

/* Most entries of a step: each slab may have one of its own, and the region's metadata has one. */
#define ENTRIES_MOST (WALK_STEP_SUPERSLABS * SLABS_PER_SUPERSLAB + 1)

struct map_step {
    uintptr_t base; /* of the region */
    size_t region_bytes;
    size_t count;
    struct entry entries[ENTRIES_MOST];
};

static void describe_blocks(const struct slab *head, struct entry *entry) {
    const struct size_class *c = &size_classes[head->size_class];
    entry->block_bytes = c->bytes;
    entry->blocks = (uint16_t)c->blocks;
    entry->live_blocks = (uint16_t)(c->blocks - min_size(slab_count_free(head), c->blocks));
}

static void visit(const struct piece *piece, void *context) {
    struct map_step *step = context;
    struct entry entry = {.index = (uint32_t)((piece->address - piece->region->base) >> SLAB_SHIFT),
                          .slabs = (uint32_t)piece->slabs};
    step->base = piece->region->base;
    step->region_bytes = piece->region->bytes;
    switch (piece->kind) {
    case PIECE_CLEAN:
        entry.state = STATE_CLEAN;
        break;
    case PIECE_DIRTY:
        entry.state = STATE_DIRTY;
        break;
    case PIECE_CLASS:
        entry.state = STATE_CLASS;
        describe_blocks(piece->head, &entry);
        break;
    case PIECE_LARGE:
        entry.state = STATE_LARGE;
        /* relaxed: a statistic */
        entry.block_bytes = atomic_load_explicit(&piece->head->span_bytes, memory_order_relaxed);
        entry.blocks = entry.live_blocks = 1;
        break;
    default:
        entry.state = STATE_INTERNAL;
        break;
    }
    if (step->count < ENTRIES_MOST) {
        step->entries[step->count++] = entry;
    }
}

struct map_writer {
    struct json json;
    uintptr_t region;  /* base of the region whose array is open; 0: none is */
    struct entry held; /* not written yet: the next one may continue it */
    bool holds;
};

static void write_held(struct map_writer *w) {
    if (!w->holds) {
        return;
    }
    const struct entry *e = &w->held;
    const size_t numbers[] = {e->index, e->slabs, e->state, e->block_bytes, e->blocks, e->live_blocks};
    json_open(&w->json, NULL, '[');
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_number(&w->json, NULL, numbers[i]);
    }
    json_close(&w->json, ']');
    w->holds = false;
}

static void close_region(struct map_writer *w) {
    write_held(w);
    if (w->region != 0) {
        json_close(&w->json, ']');
        json_close(&w->json, '}');
    }
}

/* Writes an entry, but for free slabs that directly follow others in the same state: they become one entry
 * with them, though they are in another superslab. */
static void write_entry(struct map_writer *w, const struct map_step *step, const struct entry *e) {
    if (step->base != w->region) {
        close_region(w);
        w->region = step->base;
        json_open(&w->json, NULL, '{');
        json_address(&w->json, "base", step->base);
        json_number(&w->json, "bytes", step->region_bytes);
        json_open(&w->json, "slabs", '[');
    }
    if (w->holds && w->held.state == e->state && e->state <= STATE_DIRTY &&
        w->held.index + w->held.slabs == e->index) {
        w->held.slabs += e->slabs;
        return;
    }
    write_held(w);
    w->held = *e;
    w->holds = true;
}

int slab_map_write(int fd) {
    struct sink sink;
    sink_begin(&sink, fd);
    struct output out = output_to_sink(&sink);
    struct map_writer w = {.json = {&out, false}};
    struct map_step step;
    struct walk walk = {0};
    struct walk_visitor visitor = {NULL, visit, &step};
    json_open(&w.json, NULL, '{');
    json_number(&w.json, "slab_bytes", SLAB_BYTES);
    json_number(&w.json, "superslab_bytes", SUPERSLAB_BYTES);
    json_open(&w.json, "regions", '[');
    for (step.count = 0; arena_walk_step(&walk, &visitor); step.count = 0) {
        for (size_t i = 0; i < step.count; i++) {
            write_entry(&w, &step, &step.entries[i]);
        }
    }
    close_region(&w);
    json_close(&w.json, ']');
    json_close(&w.json, '}');
    out_char(&out, '\n');
    return sink_end(&sink);
}
