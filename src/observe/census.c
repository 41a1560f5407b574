#include "observe/census.h"

#include "arena/page_map.h"
#include "arena/run.h"
#include "observe/census_caches.h"
#include "os/os.h"
#include "os/resident.h"
#include "profile/sample.h"
#include "slab/slab.h"

#include <string.h>

#define STEP_PAGES (WALK_STEP_BYTES / OS_PAGE_BYTES)

/* A piece that may reach beyond the addresses of a step: its pages are asked about after the step, without
 * the arena's lock. */
struct deferred {
    uintptr_t address;
    size_t bytes, span; /* of the run, and of the block in it */
    enum piece_kind kind;
    size_t covers; /* bytes of address space that a region's metadata is for */
};
/* Most of them in one step: the metadata of one region, and as many huge blocks as there are superslabs. */
#define DEFERRED_MOST (WALK_STEP_SUPERSLABS + 1)

struct step {
    struct census *census;
    uintptr_t from; /* where the step's addresses begin */
    size_t deferred_count;
    struct deferred deferred[DEFERRED_MOST];
    unsigned char resident[STEP_PAGES]; /* 1 for each resident page from `from` on */
};

/* Bytes of [from, to) on pages that are resident; `resident` has a byte for each page from `base` on. */
static size_t resident_within(const unsigned char *resident, uintptr_t base, uintptr_t from, uintptr_t to) {
    size_t bytes = 0;
    while (from < to) {
        uintptr_t page = round_down(from, OS_PAGE_BYTES);
        uintptr_t end = page + OS_PAGE_BYTES < to ? page + OS_PAGE_BYTES : to;
        if (resident[(page - base) / OS_PAGE_BYTES] != 0) {
            bytes += end - from;
        }
        from = end;
    }
    return bytes;
}

static void prepare(uintptr_t from, size_t bytes, void *context) {
    struct step *step = context;
    step->from = from;
    if (!os_resident_pages(from, bytes / OS_PAGE_BYTES, step->resident)) {
        step->census->measured = false; /* the kernel will not tell */
    }
}

/* Resident bytes of [from, to), a range of any length. `pages` is room for the answers about
 * STEP_PAGES pages. */
static size_t measure(uintptr_t from, uintptr_t to, unsigned char *pages) {
    size_t bytes = 0;
    for (uintptr_t at = round_down(from, OS_PAGE_BYTES); at < to; at += STEP_PAGES * OS_PAGE_BYTES) {
        uintptr_t end = min_size(at + STEP_PAGES * OS_PAGE_BYTES, to);
        (void)os_resident_pages(at, round_up(end - at, OS_PAGE_BYTES) / OS_PAGE_BYTES, pages);
        bytes += resident_within(pages, at, at < from ? from : at, end);
    }
    return bytes;
}

/* Whether the block with the number `block` is free: never handed out (from `bump` on) or returned. */
static bool block_is_free(const struct slab *head, size_t block, size_t bump) {
    /* relaxed: a statistic */
    return block >= bump ||
           (atomic_load_explicit(&head->returned, memory_order_relaxed) &&
            atomic_load_explicit(&head->words[block / 64], memory_order_relaxed) >> block % 64 & 1);
}

/* Bytes of free blocks within offsets from..to-1 of a run of class `c`. */
static size_t free_within(const struct slab *head, const struct size_class *c, size_t bump, size_t from,
                          size_t to) {
    size_t bytes = 0;
    while (from < to) {
        size_t block = from / c->bytes;
        size_t end = min_size((block + 1) * c->bytes, to);
        if (block_is_free(head, block, bump)) {
            bytes += end - from;
        }
        from = end;
    }
    return bytes;
}

struct run_figures {
    size_t resident;  /* resident bytes of the run */
    size_t tail;      /* resident bytes behind the last block */
    size_t free_gone; /* bytes of free blocks that are not resident */
    size_t used_gone; /* bytes of blocks handed out that are not resident */
};

