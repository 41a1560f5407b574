#include "heap/runs.h"

#include "arena/arena.h"
#include "arena/bound.h"
#include "arena/decay.h"
#include "arena/tails.h"
#include "os/clock.h"

/* A block's address has room for the length of its run. */
#define LENGTH_MASK ((uintptr_t)SLAB_BYTES - 1)

/* Of longer ones, the search is a small part of what their pages cost. */
#define KEPT_MOST_SLABS 16

/* So many are put before it is looked at again whether there is too much, and so many where the library's
 * thread looks, too: threads wait for each other's sums. */
#define PUTS_BETWEEN_LOOKS 16
#define PUTS_BETWEEN_LOOKS_WITH_THREAD 128

/* A quarter of a second or so. */
#define SURPLUS_TICKS (OS_TICKS_SHORT * 512)

/* Of runs of more lengths those kept are seldom of the one that is needed next, and longer ones are so much
 * that it is missing elsewhere: with the grace, a heap keeps 4 MiB at most. */
#define SHORT_SLABS 4

/* A run that is kept in vain costs as much as so many that are of use save: the arena has one place less for
 * others. Who has not earned that keeps none for so many frees, and for twice as many each time until nearly
 * all that is kept is of use. */
#define USES_FOR_EACH_IN_VAIN 4
#define CREDIT_MOST 24
#define FREES_LEFT_OUT 256
#define FREES_LEFT_OUT_MOST 16384

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

/* Gives what was there, which is the caller's from now on. */
static uintptr_t empty(_Atomic uintptr_t *kept) {
    /* relaxed: a hint; acquire pairs with the release in runs_put */
    return atomic_load_explicit(kept, memory_order_relaxed) == 0
               ? 0
               : atomic_exchange_explicit(kept, 0, memory_order_acquire);
}

/* Gives the slabs. */
static size_t return_one(_Atomic uintptr_t *kept) {
    uintptr_t word = empty(kept);
    if (word != 0) {
        runs_give_back(arena_header(block_of(word)), block_of(word));
    }
    return slabs_of(word);
}

/* What is kept counts as the most that it was, so that not each run has to be counted as it comes and goes.
 * The owner and whoever returns runs may each count what the other has just changed: until the next run is
 * put, then, the sum is too small. */
static void count_kept(struct heap *heap, size_t slabs) {
    _Atomic uint32_t *counted = &heap->runs.counted_slabs;
    /* relaxed: a hint here, under the lock below. It is not taken in vain: nothing of the heap may be
     * resident */
    if (atomic_load_explicit(counted, memory_order_relaxed) == slabs) {
        return;
    }
    lock_acquire(&heap->lock); /* so that no fork comes between the two sums */
    int64_t more = (int64_t)slabs - (int64_t)atomic_load_explicit(counted, memory_order_relaxed);
    atomic_store_explicit(counted, (uint32_t)slabs, memory_order_relaxed);
    arena_add_kept(more);
    lock_release(&heap->lock);
}

