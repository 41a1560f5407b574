#include "arena/clear.h"

#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/run.h"
#include "arena/testimony.h"
#include "options/options.h"
#include "os/os.h"

/* Sizes that differ by less than a doubling are one kind of block. */
#define KINDS 32
/* The first page of a block tells nothing: it is always used. */
#define LOOKED_PAGES (TESTIMONY_PAGES - 1)
/* Blocks are given back once less than 1/BEGIN_PART of the pages looked at were used, until more than
 * 1/END_PART are: what is overwritten after it was given back takes a fault for each page, so that to change
 * often is worse than either. */
#define BEGIN_PART 24
#define END_PART 11
/* What is known is of so many of the last looks, and of half as many at least; after this number of them, one
 * block in LOOKED_AT_PART is looked at. */
#define LOOKS_MOST 12
#define LOOKED_AT_PART 4
/* A block of which so many of LOOKED_PAGES were used is surely not sparse. */
#define DENSE_PAGES (LOOKED_PAGES / 2)
/* Blocks between two looks, at most, while they are not sparse. */
#define WAIT_MOST 15

/* relaxed everywhere: hints, which threads may overwrite for each other */
static struct kind {
    _Atomic bool sparse;    /* blocks are given back */
    _Atomic uint8_t looks;  /* at blocks that were freed, each at LOOKED_PAGES pages */
    _Atomic uint8_t used;   /* of these pages */
    _Atomic uint8_t wait;   /* blocks until one is looked at */
    _Atomic uint8_t waited; /* what `wait` was at first, while they are not sparse */
} kinds[KINDS];

static struct kind *kind_of(size_t bytes) {
    return &kinds[min_size(bit_highest(bytes / CLEARED_LEAST_BYTES | 1), KINDS - 1)];
}

static uint8_t get(_Atomic uint8_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint8_t *value, size_t to) {
    atomic_store_explicit(value, (uint8_t)to, memory_order_relaxed);
}

/* Whether a page was written to since it was zero. */
static bool is_used(uintptr_t page) {
    return os_may_be_resident((void *)page) && !testimony_is_page_zero(page);
}

/* How many of the pages that are looked at were used; those beyond DENSE_PAGES make no difference. */
static unsigned count_used(uintptr_t start, size_t bytes) {
    unsigned used = 0;
    for (size_t i = 1; i <= LOOKED_PAGES && used < DENSE_PAGES; i++) {
        used += is_used(testimony_page(start, bytes, i));
    }
    return used;
}

/* Whether an end of it is a part of a huge page. */
static bool is_on_huge_pages(uintptr_t start, size_t bytes) {
    lock_acquire(&arena.lock);
    bool huge = dense_is_huge(start) || dense_is_huge(start + bytes - 1);
    lock_release(&arena.lock);
    return huge;
}

static bool give_back(uintptr_t start, size_t bytes) {
    return bytes == 0 || os_purge((void *)start, bytes);
}

bool clear_by_purge(uintptr_t block, struct zeros zeros) {
    struct slab *head = arena_header(block);
    size_t bytes = arena_span(head);
    struct kind *kind = kind_of(bytes);
    /* Looks are what HUGE_PAGES=0 is for where a sandbox does not allow them. */
    if (!option_bool(OPTION_HUGE_PAGES) || retention_keeps_all()) {
        return false;
    }
    unsigned wait = get(&kind->wait);
    head->cleared = wait == 0;
    if (wait > 0) {
        set(&kind->wait, wait - 1);
    }
    if (!atomic_load_explicit(&kind->sparse, memory_order_relaxed)) {
        return false;
    }
    if (is_on_huge_pages(block, bytes)) {
        if (!arena_run_is_huge(head)) {
            return false; /* to split one takes longer than to overwrite a part of it */
        }
        dense_split(block, block + bytes);
    }
    size_t begin = min_size(zeros.begin, bytes);
    size_t end = min_size(zeros.end, bytes);
    return give_back(block, begin) && give_back(block + end, bytes - end);
}

/* What a look says adds to what is known, or takes its place where it says the contrary: then the program has
 * come to something else. Whether blocks are to be given back. */
static bool note_used(struct kind *kind, unsigned used) {
    unsigned looks = get(&kind->looks);
    unsigned before = get(&kind->used);
    bool was_sparse = atomic_load_explicit(&kind->sparse, memory_order_relaxed);
    bool contrary = was_sparse ? used >= DENSE_PAGES : used == 0 && before > looks * DENSE_PAGES / 2;
    if (contrary) {
        looks = before = 0;
    } else if (looks >= LOOKS_MOST) {
        looks /= 2;
        before /= 2;
    }
    looks++;
    used += before;
    set(&kind->looks, looks);
    set(&kind->used, used);
    unsigned part = was_sparse ? END_PART : BEGIN_PART;
    bool sparse = used * part <= looks * LOOKED_PAGES;
    atomic_store_explicit(&kind->sparse, sparse, memory_order_relaxed);
    return sparse;
}

void clear_note_freed(struct slab *head) {
    struct kind *kind = kind_of(arena_span(head));
    head->cleared = false;
    bool sparse = note_used(kind, count_used(arena_address(head), arena_span(head)));
    size_t waited = sparse ? 0 : min_size(2u * get(&kind->waited) + 1u, WAIT_MOST);
    set(&kind->waited, waited);
    set(&kind->wait, sparse && get(&kind->looks) >= LOOKS_MOST / 2 ? LOOKED_AT_PART - 1 : waited);
}
