#include "arena/huge_pages.h"

#include "arena/arena.h"
#include "arena/internal.h"
#include "os/lock.h"
#include "os/os.h"

#include <stdatomic.h>

/* Sizes that differ by less than a doubling are one kind of block, from one slab on. */
#define KINDS 32
/* Superslabs of a huge block that are looked at: the first, the last and some between. */
#define LOOKS_MOST 4
/* Pages of a block with huge pages that are looked at, and how many of them may be as the kernel gave them. */
#define PAGES_LOOKED_AT 16
#define PAGES_UNUSED_MOST 2

/* So many blocks get huge pages after one that was filled; the next one then does without, and tells. */
#define CREDIT 7

static struct kind {
    struct slab *watched; /* the last block without huge pages of which nothing was resident when it was taken */
    unsigned credit;
} kinds[KINDS];

/* Protects the kinds. Held during a look, so that the block stays what it is. */
static struct lock lock;

static struct kind *kind_of(size_t bytes) {
    return &kinds[min_size(bit_highest(max_size(bytes, SLAB_BYTES) >> SLAB_SHIFT), KINDS - 1)];
}

static bool is_huge(const struct slab *head) {
    return head->run_slabs == 0;
}

static void *superslab_of(struct slab *head, size_t superslab) {
    return (void *)(arena_address(head) + (superslab << SUPERSLAB_SHIFT));
}

/* relaxed: the block is in use, or its owner is just giving it back */
static size_t span_of(const struct slab *head) {
    return atomic_load_explicit(&head->span_bytes, memory_order_relaxed);
}

static bool all_resident(struct slab *head) {
    if (!is_huge(head)) {
        return os_all_resident((void *)arena_address(head), span_of(head));
    }
    size_t whole = span_of(head) >> SUPERSLAB_SHIFT;
    size_t looks = min_size(whole, LOOKS_MOST);
    for (size_t i = 0; i < looks; i++) {
        size_t superslab = looks == 1 ? 0 : i * (whole - 1) / (looks - 1);
        if (!os_all_resident(superslab_of(head, superslab), SUPERSLAB_BYTES)) {
            return false;
        }
    }
    return looks > 0;
}

