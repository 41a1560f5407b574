#include "arena/region.h"

#include "arena/page_map.h"
#include "os/os.h"
#include "os/report.h"

/* Superslabs are made usable in steps of at least so many, to keep system calls few. */
#define COMMIT_STEP_MIN 8
/* Where address space is limited, a region takes no more than this part of the limit, or SCARCE_LEAST_BYTES
 * if that is more. */
#define LIMIT_PART 16
#define SCARCE_LEAST_BYTES ((size_t)8 << 20)
/* See region_shared_superslabs. */
#define SHARED_SUPERSLABS ((size_t)128)
#define SHARED_SUPERSLABS_SCARCE ((size_t)16)

static _Atomic size_t reserved_bytes; /* relaxed: a statistic */

size_t region_reserved_bytes(void) {
    return atomic_load_explicit(&reserved_bytes, memory_order_relaxed);
}

struct part {
    size_t offset, bytes;
};

/* Where a region's metadata lies, as offsets from its start. */
struct plan {
    struct part states, bits, head_back, page_words, small_bitmaps, bitmaps;
    size_t bitmap_words; /* of one bitmap over superslabs */
    size_t total;
};

static struct part place(size_t *at, size_t bytes) {
    struct part part = {*at, bytes};
    *at += round_up(bytes, CACHE_LINE_BYTES);
    return part;
}

_Static_assert(SUPERSLAB_BITMAPS_BYTES % OS_PAGE_BYTES == 0, "those of a superslab can be purged alone");

static struct plan plan_region(size_t bytes) {
    struct plan plan;
    size_t slabs = bytes >> SLAB_SHIFT;
    size_t superslabs = bytes >> SUPERSLAB_SHIFT;
    plan.bitmap_words = (superslabs + 63) / 64;
    size_t states = superslabs * sizeof(struct superslab);
    size_t bits = (AVAIL_LEVELS + 4) * sizeof(uint64_t) * plan.bitmap_words;
    size_t front = sizeof(struct region);
    size_t at = REGION_HEADERS_OFFSET;
    (void)place(&at, slabs * sizeof(struct slab)); /* the headers */
    bool small = front + states + bits + slabs + 4 * CACHE_LINE_BYTES <= REGION_HEADERS_OFFSET;
    size_t *where = small ? &front : &at;
    *where = round_up(*where, CACHE_LINE_BYTES);
    plan.states = place(where, states);
    plan.bits = place(where, bits);
    plan.head_back = place(where, slabs);
    plan.page_words = place(&at, page_map_limit == 0 ? slabs * sizeof(uint32_t) : 0);
    plan.small_bitmaps = place(&at, slabs * SMALL_BITMAP_BYTES);
    at = round_up(at, OS_PAGE_BYTES); /* so that the bitmaps of a superslab can be purged */
    plan.bitmaps = place(&at, superslabs * SUPERSLAB_BITMAPS_BYTES);
    plan.total = round_up(at, SLAB_BYTES);
    return plan;
}

/* What the length of a region is a multiple of: no granules where one of them is much of the limit. */
static size_t unit(void) {
    bool much = page_map_limit == 0 && os_address_space_limit() / LIMIT_PART < REGION_GRANULE_BYTES;
    return UNLIKELY(much) ? SUPERSLAB_BYTES : region_index_unit();
}

/* Address space for a region: of `*bytes`, or of half as much each time that there is not so much, but at
 * least `least`. NULL if there is none. */
static void *reserve(size_t *bytes, size_t least) {
    size_t wanted = *bytes;
    void *base = region_index_reserve(wanted);
    while (base == NULL && *bytes > least) {
        *bytes = max_size(round_up(*bytes / 2, unit()), least);
        base = region_index_reserve(*bytes);
    }
    if (base != NULL && *bytes < wanted) {
        report_fallback(FALLBACK_SMALL_REGION, *bytes);
    }
    return base;
}

/* Whether a region of `bytes` has room for a run of `superslabs`. */
static bool fits(size_t bytes, size_t superslabs) {
    size_t metadata = round_up(plan_region(bytes).total, SUPERSLAB_BYTES);
    return (bytes - metadata) >> SUPERSLAB_SHIFT >= superslabs;
}