static void measure_run(const struct step *step, const struct piece *piece, const struct size_class *c,
                        size_t bump, struct run_figures *out) {
    size_t blocks_end = (size_t)c->blocks * c->bytes;
    for (size_t at = 0; at < piece->slabs << SLAB_SHIFT; at += OS_PAGE_BYTES) {
        size_t with_blocks = at >= blocks_end ? 0 : min_size(blocks_end - at, OS_PAGE_BYTES);
        if (step->resident[(piece->address + at - step->from) / OS_PAGE_BYTES] != 0) {
            out->resident += OS_PAGE_BYTES;
            out->tail += OS_PAGE_BYTES - with_blocks;
        } else {
            /* Most of what is not resident was never handed out: no block needs to be looked at there. */
            size_t free =
                at >= bump * c->bytes ? with_blocks : free_within(piece->head, c, bump, at, at + with_blocks);
            out->free_gone += free;
            out->used_gone += with_blocks - free;
        }
    }
}

/* The figures of a run without asking the kernel: pages with blocks that were ever handed out count as
 * resident, except those that were given back since. */
static void estimate_run(const struct piece *piece, const struct size_class *c, size_t bump,
                         struct run_figures *out) {
    size_t blocks_end = (size_t)c->blocks * c->bytes;
    /* The bytes that were perhaps used, which may be fewer than the run has. */
    size_t span = slab_span(piece->head);
    size_t used = round_up(min_size(bump * c->bytes, span), OS_PAGE_BYTES);
    out->resident = used;
    out->tail = used > blocks_end ? used - blocks_end : 0;
    out->free_gone = blocks_end > used ? blocks_end - used : 0;
    /* Pages that were given back while the run was in its heap's list hold free blocks only. */
    size_t part = slab_pages_of_a_bit(piece->head) * OS_PAGE_BYTES;
    for (uint32_t purged = slab_purged(piece->head); purged != 0; purged &= purged - 1) {
        size_t from = bit_lowest(purged) * part;
        size_t end = min_size(from + part, used);
        if (from < end) {
            size_t tail = end > blocks_end ? end - max_size(from, blocks_end) : 0;
            out->resident -= end - from;
            out->tail -= min_size(tail, out->tail);
            out->free_gone += end - from - tail;
        }
    }
}

static void count_blocks(const struct step *step, const struct piece *piece) {
    struct census *census = step->census;
    unsigned size_class = piece->head->size_class;
    const struct size_class *c = &size_classes[size_class];
    struct class_figures *figures = &census->classes[size_class];
    struct lane_figures *lane = &census->lanes[size_class_lane(size_class)];
    size_t free = min_size(slab_count_free(piece->head), c->blocks);
    /* relaxed: a statistic */
    size_t bump = atomic_load_explicit(&piece->head->bump, memory_order_relaxed);
    struct run_figures run = {0, 0, 0, 0};
    if (census->measured) {
        measure_run(step, piece, c, bump, &run);
    } else {
        estimate_run(piece, c, bump, &run);
    }
    figures->free_blocks += free;
    figures->slabs += (uint32_t)piece->slabs;
    figures->resident_pages += (uint32_t)(run.resident / OS_PAGE_BYTES);
    lane->live_blocks += c->blocks - free;
    lane->live_bytes += (c->blocks - free) * c->bytes;
    lane->free_bytes += free * c->bytes - min_size(run.free_gone, free * c->bytes);
    lane->tail_bytes += run.tail;
    lane->untouched_bytes += run.used_gone;
    lane->slab_bytes += piece->slabs << SLAB_SHIFT;
    lane->resident_bytes += run.resident;
}

/* Counts a large or huge block: `resident` bytes of its run, of which `resident_span` in the block. */
static void count_large(struct census *census, const struct deferred *d, enum lane which, size_t resident,
                        size_t resident_span) {
    struct lane_figures *lane = &census->lanes[which];
    lane->live_blocks++;
    lane->live_bytes += d->span;
    lane->untouched_bytes += d->span - resident_span;
    lane->tail_bytes += resident - resident_span;
    lane->slab_bytes += d->bytes;
    lane->resident_bytes += resident;
}

