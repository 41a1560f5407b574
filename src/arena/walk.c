#include "arena/walk.h"

#include "arena/internal.h"
#include "arena/run.h"

/* The lowest region that ends above the address; NULL if there is none. */
static struct region *region_from(uintptr_t address) {
    struct region *best = NULL;
    for (struct region *r = arena.oldest; r != NULL; r = r->next) {
        if (r->base + r->bytes > address && (best == NULL || r->base < best->base)) {
            best = r;
        }
    }
    return best;
}

static size_t committed_slabs(const struct region *r) {
    return (size_t)r->committed * SLABS_PER_SUPERSLAB;
}

/* The piece that begins with slab `slab`, which is free or behind a huge block: such slabs in a row, all
 * dirty or all clean, within one superslab. */
static struct piece free_piece(const struct region *r, size_t slab) {
    const struct superslab *state = &r->states[slab / SLABS_PER_SUPERSLAB];
    unsigned first = (unsigned)(slab % SLABS_PER_SUPERSLAB);
    uint32_t unused = state->free | state->behind;
    uint32_t resident = state->dirty | state->hidden;
    bool dirty = (resident >> first & 1) != 0;
    /* Ones where the row ends; the bit above all of them stands for the end of the superslab. */
    uint64_t ends = ~(uint64_t)(dirty ? unused & resident : unused & ~resident);
    size_t slabs = bit_lowest(ends >> first);
    return (struct piece){.region = r,
                          .head = region_slab(r, slab),
                          .address = r->base + (slab << SLAB_SHIFT),
                          .slabs = slabs,
                          .kind = dirty ? PIECE_DIRTY : PIECE_CLEAN};
}

/* The piece that begins with slab `slab`, which is neither free nor behind a huge block. */
static struct piece used_piece(const struct region *r, size_t slab) {
    struct slab *head = region_slab(r, slab);
    struct piece piece = {.region = r,
                          .head = head,
                          .address = r->base + (slab << SLAB_SHIFT),
                          .slabs = 1,
                          .kind = PIECE_CLASS};
    /* acquire pairs with the release in slab_init, so that a run of blocks is seen whole or as internal */
    switch (atomic_load_explicit(&head->state, memory_order_acquire)) {
    case SLAB_FREE: /* out of circulation: it is being purged */
        piece.kind = PIECE_CLEAN;
        return piece;
    case SLAB_LARGE:
        piece.kind = PIECE_LARGE;
        break;
    case SLAB_INTERNAL:
        piece.kind = PIECE_INTERNAL;
        break;
    case SLAB_KEPT:
        piece.kind = PIECE_DIRTY;
        break;
    default:
        break;
    }
    /* A step may begin in the middle of a huge run that was taken since the last one: what its header says
     * there is of another time, and must not lead beyond what can be. */
    bool huge = piece.kind == PIECE_LARGE && arena_run_is_huge(head);
    size_t room = huge ? committed_slabs(r) - slab : SLABS_PER_SUPERSLAB - slab % SLABS_PER_SUPERSLAB;
    size_t slabs = huge ? round_up(arena_span(head), SLAB_BYTES) >> SLAB_SHIFT : head->run_slabs;
    piece.slabs = min_size(max_size(slabs, 1), room);
    return piece;
}

/* Visits what begins at slabs from..end-1; returns the first slab that is not visited. */
static size_t visit_slabs(const struct region *r, size_t from, size_t end,
                          const struct walk_visitor *visitor) {
    size_t slab = from;
    if (slab == 0) {
        struct piece metadata = {.region = r,
                                 .head = region_slab(r, 0),
                                 .address = r->base,
                                 .slabs = r->first_free_slab,
                                 .kind = PIECE_METADATA};
        visitor->visit(&metadata, visitor->context);
        slab = r->first_free_slab;
    }
    while (slab < end) {
        const struct superslab *state = &r->states[slab / SLABS_PER_SUPERSLAB];
        bool unused = ((state->free | state->behind) >> slab % SLABS_PER_SUPERSLAB & 1) != 0;
        struct piece piece = unused ? free_piece(r, slab) : used_piece(r, slab);
        visitor->visit(&piece, visitor->context);
        slab += piece.slabs;
    }
    return slab;
}

bool arena_walk_step(struct walk *walk, const struct walk_visitor *visitor) {
    lock_acquire(&arena.lock);
    const struct region *r = region_from(walk->at);
    if (r == NULL) {
        lock_release(&arena.lock);
        return false;
    }
    uintptr_t base = r->base;
    uintptr_t from = walk->at < base ? base : walk->at;
    size_t slab = (from - base) >> SLAB_SHIFT;
    size_t end = round_down(slab, SLABS_PER_SUPERSLAB) + WALK_STEP_SUPERSLABS * SLABS_PER_SUPERSLAB;
    size_t committed = committed_slabs(r);
    end = min_size(end, committed);
    if (visitor->prepare != NULL && slab < end) {
        lock_release(&arena.lock);
        visitor->prepare(from, (end - slab) << SLAB_SHIFT, visitor->context);
        lock_acquire(&arena.lock);
        r = region_from(walk->at); /* it may have been unmapped meanwhile, and another made in its place */
        if (r == NULL || r->base != base) {
            lock_release(&arena.lock);
            return r != NULL; /* the next step begins with what is there now */
        }
        committed = committed_slabs(r);
        end = min_size(end, committed);
    }
    if (slab < end) {
        slab = visit_slabs(r, slab, end, visitor);
    }
    walk->at = slab >= committed ? base + r->bytes : base + (slab << SLAB_SHIFT);
    lock_release(&arena.lock);
    return true;
}
