#include "arena/testimony.h"

#include "arena/layout.h"
#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"

/* Sizes that differ by less than a doubling are one kind of block, from one slab on. */
#define KINDS 32
/* What each block that tells adds to the score of its kind. What is found filled when it is freed counts more
 * than what is filled while it lives, because one that is not may be so later. One that is not takes away
 * more, and leaves less than nothing: some must tell in a row before a testimony serves for others, and the
 * more, the more often that comes. Only where the one before was filled: where none is, nothing is known of
 * what comes once they are. */
#define SCORE_FILLED 1
#define SCORE_FREED_FILLED 3
#define SCORE_UNFILLED (-4)
#define SCORE_AFTER_UNFILLED_MOST (-1)
#define SCORE_LEAST (-7)
#define SCORE_MOST 16
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

/* A block, while it lives. */
struct block {
    uintptr_t start; /* 0: there is none */
    size_t bytes;
};

static struct kind {
    uintptr_t start;     /* of the part of a block that is to tell next; 0 for none */
    size_t clean_bytes;  /* of that part */
    size_t bytes;        /* of the whole block */
    int score;           /* by what told; a testimony serves for as many blocks */
    int credit;          /* blocks that the last one still serves for */
    struct block first;  /* of those that it served for */
    struct block served; /* the last huge one of this kind that a testimony served for */
    size_t unseen_bytes; /* of all such since one was looked at */
    bool has_told;       /* a block of this kind, one way or the other */
    bool told_filled;    /* the last that told was filled */
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

static int between(int least, int value, int most) {
    return value < least ? least : value > most ? most : value;
}

/* A block of the kind has told; a filled one adds `score`. Where some are filled and most are not, those that
 * are must not vouch for the others. */
static void hear(struct kind *kind, bool filled, int score) {
    if (filled) {
        /* What counts more makes up for what was not filled, and vouches for no more blocks. */
        kind->score = kind->score > 0 ? between(0, kind->score + SCORE_FILLED, SCORE_MOST)
                                      : between(SCORE_LEAST, kind->score + score, SCORE_FILLED);
    } else if (kind->told_filled) {
        kind->score = between(SCORE_LEAST, kind->score + SCORE_UNFILLED, SCORE_AFTER_UNFILLED_MOST);
    }
    kind->credit = filled && kind->score > 0 ? kind->score : 0;
    kind->told_filled = filled;
    kind->has_told = true;
    kind->start = 0;
}

/* Whether a block is filled, with the lock let go meanwhile. */
static bool look(uintptr_t start, size_t bytes, bool ahead) {
    lock_release(&lock);
    bool filled = testimony_is_filled(start, bytes, ahead);
    lock_acquire(&lock);
    return filled;
}

/* Whether a block that a testimony served for is filled by now, or is no more; lets go of the lock
 * meanwhile. */
static bool is_borne_out(struct block served) {
    return served.start == 0 || look(served.start, served.bytes, true);
}

/* Looks at the block that is to tell, if the last testimony is used up; lets go of the lock meanwhile. As a
 * rule that is the last block that was served: where some are filled and most are not, the chance that the
 * first one is, too, is small. */
static void look_if_due(struct kind *kind) {
    if (kind->credit == 0 && kind->start != 0) {
        uintptr_t start = kind->start;
        struct block first = kind->first;
        bool filled = look(start, kind->clean_bytes, false) && (first.start == start || is_borne_out(first));
        if (kind->credit == 0 && kind->start == start) {
            kind->first.start = 0;
            hear(kind, filled, SCORE_FILLED); /* not, or not yet: then it tells when it is freed */
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

bool testimony_says_filled(uintptr_t start, size_t bytes) {
    lock_acquire(&lock);
    struct kind *kind = kind_of(bytes);
    struct kind *telling = kind_that_tells(bytes);
    if (telling->credit > 0 && kind->unseen_bytes >= UNSEEN_MOST_BYTES) {
        kind->unseen_bytes = 0;
        telling->credit = is_borne_out(kind->served) ? telling->credit : 0;
    }
    bool known = telling->credit > 0;
    if (known) {
        struct block block = {start, bytes};
        if (telling->first.start == 0) {
            telling->first = block;
        }
        telling->credit--;
        if (bytes > SUPERSLAB_BYTES) {
            kind->served = block;
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
        if (kinds[i].first.start == start) {
            kinds[i].first.start = 0;
        }
        if (kinds[i].served.start == start) {
            kinds[i].served.start = 0;
        }
    }
}

void testimony_of_freed(size_t bytes, uintptr_t start, size_t clean_bytes, bool ahead) {
    bool filled = testimony_is_filled(start, clean_bytes, ahead);
    struct kind *kind = kind_of(bytes);
    lock_acquire(&lock);
    hear(kind, filled, SCORE_FREED_FILLED);
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