static void visit(const struct piece *piece, void *context) {
    struct step *step = context;
    struct census *census = step->census;
    size_t bytes = piece->slabs << SLAB_SHIFT;
    uintptr_t end = piece->address + bytes;
    bool beyond =
        piece->kind == PIECE_METADATA || (piece->kind == PIECE_LARGE && arena_run_is_huge(piece->head));
    struct deferred d = {.address = piece->address, .bytes = bytes, .span = bytes, .kind = piece->kind};
    if (piece->kind == PIECE_LARGE) {
        /* relaxed: a statistic */
        d.span = min_size(atomic_load_explicit(&piece->head->span_bytes, memory_order_relaxed), bytes);
    }
    if (piece->kind == PIECE_METADATA) {
        d.covers = piece->region->bytes;
        census->committed_bytes += (size_t)piece->region->committed << SUPERSLAB_SHIFT;
    }
    if (beyond) {
        step->deferred[step->deferred_count++] = d;
        return;
    }
    if (piece->kind == PIECE_CLASS) {
        count_blocks(step, piece);
        return;
    }
    size_t resident = bytes;
    size_t resident_span = d.span;
    if (census->measured) {
        resident = resident_within(step->resident, step->from, piece->address, end);
        resident_span = resident_within(step->resident, step->from, piece->address, piece->address + d.span);
    }
    switch (piece->kind) {
    case PIECE_LARGE:
        count_large(census, &d, LANE_LARGE, census->measured ? resident : d.span, resident_span);
        break;
    case PIECE_INTERNAL:
        census->internal_slabs += (uint32_t)piece->slabs;
        census->metadata.heaps_bytes += census->measured ? resident : 0; /* else: see census_count_heaps */
        break;
    case PIECE_DIRTY:
        census->retained_bytes += resident;
        break;
    default: /* clean: still, pages may be resident that were read and never written */
        census->retained_bytes += census->measured ? resident : 0;
        break;
    }
}

/* Counts the page map's words for a region. Regions come in the order of their addresses, and two of them may
 * have words on the same page, which is counted once. */
static void count_page_map(struct step *step, uintptr_t start, size_t bytes) {
    struct census *census = step->census;
    if (page_map_limit == 0) {
        return; /* the words are among the region's metadata */
    }
    uintptr_t from = page_map_pages_begin(start);
    uintptr_t to = page_map_pages_end(start + bytes);
    from = from < census->page_map_seen ? census->page_map_seen : from;
    if (from < to) {
        census->metadata.page_map_bytes +=
            census->measured ? measure(from, to, step->resident) : (size_t)OS_PAGE_BYTES;
        census->page_map_seen = to;
    }
}

/* Without asking, a region's metadata is taken to be its headers and small bitmaps. */
static size_t estimate_metadata(const struct deferred *d) {
    size_t slabs = d->covers >> SLAB_SHIFT;
    return min_size(OS_PAGE_BYTES + slabs * (sizeof(struct slab) + SMALL_BITMAP_BYTES), d->bytes);
}

static void count_deferred(struct step *step, const struct deferred *d) {
    struct census *census = step->census;
    unsigned char *pages = step->resident;
    if (d->kind == PIECE_METADATA) {
        census->metadata.regions_bytes +=
            census->measured ? measure(d->address, d->address + d->bytes, pages) : estimate_metadata(d);
        count_page_map(step, d->address, d->covers);
        return;
    }
    size_t resident = d->span;
    size_t resident_span = d->span;
    if (census->measured) {
        resident = measure(d->address, d->address + d->bytes, pages);
        resident_span = measure(d->address, d->address + d->span, pages);
    }
    /* resident_span was measured later, and may be more than `resident` by now. */
    count_large(census, d, LANE_HUGE, max_size(resident, resident_span), resident_span);
}

/* The library's own tables that were named. relaxed everywhere: each field is written once, the address
 * first; who sees no length yet counts nothing. */
