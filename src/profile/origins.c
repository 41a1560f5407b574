#include "profile/origins.h"

#include "base/bits.h"
#include "os/pages.h"

#include <string.h>

#define FIRST_HEADS 512
#define ROOM_BYTES ((size_t)256 << 10)
/* Memory for origins and tallies up to which new stacks are kept whole, and up to which by their innermost
 * frame. Beyond it, all that is new counts for the one origin without a frame, whose tallies are a few
 * hundred. */
#define WHOLE_BYTES ((size_t)64 << 20)
#define INNERMOST_BYTES ((size_t)72 << 20)

/* Where origins and tallies lie. */
struct room {
    struct room *older; /* in the list of all */
    char bytes[];
};

static void *take(struct origins *origins, size_t bytes) {
    if ((size_t)(origins->room_end - origins->room) < bytes) {
        struct room *room = pages_take(ROOM_BYTES);
        if (room == NULL) {
            return NULL;
        }
        room->older = origins->rooms;
        origins->rooms = room;
        origins->room = room->bytes;
        origins->room_end = (char *)room + ROOM_BYTES;
        origins->taken_bytes += ROOM_BYTES;
    }
    void *taken = origins->room;
    origins->room += bytes;
    return taken;
}

static uint64_t hash_of(const uintptr_t *frames, size_t depth) {
    uint64_t hash = depth;
    for (size_t i = 0; i < depth; i++) {
        hash = (hash ^ frames[i]) * GOLDEN_64;
        hash ^= hash >> 29;
    }
    return hash;
}

static struct origin **head_of(const struct origins *origins, uint64_t hash) {
    return &origins->heads[hash & (origins->capacity - 1)];
}

static bool grow_heads(struct origins *origins) {
    size_t capacity = max_size(origins->capacity * 2, FIRST_HEADS);
    struct origin **heads = pages_take(capacity * sizeof(struct origin *));
    if (heads == NULL) {
        return false;
    }
    pages_give(origins->heads, origins->capacity * sizeof(struct origin *));
    origins->heads = heads;
    origins->capacity = capacity;
    for (struct origin *origin = origins->newest; origin != NULL; origin = origin->older) {
        struct origin **head = head_of(origins, origin->hash);
        origin->next = *head;
        *head = origin;
    }
    return true;
}

static struct origin *find(const struct origins *origins, uint64_t hash, const uintptr_t *frames,
                           size_t depth) {
    struct origin *origin = origins->capacity == 0 ? NULL : *head_of(origins, hash);
    while (origin != NULL && (origin->hash != hash || origin->depth != depth ||
                              memcmp(origin->frames, frames, depth * sizeof *frames) != 0)) {
        origin = origin->next;
    }
    return origin;
}

static struct origin *make(struct origins *origins, uint64_t hash, const uintptr_t *frames, size_t depth) {
    if (origins->count >= origins->capacity && !grow_heads(origins)) {
        return NULL;
    }
    struct origin *origin = take(origins, sizeof *origin + depth * sizeof *frames);
    if (origin == NULL) {
        return NULL;
    }
    struct origin **head = head_of(origins, hash);
    origin->hash = hash;
    origin->number = origins->count++;
    origin->depth = depth;
    memcpy(origin->frames, frames, depth * sizeof *frames);
    origin->next = *head;
    *head = origin;
    origin->older = origins->newest;
    origins->newest = origin;
    return origin;
}

/* How many frames of a stack that is new are kept. */
static size_t depth_to_keep(const struct origins *origins, size_t depth) {
    return origins->taken_bytes < WHOLE_BYTES       ? depth
           : origins->taken_bytes < INNERMOST_BYTES ? min_size(depth, 1)
                                                    : 0;
}

static struct origin *find_or_make(struct origins *origins, const uintptr_t *frames, size_t depth) {
    uint64_t hash = hash_of(frames, depth);
    struct origin *origin = find(origins, hash, frames, depth);
    if (origin != NULL) {
        return origin;
    }
    size_t kept = depth_to_keep(origins, depth);
    return kept < depth ? find_or_make(origins, frames, kept) : make(origins, hash, frames, depth);
}

/* The number of the group of sizes that `size` is in: there are eight to each doubling. */
static unsigned size_group(size_t size) {
    unsigned top = bit_highest(size | 8);
    return top * 8 + (unsigned)(size >> (top - 3) & 7);
}

struct tally *origins_tally_of(struct origins *origins, struct origin *origin, size_t size) {
    unsigned group = size_group(size);
    for (struct tally *tally = origin->tallies; tally != NULL; tally = tally->next) {
        if (tally->size_group == group) {
            return tally;
        }
    }
    if (origins->taken_bytes >= INNERMOST_BYTES && origin->depth > 0) {
        struct origin *rest = find_or_make(origins, origin->frames, 0);
        return rest == NULL ? NULL : origins_tally_of(origins, rest, size);
    }
    struct tally *tally = take(origins, sizeof *tally);
    if (tally != NULL) {
        *tally = (struct tally){.next = origin->tallies, .origin = origin, .size_group = group};
        origin->tallies = tally;
        origins->tallies++;
    }
    return tally;
}

struct tally *origins_tally(struct origins *origins, const uintptr_t *frames, size_t depth, size_t size) {
    struct origin *origin = find_or_make(origins, frames, min_size(depth, FRAMES_MOST));
    return origin == NULL ? NULL : origins_tally_of(origins, origin, size);
}

void origins_forget(struct origins *origins) {
    for (struct origin *origin = origins->newest; origin != NULL; origin = origin->older) {
        for (struct tally *tally = origin->tallies; tally != NULL; tally = tally->next) {
            tally->figures = (struct figures){0};
        }
    }
}

void origins_give(struct origins *origins) {
    pages_give(origins->heads, origins->capacity * sizeof(struct origin *));
    for (struct room *room = origins->rooms; room != NULL;) {
        struct room *older = room->older;
        pages_give(room, ROOM_BYTES);
        room = older;
    }
    *origins = (struct origins){0};
}
