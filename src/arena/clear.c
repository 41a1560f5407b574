#include "arena/clear.h"

#include "arena/arena.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/testimony.h"
#include "options/options.h"
#include "os/os.h"

/* Sizes that differ by less than a doubling are one kind of block. */
#define KINDS 32
/* Of the pages that are looked at, those that a sparse block may have used. */
#define PAGES_USED_MOST 2
/* Blocks for which one that was sparse serves, at most: twice as many as the one before that. Of more than a
 * few, one in LOOKED_AT_PART is looked at in its turn. */
#define CREDIT_MOST 64
#define LOOKED_AT_PART 4
/* Blocks between two looks, at most, while they are not sparse. */
#define WAIT_MOST 15
/* With so much that may stay, the program wants to wait for no page: see api/keep.c. */
#define KEEPS_ALL_BYTES ((uint64_t)1 << 40)

/* relaxed everywhere: hints, which threads may overwrite for each other */
static struct kind {
    _Atomic uint8_t credit; /* blocks that may still be given back */
    _Atomic uint8_t trust;  /* what `credit` was at first */
    _Atomic uint8_t wait;   /* blocks that are overwritten before one is looked at */
    _Atomic uint8_t waited; /* what `wait` was at first */
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
    unsigned char resident;
    return (!os_which_resident((void *)page, 1, &resident) || resident != 0) && !testimony_is_page_zero(page);
}

static bool is_sparse(uintptr_t start, size_t bytes) {
    unsigned used = 0;
    for (size_t i = 0; i < TESTIMONY_PAGES && used <= PAGES_USED_MOST; i++) {
        used += is_used(testimony_page(start, bytes, i));
    }
    return used <= PAGES_USED_MOST;
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
    if (!option_bool(OPTION_HUGE_PAGES) || option_number(OPTION_RETAIN_MIN) >= KEEPS_ALL_BYTES) {
        return false;
    }
    unsigned credit = get(&kind->credit);
    unsigned wait = get(&kind->wait);
    if (credit == 0) {
        head->cleared = wait == 0;
        set(&kind->wait, wait - !head->cleared);
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
    head->cleared = credit % LOOKED_AT_PART == 1;
    set(&kind->credit, credit - 1);
    return give_back(block, begin) && give_back(block + end, bytes - end);
}

void clear_note_freed(struct slab *head) {
    struct kind *kind = kind_of(arena_span(head));
    bool sparse = is_sparse(arena_address(head), arena_span(head));
    size_t wait = sparse ? 0 : min_size(2u * get(&kind->waited) + 1u, WAIT_MOST);
    size_t trust = sparse ? min_size(2u * get(&kind->trust) + 1u, CREDIT_MOST) : 0;
    head->cleared = false;
    set(&kind->trust, trust);
    set(&kind->credit, trust);
    set(&kind->wait, wait);
    set(&kind->waited, wait);
}