#define TABLES_MOST 8
static struct {
    _Atomic uintptr_t address; /* 0: unused */
    _Atomic size_t bytes;
} tables[TABLES_MOST];

void census_add_table(const void *address, size_t bytes) {
    for (size_t i = 0; i < TABLES_MOST; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&tables[i].address, &none, (uintptr_t)address,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            atomic_store_explicit(&tables[i].bytes, bytes, memory_order_relaxed);
            return;
        }
    }
}

/* Adds what the profile and the library's own tables take. `pages` is room for the answers about
 * STEP_PAGES pages. */
static void count_tables(struct census *census, unsigned char *pages) {
    struct profile_costs profile;
    profile_costs(&profile);
    census->shadow_blocks = profile.shadow_blocks;
    census->shadow_bytes = profile.shadow_bytes;
    census->metadata.tables_bytes = profile.table_bytes + profile.shadow_bytes;
    for (size_t i = 0; i < TABLES_MOST && census->measured; i++) {
        uintptr_t from = atomic_load_explicit(&tables[i].address, memory_order_relaxed);
        size_t bytes = atomic_load_explicit(&tables[i].bytes, memory_order_relaxed);
        if (from != 0) {
            census->metadata.tables_bytes += measure(from, from + bytes, pages);
        }
    }
}

enum lane size_class_lane(unsigned size_class) {
    return size_class < TINY_CLASSES ? LANE_TINY : LANE_MID;
}

void census_begin(struct census *census, bool measure) {
    memset(census, 0, sizeof *census);
    census->measured = measure;
}

bool census_step(struct census *census) {
    if (census->counted) {
        return false;
    }
    struct step step;
    step.census = census;
    step.deferred_count = 0;
    struct walk_visitor visitor = {census->measured ? prepare : NULL, visit, &step};
    if (!arena_walk_step(&census->walk, &visitor)) {
        count_tables(census, step.resident);
        census_count_heaps(census);
        return false;
    }
    for (size_t i = 0; i < step.deferred_count; i++) {
        count_deferred(&step, &step.deferred[i]);
    }
    return true;
}

void census_take(struct census *census, bool measure) {
    census_begin(census, measure);
    while (census_step(census)) {
    }
}

uint64_t census_class_live(const struct census *census, unsigned size_class) {
    const struct size_class *c = &size_classes[size_class];
    const struct class_figures *figures = &census->classes[size_class];
    if (figures->slabs == 0) {
        return 0; /* perhaps an exact class that was never made */
    }
    uint64_t blocks = (uint64_t)figures->slabs / c->run_slabs * c->blocks;
    uint64_t not_live = figures->free_blocks + figures->cached_blocks;
    return blocks - min_size(not_live, blocks);
}

void census_sum(const struct census *census, struct memory_figures *out) {
    *out = (struct memory_figures){.retained_bytes = census->retained_bytes};
    for (int i = 0; i < LANES; i++) {
        const struct lane_figures *lane = &census->lanes[i];
        out->live_blocks += lane->live_blocks;
        out->live_bytes += lane->live_bytes;
        out->cached_blocks += lane->cached_blocks;
        out->cached_bytes += lane->cached_bytes;
        out->free_in_slabs_bytes += lane->free_bytes;
        out->slab_tail_bytes += lane->tail_bytes;
        out->untouched_bytes += lane->untouched_bytes;
        out->resident_bytes += lane->resident_bytes;
    }
    out->live_blocks -= min_size(census->shadow_blocks, out->live_blocks);
    out->live_bytes -= min_size(census->shadow_bytes, out->live_bytes);
    out->resident_bytes -= census->shadow_bytes; /* they are in metadata_bytes, which is added below */
    const struct metadata_figures *m = &census->metadata;
    out->metadata_bytes = m->regions_bytes + m->page_map_bytes + m->heaps_bytes + m->tables_bytes;
    out->resident_bytes += out->retained_bytes + out->metadata_bytes;
}
