#include "arena/testimony.h"

#include "arena/layout.h"
#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"

/* Sizes that differ by less than a doubling are one kind of block, from one slab on. */
#define KINDS 32
/* Most blocks that a testimony serves for. */
#define CREDIT_MOST 16
/* Most blocks in a row that must be found filled before one serves for others. */
#define DOUBT_MOST 7
/* When testimonies have served for so many bytes of huge blocks, which may all be resident for nothing, the
 * last of these blocks is looked at. */
#define UNSEEN_MOST_BYTES ((size_t)32 << 20)
/* Blocks of these sizes may be told of by smaller ones that they have grown from by a factor: from the least
 * on, blocks get no page ahead of use but in steps of a huge page. */
#define DOUBLED_LEAST_BYTES (2 * SUPERSLAB_BYTES)
#define DOUBLED_MOST_BYTES ((size_t)256 << 20)
/* A size is the double of another, or half as much again, if it differs by this part of the other at most. */
#define FACTOR_PART 32
/* Pieces of a block that are looked at: at its start, at its end and between. */
#define LOOKS_MOST 4
/* Bytes of each page looked at that are read at first, and how many of the pages may be as the kernel gave
 * them where the block counts as filled. */
#define PIECE_BYTES 128
#define PAGES_UNUSED_MOST 2
/* A page that begins with zeros is read in steps of this length: stacks of the program's may be small. */
#define STEP_BYTES 2048

static struct kind {
    uintptr_t start;                   /* of the part of a block that is to tell next; 0 for none */
    size_t clean_bytes;                /* of that part */
    size_t bytes;                      /* of the whole block */
    unsigned credit;                   /* blocks that the last testimony still serves for */
    unsigned trust;                    /* those that it served for at first */
    uintptr_t served;                  /* the last huge block that it served for, while it lives */
    size_t served_bytes, unseen_bytes; /* of `served`; of all such since one was looked at */
    unsigned doubt;                    /* filled ones in a row, after one that is not, that serve for none */
    unsigned doubted;                  /* of these, those still to come */
    bool has_told;                     /* a block of this kind, one way or the other */
    bool told_filled;                  /* the last that told was filled */
} kinds[KINDS];

static struct lock lock; /* protects the kinds */

static struct kind *kind_of(size_t bytes) {
    return &kinds[min_size(bit_highest(max_size(bytes, SLAB_BYTES) >> SLAB_SHIFT), KINDS - 1)];
}

/* Whether the pieces that are looked at are resident. */
static bool is_resident(uintptr_t start, size_t bytes) {
    size_t piece = min_size(bytes, SUPERSLAB_BYTES);
    size_t looks = piece < bytes ? LOOKS_MOST : 1;
    for (size_t i = 0; i < looks; i++) {
        uintptr_t at = start + round_down((bytes - piece) / (LOOKS_MOST - 1) * i, OS_PAGE_BYTES);
        if (os_missing_pages((void *)at, piece) > 0) {
            return false;
        }
    }
    return true;
}

