#include "heap/runs.h"

#include "arena/arena.h"
#include "arena/bound.h"
#include "arena/decay.h"
#include "arena/tails.h"
#include "os/clock.h"

/* The low bits of a block's address, in which a kept word has the slabs of its run. */
#define LENGTH_MASK ((uintptr_t)SLAB_BYTES - 1)

/* Longer runs are not kept: to search for one is a small part of what its pages cost. */
#define KEPT_MOST_SLABS 16

/* A look whether too much is kept is due after so many runs that are put if any time has gone by since the
 * last, and the library's thread does not look, too; else after PUTS_BETWEEN_LOOKS_MOST: each look reads and
 * writes sums that all threads share. */
#define PUTS_BETWEEN_LOOKS 16
#define PUTS_BETWEEN_LOOKS_MOST 128

/* Time between two calls of return_surplus: a quarter of a second or so. */
#define SURPLUS_TICKS (OS_TICKS_SHORT * 512)

/* A heap that has wanted longer runs than this gets no part of the grace: where there are more lengths, what
 * is kept is seldom of the one that is needed next, and long runs are missing elsewhere. With the grace, a
 * heap so keeps 4 MiB at most. */
#define SHORT_SLABS 4

/* A run that is kept in vain costs as much as USES_FOR_EACH_IN_VAIN that are of use save, because the arena
 * has one place less for others. A heap that has not earned that (it can earn CREDIT_MOST) keeps none for
 * FREES_LEFT_OUT frees, and for twice as many each time, FREES_LEFT_OUT_MOST at most, until nearly all that
 * it keeps is of use. */
#define USES_FOR_EACH_IN_VAIN 4
#define CREDIT_MOST 24
#define FREES_LEFT_OUT 256
#define FREES_LEFT_OUT_MOST 16384

/* Where no more may be kept, and all that is kept is of use, so many frees are left out before the next look,
 * or fewer, if a kept run is taken before. */
#define FREES_LEFT_OUT_FULL 16

static uintptr_t block_of(uintptr_t word) {
    return word & ~LENGTH_MASK;
}

static size_t slabs_of(uintptr_t word) {
    return word & LENGTH_MASK;
}

void runs_give_back(struct slab *head, uintptr_t block) {
    size_t span = arena_span(head);
    page_map_set(block, 1, 0);
    tails_remove(head, span);
    arena_give(head, span, false);
}