/* What a region takes where address space is limited: the program needs some for its threads' stacks and its
 * files. */
static COLD size_t scarce_bytes(void) {
    size_t part = max_size(os_address_space_limit() / LIMIT_PART, SCARCE_LEAST_BYTES);
    return min_size(round_up(part, unit()), REGION_NEXT_BYTES);
}

/* The bytes of a region where address space is limited. `least` has room for one run of `superslabs`; what
 * there is beyond that is room for a whole number of further ones. */
static COLD size_t bytes_where_scarce(size_t least, size_t superslabs) {
    size_t bytes = scarce_bytes();
    if (bytes > least && unit() == SUPERSLAB_BYTES) {
        bytes -= (bytes - least) % (superslabs << SUPERSLAB_SHIFT);
    }
    return bytes;
}

/* Where address space is scarce, a block that grows by steps must not leave a region of each of its sizes. */
static COLD size_t shared_superslabs_where_scarce(void) {
    return min_size(SHARED_SUPERSLABS_SCARCE, (scarce_bytes() >> SUPERSLAB_SHIFT) - 1);
}

size_t region_shared_superslabs(void) {
    return LIKELY(page_map_limit != 0) ? SHARED_SUPERSLABS : shared_superslabs_where_scarce();
}

static size_t usual_bytes(size_t least, size_t superslabs) {
    if (page_map_limit == 0) {
        return bytes_where_scarce(least, superslabs);
    }
    return region_reserved_bytes() == 0 ? REGION_FIRST_BYTES : REGION_NEXT_BYTES;
}

void region_note(struct region *r, size_t superslab) {
    struct superslab *state = &r->states[superslab];
    uint32_t runs = state->free & ~state->ahead;
    uint32_t noted = (uint32_t)((state->dirty & ~state->ahead) != 0) << AVAIL_LEVELS |
                     (uint32_t)(state->ahead != 0) << (AVAIL_LEVELS + 1);
    for (unsigned level = 0; level < AVAIL_LEVELS; level++) {
        noted |= (uint32_t)(runs != 0) << level;
        runs &= runs >> (1u << level) % 32; /* starts of runs twice as long */
    }
    uint32_t changed = noted ^ state->noted;
    state->noted = noted;
    for (; UNLIKELY(changed != 0); changed &= changed - 1) {
        r->noted[bit_lowest(changed)][superslab / 64] ^= (uint64_t)1 << (superslab % 64);
    }
}

/* Puts the superslabs below `count`, which have become usable, into circulation. */
static void open_to(struct region *r, uint32_t count) {
    for (uint32_t s = r->committed; s < count; s++) {
        r->states[s].free = UINT32_MAX;
        region_note(r, s);
    }
    r->committed = count;
}

/* Sets up the metadata of a region of `bytes` at its start, whose first `metadata` bytes are usable and of
 * which nothing is in circulation yet. */
static struct region *lay_out(void *base, size_t bytes, const struct plan *plan, size_t metadata) {
    struct region *r = base;
    unsigned char *start = base;
    r->base = (uintptr_t)base;
    r->bytes = bytes;
    r->superslabs = (uint32_t)(bytes >> SUPERSLAB_SHIFT);
    r->committed = (uint32_t)(metadata >> SUPERSLAB_SHIFT);
    r->first_free_slab = (uint32_t)(plan->total >> SLAB_SHIFT);
    r->states = (struct superslab *)(void *)(start + plan->states.offset);
    uint64_t *bits = (uint64_t *)(void *)(start + plan->bits.offset);
    for (unsigned level = 0; level < AVAIL_LEVELS; level++, bits += plan->bitmap_words) {
        r->avail[level] = bits;
    }
    r->dirty = bits;
    r->ahead = bits + plan->bitmap_words;
    r->huge = bits + 2 * plan->bitmap_words;
    r->bitmaps_touched = bits + 3 * plan->bitmap_words;
    r->head_back = start + plan->head_back.offset;
    r->page_words = page_map_limit != 0 ? page_map_word(r->base)
                                        : (_Atomic uint32_t *)(void *)(start + plan->page_words.offset);
    r->small_bitmaps = start + plan->small_bitmaps.offset;
    r->bitmaps = start + plan->bitmaps.offset;
    return r;
}