static bool is_zero(const uint64_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (words[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Not inlined, like peek_pages: a caller's frame shall not have the buffers of both. */
NOINLINE bool testimony_is_page_zero(uintptr_t page) {
    uint64_t words[STEP_BYTES / sizeof(uint64_t)];
    for (uintptr_t at = page; at < page + OS_PAGE_BYTES; at += STEP_BYTES) {
        if (!os_peek(words, &at, 1, sizeof words) || !is_zero(words, sizeof words / sizeof *words)) {
            return false;
        }
    }
    return true;
}

/* `*zero` gets a bit for each of the pages that begins with zeros. False if any of them cannot be read. */
static NOINLINE bool peek_pages(const uintptr_t *pages, uint32_t *zero) {
    uint64_t words[TESTIMONY_PAGES][PIECE_BYTES / sizeof(uint64_t)];
    if (!os_peek(words, pages, TESTIMONY_PAGES, PIECE_BYTES)) {
        return false;
    }
    *zero = 0;
    for (size_t i = 0; i < TESTIMONY_PAGES; i++) {
        *zero |= (uint32_t)is_zero(words[i], PIECE_BYTES / sizeof(uint64_t)) << i;
    }
    return true;
}

/* Whether no more than `unused_most` of the pages looked at are zero throughout: one that was only read, or
 * that came with a huge page, is resident and was never written to. */
static bool is_written(uintptr_t start, size_t bytes, unsigned unused_most) {
    uintptr_t pages[TESTIMONY_PAGES];
    uint32_t zero;
    for (size_t i = 0; i < TESTIMONY_PAGES; i++) {
        pages[i] = testimony_page(start, bytes, i);
    }
    if (!peek_pages(pages, &zero)) {
        return false;
    }
    unsigned unused = 0;
    for (; zero != 0 && unused <= unused_most; zero &= zero - 1) {
        unused += testimony_is_page_zero(pages[bit_lowest(zero)]);
    }
    return unused <= unused_most;
}

bool testimony_is_filled(uintptr_t start, size_t bytes, bool ahead) {
    return (ahead || is_resident(start, bytes)) && is_written(start, bytes, PAGES_UNUSED_MOST);
}

bool testimony_is_written_throughout(uintptr_t start, size_t bytes) {
    return is_written(start, bytes, 0);
}

/* A block was found filled: that serves for twice as many blocks as the testimony before, unless it is
 * doubted. */
static void trust_more(struct kind *kind) {
    kind->told_filled = true;
    kind->start = 0;
    if (kind->doubted > 0) {
        kind->doubted--;
    } else {
        kind->doubt /= 2;
        kind->trust = (unsigned)min_size(max_size((size_t)2 * kind->trust, 1), CREDIT_MOST);
        kind->credit = kind->trust;
    }
}

/* A block was not filled. Each one that follows a filled one has the next ones doubted more: where some are
 * filled and most are not, those that are must not vouch for the others. */
static void trust_no_more(struct kind *kind) {
    if (kind->told_filled) {
        kind->doubt = (unsigned)min_size((size_t)2 * kind->doubt + 1, DOUBT_MOST);
    }
    kind->told_filled = false;
    kind->doubted = kind->doubt;
    kind->start = 0;
    kind->trust = kind->credit = 0;
}

/* Whether a block is filled, with the lock let go meanwhile. */
static bool look(uintptr_t start, size_t bytes, bool ahead) {
    lock_release(&lock);
    bool filled = testimony_is_filled(start, bytes, ahead);
    lock_acquire(&lock);
    return filled;
}

/* Looks at the block that is to tell, if the last testimony is used up; lets go of the lock meanwhile. */
static void look_if_due(struct kind *kind) {
    if (kind->credit == 0 && kind->start != 0) {
        uintptr_t start = kind->start;
        bool filled = look(start, kind->clean_bytes, false);
        kind->has_told = true;
        if (kind->credit == 0 && kind->start == start) {
            if (filled) {
                trust_more(kind);
            } else { /* or not yet: then it tells when it is freed */
                trust_no_more(kind);
            }
        }
    }
}

bool testimony_expects_filled(size_t bytes) {
    struct kind *kind = kind_of(bytes);
    if (bytes < SLAB_BYTES) {
        return false;
    }
    lock_acquire(&lock);
    look_if_due(kind);
    bool expected = kind->credit > 0;
    lock_release(&lock);
    return expected;
}

/* Whether a block of `bytes` may be what one of `before` has grown into, by half or to its double, but for
 * what containers and their growth policies add. */
static bool has_grown_by_a_factor(size_t before, size_t bytes) {
    size_t tolerance = before / FACTOR_PART;
    size_t by_half = before + before / 2;
    return (bytes >= 2 * before - tolerance && bytes <= 2 * before + tolerance) ||
           (bytes >= by_half - tolerance && bytes <= by_half + tolerance);
}

/* The kind that tells of a block of `bytes`, after a look if one is due: its own, or that of half the size
 * where that knows nothing yet, because what grows by a factor has no block of the new size to tell. */
static struct kind *kind_that_tells(size_t bytes) {
    struct kind *kind = kind_of(bytes);
    look_if_due(kind);
    if (kind->credit > 0 || kind->start != 0 || kind->has_told || bytes < DOUBLED_LEAST_BYTES ||
        bytes > DOUBLED_MOST_BYTES || !has_grown_by_a_factor(kind[-1].bytes, bytes)) {
        return kind;
    }
    look_if_due(kind - 1);
    return kind - 1;
}

/* Whether the last block that a testimony served for is filled by now, or is no more; lets go of the lock
 * meanwhile. */
static bool is_borne_out(struct kind *kind) {
    return kind->served == 0 || look(kind->served, kind->served_bytes, true);
}

bool testimony_says_filled(uintptr_t start, size_t bytes) {
    lock_acquire(&lock);
    struct kind *kind = kind_of(bytes);
    struct kind *telling = kind_that_tells(bytes);
    if (telling->credit > 0 && kind->unseen_bytes >= UNSEEN_MOST_BYTES) {
        kind->unseen_bytes = 0;
        telling->credit = is_borne_out(kind) ? telling->credit : 0;
    }
    bool known = telling->credit > 0;
    if (known) {
        telling->credit--;
        if (bytes > SUPERSLAB_BYTES) {
            kind->served = start;
            kind->served_bytes = bytes;
            kind->unseen_bytes += bytes;
        }
    }
    lock_release(&lock);
    return known;
}

void testimony_watch(size_t bytes, uintptr_t clean_start, size_t clean_bytes) {
    struct kind *kind = kind_of(bytes);
    lock_acquire(&lock);
    kind->start = clean_start;
    kind->clean_bytes = clean_bytes;
    kind->bytes = bytes;
    lock_release(&lock);
}

/* What begins at `start` tells nothing any more, of any kind: a block that was resized is the witness of the
 * kind that it was of before. */
static void forget(uintptr_t start) {
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].start == start) {
            kinds[i].start = 0;
        }
        if (kinds[i].served == start) {
            kinds[i].served = 0;
        }
    }
}

void testimony_of_freed(size_t bytes, uintptr_t start, size_t clean_bytes, bool ahead) {
    bool filled = testimony_is_filled(start, clean_bytes, ahead);
    struct kind *kind = kind_of(bytes);
    lock_acquire(&lock);
    kind->has_told = true;
    if (filled) {
        trust_more(kind);
    } else {
        trust_no_more(kind);
    }
    forget(start);
    lock_release(&lock);
}

void testimony_forget(uintptr_t start) {
    lock_acquire(&lock);
    forget(start);
    lock_release(&lock);
}

void testimony_lock_for_fork(void) {
    lock_acquire(&lock);
}

void testimony_unlock_after_fork(bool child) {
    lock_end_fork(&lock, child);
}