static bool is_zero(uintptr_t page) {
    const uint64_t *words = (const uint64_t *)page;
    for (size_t i = 0; i < OS_PAGE_BYTES / sizeof *words; i++) {
        if (words[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Behind a huge page everything is resident, but what the program never wrote to reads as zero. Nobody uses the
 * block any more; the program may have left pages in it that cannot be read. */
static bool mostly_written(struct slab *head) {
    uintptr_t start = arena_address(head);
    size_t pages = span_of(head) / OS_PAGE_BYTES;
    size_t looks = min_size(pages, PAGES_LOOKED_AT); /* fewer in a small block at a large alignment */
    size_t part = pages / looks;
    unsigned unused = os_all_readable((void *)start, span_of(head)) ? 0 : PAGES_LOOKED_AT;
    for (size_t i = 0; i < looks && unused <= PAGES_UNUSED_MOST; i++) {
        /* Somewhere in each part: a program's own steps are often powers of two. */
        size_t page = i * part + (i * 2654435761u >> 8) % part;
        unused += is_zero(start + page * OS_PAGE_BYTES);
    }
    return unused <= PAGES_UNUSED_MOST;
}

/* Whether this block is to have huge pages; `clean` says whether it can tell if not. */
static bool grant(struct slab *head, size_t bytes, bool clean) {
    struct kind *kind = kind_of(bytes);
    lock_acquire(&lock);
    if (kind->credit == 0 && kind->watched != NULL && all_resident(kind->watched)) {
        kind->credit = CREDIT;
    }
    bool granted = kind->credit > 0;
    if (granted) {
        kind->credit--;
    } else if (clean) {
        kind->watched = head;
    }
    head->huge_pages = granted;
    head->watched = clean;
    lock_release(&lock);
    return granted;
}

static void forget(struct slab *head) {
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].watched == head) {
            kinds[i].watched = NULL;
        }
    }
    head->watched = false;
}

/* The block is given back: now it is certain. */
static void judge(struct slab *head) {
    lock_acquire(&lock);
    bool filled = head->huge_pages ? mostly_written(head) : all_resident(head);
    kind_of(span_of(head))->credit = filled ? CREDIT : 0;
    forget(head);
    lock_release(&lock);
}

/* Free memory asks for small pages from then on: neighbours are one mapping of the kernel's only as long as they
 * ask for the same. */
static bool prepare(struct region *region) {
    /* relaxed: doing it twice does no harm */
    if (!atomic_load_explicit(&region->asks_for_small_pages, memory_order_relaxed)) {
        if (!os_ask_for_huge_pages((void *)region->base, region->bytes, false)) {
            return false;
        }
        atomic_store_explicit(&region->asks_for_small_pages, true, memory_order_relaxed);
    }
    return true;
}

static void ask(struct slab *head, size_t first, size_t end) {
    if (first < end && prepare(region_of((uintptr_t)head)) &&
        os_ask_for_huge_pages(superslab_of(head, first), (end - first) << SUPERSLAB_SHIFT, true)) {
        head->huge_pages = true;
    }
}

static void ask_no_more(struct slab *head, size_t first) {
    size_t superslabs = arena_run_slabs(head) / SLABS_PER_SUPERSLAB;
    if (head->huge_pages && is_huge(head)) {
        os_ask_for_huge_pages(superslab_of(head, first), (superslabs - first) << SUPERSLAB_SHIFT, false);
    }
}

/* A superslab that begins to fill with large blocks: one fault for all of them. What is not a block's then is
 * dirty, and there must be room for it within the bound. */
static bool populate_superslab(struct slab *head) {
    struct region *region = region_of((uintptr_t)head);
    size_t superslab = region_slab_index(region, arena_address(head)) / SLABS_PER_SUPERSLAB;
    struct superslab *state = &region->states[superslab];
    lock_acquire(&arena.lock);
    size_t others = bit_count(state->free);
    bool wanted = others + head->run_slabs == SLABS_PER_SUPERSLAB && state->dirty == 0 &&
                  arena.dirty_slabs + others <= retention_bound(&arena.retention, arena.used_slabs);
    lock_release(&arena.lock);
    void *start = (void *)region_superslab_address(region, superslab);
    if (!wanted || !prepare(region) || !os_ask_for_huge_pages(start, SUPERSLAB_BYTES, true)) {
        return false;
    }
    bool populated = os_populate((void *)arena_address(head), OS_PAGE_BYTES);
    os_ask_for_huge_pages(start, SUPERSLAB_BYTES, false);
    lock_acquire(&arena.lock);
    arena.dirty_slabs += bit_count(state->free & ~state->dirty);
    state->dirty = state->free;
    region_note(region, superslab);
    lock_release(&arena.lock);
    return populated;
}

void huge_pages_taken(struct slab *head, size_t bytes, size_t dirty_slabs) {
    /* Where half of it is resident, there is little to be saved. */
    if (dirty_slabs > bytes >> (SLAB_SHIFT + 1) || !grant(head, bytes, dirty_slabs == 0)) {
        return;
    }
    char *start = (char *)arena_address(head);
    if (is_huge(head)) {
        ask(head, 0, bytes >> SUPERSLAB_SHIFT);
        size_t rest = bytes % SUPERSLAB_BYTES;
        os_populate(start + bytes - rest, rest);
    } else if (dirty_slabs > 0 || !populate_superslab(head)) {
        os_populate(start, bytes);
    }
}

void huge_pages_shortened(struct slab *head, size_t first) {
    ask_no_more(head, first);
}

void huge_pages_unwatch(struct slab *head) {
    if (head->watched) {
        lock_acquire(&lock);
        forget(head);
        lock_release(&lock);
    }
}

void huge_pages_given(struct slab *head) {
    if (head->watched) {
        judge(head);
    }
    ask_no_more(head, 0);
    head->huge_pages = false;
}

void huge_pages_grown(struct slab *head, size_t had, size_t bytes) {
    size_t last = had >> SUPERSLAB_SHIFT;
    if (last > 0 && bytes > had &&
        (head->huge_pages || os_all_resident(superslab_of(head, last - 1), SUPERSLAB_BYTES))) {
        ask(head, last, bytes >> SUPERSLAB_SHIFT);
    }
}

void huge_pages_moved(struct slab *from, struct slab *to) {
    to->huge_pages = to->huge_pages || from->huge_pages;
}

void huge_pages_renewed(struct region *region, size_t first, size_t superslabs) {
    if (atomic_load_explicit(&region->asks_for_small_pages, memory_order_relaxed)) {
        os_ask_for_huge_pages((void *)region_superslab_address(region, first), superslabs << SUPERSLAB_SHIFT,
                              false);
    }
}

void huge_pages_lock_for_fork(void) {
    lock_acquire(&lock);
}

void huge_pages_unlock_after_fork(bool child) {
    lock_end_fork(&lock, child);
}