struct region *region_make(size_t superslabs, bool only_huge) {
    size_t step = unit();
    size_t least = round_up(superslabs << SUPERSLAB_SHIFT, step);
    while (!fits(least, superslabs)) {
        least += step;
    }
    size_t bytes = only_huge ? least : max_size(least, usual_bytes(least, superslabs));
    void *base = reserve(&bytes, least);
    if (base == NULL) {
        return NULL;
    }
    struct plan plan = plan_region(bytes);
    size_t metadata = round_up(plan.total, SUPERSLAB_BYTES);
    /* The first superslabs become usable by the same call as the metadata. */
    size_t with_it = only_huge ? 0 : min_size(COMMIT_STEP_MIN * SUPERSLAB_BYTES, bytes - metadata);
    /* Small pages, whatever the system's setting: a slab of which one page is used shall not cost 2 MiB. */
    os_ask_for_huge_pages(base, bytes, false);
    if (with_it > 0 && !os_commit(base, metadata + with_it)) {
        with_it = 0;
    }
    if ((uintptr_t)base + bytes > (uintptr_t)1 << ADDRESS_BITS ||
        (with_it == 0 && !os_commit(base, metadata)) || !page_map_cover((uintptr_t)base, bytes) ||
        !region_index_cover((uintptr_t)base, bytes)) {
        os_release(base, bytes);
        return NULL;
    }
    struct region *r = lay_out(base, bytes, &plan, metadata);
    r->only_huge = only_huge;
    /* What the metadata leaves of its last superslab serves as slabs. */
    uint32_t tail = r->first_free_slab % SLABS_PER_SUPERSLAB;
    if (tail != 0) {
        r->states[r->committed - 1].free = ~bits32_below(tail);
        region_note(r, r->committed - 1);
    }
    open_to(r, r->committed + (uint32_t)(with_it >> SUPERSLAB_SHIFT));
    region_index_set(r->base, bytes, true);
    atomic_fetch_add_explicit(&reserved_bytes, bytes, memory_order_relaxed);
    return r;
}

void region_forget(const struct region *r) {
    region_index_set(r->base, r->bytes, false);
    atomic_fetch_sub_explicit(&reserved_bytes, r->bytes, memory_order_relaxed);
}

COLD bool region_cut(struct region *r) {
    uintptr_t end = region_superslab_address(r, r->committed);
    uintptr_t had_end = r->base + r->bytes;
    uintptr_t next = round_up(end, REGION_GRANULE_BYTES);
    if (had_end - end <= scarce_bytes()) {
        return false;
    }
    region_index_set(r->base, end - r->base, true);
    if (next < had_end) {
        region_index_set(next, had_end - next, false);
    }
    r->superslabs = r->committed;
    __atomic_store_n(&r->bytes, end - r->base, __ATOMIC_RELAXED); /* see region.h */
    atomic_fetch_sub_explicit(&reserved_bytes, had_end - end, memory_order_relaxed);
    os_release((void *)end, had_end - end);
    return true;
}

void region_unmap(struct region *r) {
    os_release(r, r->bytes);
}

/* Makes the superslabs from the last usable one on, up to `target`, usable. */
static bool commit_to(const struct region *r, uint32_t target, enum region_commit how) {
    void *from = (void *)region_superslab_address(r, r->committed);
    size_t bytes = (size_t)(target - r->committed) << SUPERSLAB_SHIFT;
    return how == REGION_LOCKS ? os_commit_locked(from, bytes) : os_commit(from, bytes);
}

bool region_commit(struct region *r, uint32_t count, enum region_commit how) {
    if (count <= r->committed) {
        return true;
    }
    uint32_t step = (uint32_t)max_size(COMMIT_STEP_MIN, r->committed / 4);
    uint32_t most = how == REGION_COMMITS_MORE ? (uint32_t)max_size(count, r->committed + step) : count;
    uint32_t target = (uint32_t)min_size(most, r->superslabs);
    while (!commit_to(r, target, how)) {
        if (target == count) {
            return false;
        }
        target = count;
    }
    open_to(r, target);
    return true;
}