static size_t kept_slabs(const struct kept_runs *runs) {
    size_t slabs = 0;
    for (unsigned i = 0; i < RUNS_KEPT; i++) {
        slabs += slabs_of(atomic_load_explicit(&runs->words[i], memory_order_relaxed)); /* as in empty */
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

/* So many there are now, or fewer. */
static void set_kept(struct kept_runs *runs, size_t slabs) {
    runs->kept_slabs = (uint32_t)slabs;
    runs->least_slabs = (uint32_t)min_size(runs->least_slabs, slabs);
}

/* What was there all the time while others came and went is of no use: the oldest, of as many slabs. */
static void return_surplus(struct kept_runs *runs) {
    size_t surplus = runs->least_slabs;
    for (unsigned i = 1; i <= RUNS_KEPT; i++) {
        _Atomic uintptr_t *kept = &runs->words[(runs->newest + i) % RUNS_KEPT];
        size_t slabs = slabs_of(atomic_load_explicit(kept, memory_order_relaxed)); /* as in empty */
        if (slabs > 0 && slabs <= surplus) {
            surplus -= slabs;
            (void)return_one(kept);
        }
    }
    runs->least_slabs = (uint32_t)kept_slabs(runs);
}

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

/* One more was kept in vain. Whether that is enough. */
static bool is_in_vain(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    if (runs->credit >= USES_FOR_EACH_IN_VAIN) {
        runs->credit -= USES_FOR_EACH_IN_VAIN;
        return false;
    }
    leave_out(heap);
    return true;
}

static bool may_keep(const struct kept_runs *runs, size_t slabs) {
    return arena_may_keep(slabs, runs->wanted <= bits32_below(SHORT_SLABS + 1));
}

/* The oldest make room for what was freed last. False if even it alone is too much. */
static NOINLINE bool make_room(struct heap *heap, size_t slabs) {
    struct kept_runs *runs = &heap->runs;
    heap_enter(heap);
    if (os_ticks_passed(&runs->surplus_ticks, SURPLUS_TICKS)) {
        return_surplus(runs);
    }
    count_kept(heap, kept_slabs(runs));
    bool done = may_keep(runs, slabs);
    for (unsigned i = 1; !done && i <= RUNS_KEPT; i++) {
        if (return_one(&runs->words[(runs->newest + i) % RUNS_KEPT]) > 0) {
            count_kept(heap, kept_slabs(runs));
            done = !is_in_vain(heap) && may_keep(runs, slabs);
        }
    }
    set_kept(runs, kept_slabs(runs));
    if (done) {
        count_kept(heap, runs->kept_slabs + slabs);
        arena_look();
        decay_look();
        count_kept(heap, kept_slabs(runs) + slabs); /* these may have returned what there was */
    } else if (runs->left_out == 0) {
        leave_out(heap);
    }
    heap_leave(heap);
    return done;
}

/* Where there is none, or else that of the oldest. False if keeping is no good. */
static NOINLINE bool find_place(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    for (unsigned i = 1; i < RUNS_KEPT; i++) {
        unsigned at = (runs->newest + i) % RUNS_KEPT;
        if (atomic_load_explicit(&runs->words[at], memory_order_relaxed) == 0) {
            runs->newest = at;
            return true;
        }
    }
    heap_enter(heap);
    set_kept(runs, runs->kept_slabs - return_one(&runs->words[runs->newest]));
    bool found = !is_in_vain(heap);
    heap_leave(heap);
    return found;
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
    runs->puts++;
    bool look = runs->puts % PUTS_BETWEEN_LOOKS == 0 &&
                (runs->puts % PUTS_BETWEEN_LOOKS_WITH_THREAD == 0 || !decay_is_on());
    /* relaxed: as in make_room */
    size_t counted = atomic_load_explicit(&runs->counted_slabs, memory_order_relaxed);
    if (UNLIKELY(look || runs->kept_slabs + slabs > counted) && !make_room(heap, slabs)) {
        return false;
    }
    runs->newest = (runs->newest + 1) % RUNS_KEPT;
    /* relaxed: as in empty */
    if (UNLIKELY(atomic_load_explicit(&runs->words[runs->newest], memory_order_relaxed) != 0) &&
        !find_place(heap)) {
        return false;
    }
    runs->kept_slabs += (uint32_t)slabs;
    _Atomic uintptr_t *kept = &runs->words[runs->newest];
    atomic_store_explicit(kept, block | slabs, memory_order_release); /* pairs with the acquire in empty */
    return true;
}

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
        /* relaxed: as in empty */
        bool fits = slabs_of(atomic_load_explicit(&runs->words[at], memory_order_relaxed)) == slabs;
        uintptr_t word = fits ? empty(&runs->words[at]) : 0;
        if (word != 0) {
            runs->newest = (at - 1) % RUNS_KEPT;
            set_kept(runs, runs->kept_slabs - slabs);
            note_use(heap);
            return block_of(word);
        }
    }
    return 0;
}

void runs_return_unused(struct heap *heap) {
    struct kept_runs *runs = &heap->runs;
    /* relaxed, both: a guess is enough */
    uint64_t taken = atomic_load_explicit(&heap->counters.large_kept, memory_order_relaxed);
    if (atomic_exchange_explicit(&runs->seen, taken, memory_order_relaxed) == taken) {
        (void)runs_return(heap);
    } else {
        count_kept(heap, kept_slabs(runs)); /* others may have the rest */
    }
}