/* Empties a slot; returns the word that was in it, whose run is the caller's from now on, or 0. */
static uintptr_t empty(_Atomic uintptr_t *kept) {
    /* relaxed: a hint; acquire pairs with the release in runs_put: the header is that of the freed block */
    return atomic_load_explicit(kept, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange_explicit(kept, 0, memory_order_acquire);
}

/* Gives the run in a slot, if there is one, to the arena; returns its slabs, or 0. */
static size_t return_one(_Atomic uintptr_t *kept) {
    uintptr_t word = empty(kept);
    if (word != 0) {
        runs_give_back(arena_header(block_of(word)), block_of(word));
    }
    return slabs_of(word);
}

/* Tells the arena that the heap keeps `slabs` slabs. What is kept counts as the most that it was, so that not
 * each run has to be counted as it comes and goes. The owner and whoever returns runs may each count what the
 * other has just changed: until the next run is put, then, the sum is too small. */
static void count_kept(struct heap *heap, size_t slabs) {
    _Atomic uint32_t *counted = &heap->runs.counted_slabs;
    /* relaxed: a hint here, under the lock below. The lock is not taken in vain, because that would write to
     * the heap, of which nothing may be resident */
    if (atomic_load_explicit(counted, memory_order_relaxed) == slabs) {
        return;
    }
    lock_acquire(&heap->lock); /* so that no fork comes between the two sums */
    int64_t more = (int64_t)slabs - (int64_t)atomic_load_explicit(counted, memory_order_relaxed);
    atomic_store_explicit(counted, (uint32_t)slabs, memory_order_relaxed);
    arena_add_kept(more);
    lock_release(&heap->lock);
}

/* Slabs that the slots hold; a guess while others empty them. */
static size_t kept_slabs(const struct kept_runs *runs) {
    size_t slabs = 0;
    for (unsigned i = 0; i < RUNS_KEPT; i++) {
        slabs += slabs_of(atomic_load_explicit(&runs->words[i], memory_order_relaxed)); /* relaxed: a hint */
    }
    return slabs;
}

size_t runs_return(struct heap *heap) {
    size_t n = 0;
    for (unsigned i = 0; i < RUNS_KEPT; i++) {
        n += return_one(&heap->runs.words[i]) > 0;
    }
    count_kept(heap, kept_slabs(&heap->runs)); /* the owner may have put some meanwhile */
    return n;
}

/* Notes that the slots hold `slabs` slabs, or fewer. */
static void set_kept(struct kept_runs *runs, size_t slabs) {
    runs->kept_slabs = (uint32_t)slabs;
    runs->least_slabs = (uint32_t)min_size(runs->least_slabs, slabs);
}

/* Returns the oldest runs, of as many slabs as were there all the time: while others came and went, they were
 * of no use. */
static void return_surplus(struct kept_runs *runs) {
    size_t surplus = runs->least_slabs;
    for (unsigned i = 1; i <= RUNS_KEPT; i++) {
        _Atomic uintptr_t *kept = &runs->words[(runs->newest + i) % RUNS_KEPT];
        size_t slabs = slabs_of(atomic_load_explicit(kept, memory_order_relaxed)); /* relaxed: a hint */
        if (slabs > 0 && slabs <= surplus) {
            surplus -= slabs;
            (void)return_one(kept);
        }
    }
    runs->least_slabs = (uint32_t)kept_slabs(runs);
}

/* Returns all that the heap keeps, and has it keep nothing for some frees: for twice as many as the last
 * time. */
static void leave_out(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    (void)runs_return(heap);
    set_kept(runs, 0);
    runs->patience =
        (uint32_t)min_size(max_size((size_t)2 * runs->patience, FREES_LEFT_OUT), FREES_LEFT_OUT_MOST);
    runs->left_out = runs->patience;
    runs->wanted = runs->freed = 0; /* what it wants, it shows anew */
    runs->credit = 0;
}

/* One more run was kept in vain. Returns whether the heap had not earned that, and now keeps none for a
 * while. */
static bool is_in_vain(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    if (runs->credit >= USES_FOR_EACH_IN_VAIN) {
        runs->credit -= USES_FOR_EACH_IN_VAIN;
        return false;
    }
    leave_out(heap);
    return true;
}

/* Whether the heap may keep `slabs` more slabs. */
static bool may_keep(const struct kept_runs *runs, size_t slabs) {
    return arena_may_keep(slabs, runs->wanted <= bits32_below(SHORT_SLABS + 1));
}

/* Returns the oldest runs to make room for `slabs` slabs. False if too many were kept in vain. */
static bool replace_oldest(struct heap *heap, size_t slabs) {
    struct kept_runs *runs = &heap->runs;
    runs->missed = false;
    for (unsigned i = 1; i <= RUNS_KEPT; i++) {
        if (return_one(&runs->words[(runs->newest + i) % RUNS_KEPT]) > 0) {
            count_kept(heap, kept_slabs(runs));
            if (is_in_vain(heap)) {
                return false;
            }
            if (may_keep(runs, slabs)) {
                return true;
            }
        }
    }
    return false;
}

/* Looks whether a run of `slabs` slabs, which was freed last, may be kept: beside the others, or instead of
 * the oldest, where these do not fit what is wanted or are more than may be kept by now. */
static NOINLINE bool make_room(struct heap *heap, size_t slabs) {
    struct kept_runs *runs = &heap->runs;
    heap_enter(heap);
    if (os_ticks_passed(&runs->surplus_ticks, SURPLUS_TICKS)) {
        return_surplus(runs);
    }
    count_kept(heap, kept_slabs(runs));
    bool done =
        may_keep(runs, slabs) || ((runs->missed || !may_keep(runs, 0)) && replace_oldest(heap, slabs));
    set_kept(runs, kept_slabs(runs));
    if (done) {
        count_kept(heap, runs->kept_slabs + slabs);
        arena_look();
        decay_look();
        count_kept(heap, kept_slabs(runs) + slabs); /* both looks may have returned what was kept */
    } else if (runs->left_out == 0 && runs->kept_slabs > 0) {
        runs->left_out = FREES_LEFT_OUT_FULL;
    } else if (runs->left_out == 0) {
        leave_out(heap);
    }
    heap_leave(heap);
    return done;
}

/* Sets `newest` to an empty slot, where it was `full`; if there is none, the run in it, the oldest, is
 * returned. False if all are of use, or too many were kept in vain. */
static NOINLINE bool find_place(struct heap *heap, unsigned full) {
    struct kept_runs *runs = &heap->runs;
    for (unsigned i = 0; i < RUNS_KEPT; i++) {
        unsigned at = (full + i) % RUNS_KEPT;
        /* relaxed: a hint; only the owner fills a slot */
        if (atomic_load_explicit(&runs->words[at], memory_order_relaxed) == 0) {
            runs->newest = at;
            return true;
        }
    }
    if (!runs->missed) {
        runs->left_out = FREES_LEFT_OUT_FULL;
        return false;
    }
    runs->missed = false;
    heap_enter(heap);
    set_kept(runs, runs->kept_slabs - return_one(&runs->words[full]));
    runs->newest = full;
    bool found = !is_in_vain(heap);
    heap_leave(heap);
    return found;
}

/* With each PUTS_BETWEEN_LOOKS runs that are put: whether a look is due. */
static NOINLINE bool look_is_due(struct kept_runs *runs) {
    return runs->puts % PUTS_BETWEEN_LOOKS_MOST == 0 ||
           (!decay_is_on() && os_ticks_passed(&runs->looked_ticks, OS_TICKS_SHORT));
}

bool runs_put(struct heap *heap, struct slab *head, uintptr_t block) {
    struct kept_runs *runs = &heap->runs;
    size_t slabs = head->run_slabs;
    if (slabs > KEPT_MOST_SLABS) {
        return false;
    }
    uint32_t bit = (uint32_t)1 << slabs;
    runs->freed |= bit;
    if ((runs->wanted & bit) == 0) {
        return false;
    }
    if (UNLIKELY(runs->left_out > 0)) {
        runs->left_out--;
        return false;
    }
    bool look = ++runs->puts % PUTS_BETWEEN_LOOKS == 0 && look_is_due(runs);
    /* relaxed: a hint, as in count_kept */
    size_t counted = atomic_load_explicit(&runs->counted_slabs, memory_order_relaxed);
    if (UNLIKELY(look || runs->kept_slabs + slabs > counted) && !make_room(heap, slabs)) {
        return false;
    }
    unsigned next = (runs->newest + 1) % RUNS_KEPT;
    /* relaxed: as in find_place */
    if (LIKELY(atomic_load_explicit(&runs->words[next], memory_order_relaxed) == 0)) {
        runs->newest = next;
    } else if (!find_place(heap, next)) {
        return false;
    }
    runs->kept_slabs += (uint32_t)slabs;
    _Atomic uintptr_t *kept = &runs->words[runs->newest];
    /* release pairs with the acquire in empty */
    atomic_store_explicit(kept, block | slabs, memory_order_release);
    return true;
}

/* A kept run was of use: earns credit. */
static inline void note_use(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    count(&heap->counters.large_kept, 1);
    if (LIKELY(runs->credit == CREDIT_MOST)) {
        runs->patience = 0;
    } else {
        runs->credit++;
    }
}

uintptr_t runs_take(struct heap *heap, unsigned slabs) {
    struct kept_runs *runs = &heap->runs;
    if (slabs > KEPT_MOST_SLABS) {
        return 0;
    }
    uint32_t bit = (uint32_t)1 << slabs;
    runs->wanted |= runs->freed & bit;
    if (runs->kept_slabs == 0) {
        return 0;
    }
    for (unsigned i = 0; i < RUNS_KEPT; i++) {
        unsigned at = (runs->newest - i) % RUNS_KEPT;
        /* relaxed: a hint; empty acquires */
        bool fits = slabs_of(atomic_load_explicit(&runs->words[at], memory_order_relaxed)) == slabs;
        uintptr_t word = fits ? empty(&runs->words[at]) : 0;
        if (word != 0) {
            runs->newest = (at - 1) % RUNS_KEPT;
            set_kept(runs, runs->kept_slabs - slabs);
            runs->left_out = 0;
            note_use(heap);
            return block_of(word);
        }
    }
    runs->missed = true;
    return 0;
}

void runs_return_unused(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    /* relaxed, both: a guess is enough */
    uint64_t taken = atomic_load_explicit(&heap->counters.large_kept, memory_order_relaxed);
    if (atomic_exchange_explicit(&runs->seen, taken, memory_order_relaxed) == taken) {
        (void)runs_return(heap);
    } else {
        count_kept(heap, kept_slabs(runs)); /* others may have returned the rest */
    }
}
