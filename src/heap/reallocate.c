#include "heap/reallocate.h"

#include "heap/ahead.h"
#include "heap/fast.h"
#include "heap/flush.h"
#include "heap/foreign.h"
#include "heap/large.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/whose.h"
#include "options/options.h"
#include "os/os.h"
#include "profile/sample.h"

#include <string.h>

static NOINLINE size_t usable_size_otherwise(const void *p, uint32_t word) {
    if (p == NULL) {
        return 0;
    }
    switch (whose(p, word)) {
    case OURS_CLASS:
        heap_check_block("invalid usable size", p);
        return size_classes[page_word_class(word)].bytes;
    case OURS_LARGE:
        return large_usable_size("invalid usable size", p);
    case OURS_STRAY:
        large_report_stray("invalid usable size", p);
    case NOT_OURS:
        break;
    }
    return foreign_usable_size(p, runtime_libc_forced());
}

size_t block_usable_size(const void *p) {
    uint32_t word = page_map_get(p);
    size_t bytes = sure_bytes(p, word);
    return LIKELY(bytes > 0) ? bytes : usable_size_otherwise(p, word);
}

/* Tells the profile of a large block at `p` that had `had` bytes and was given another size, where it stood
 * or by being moved. */
static void note_resized(void *p, size_t had) {
    size_t bytes = large_usable_size("invalid realloc", p);
    bool grown = bytes > had && UNLIKELY(sampling_due(bytes - had)) && sampling_decide(bytes - had) &&
                 sampling_note_large(p, bytes, bytes - had);
    if (grown) {
        large_set_sampled(p, true);
    } else if (UNLIKELY(large_is_sampled(p)) && bytes != had) {
        large_set_sampled(p, profile_resize((uintptr_t)p, bytes));
    }
}

/* Programs that shrink a block expect no failure. */
static COLD NOINLINE void *reallocate_without_memory(void *p, size_t held, size_t size) {
    return size <= held ? p : NULL;
}

/* What to ask for when a block of `held` bytes needs `size`. What grows by a small step will grow again, and
 * would be copied at every class, eight times until it is twice as large: four times are enough, and above
 * GROWS_COARSELY_BYTES, where what it has not reached yet is pages of its own, twice. */
#define SMALL_STEP_PART 16
#define GROWS_COARSELY_BYTES ((size_t)16 << 10)
static inline size_t room_to_grow(size_t held, size_t size) {
    if (size <= held || size > held + held / SMALL_STEP_PART || size > MID_MAX_BYTES) {
        return size;
    }
    unsigned steps_log2 = size > GROWS_COARSELY_BYTES ? 1 : 2;
    return round_up(size, (size_t)1 << (bit_highest(size - 1) - steps_log2));
}

/* If `grows_large`, `p` is large and is to become larger. */
static void *reallocate_by_copy(void *p, size_t held, size_t size, bool grows_large) {
    void *fresh = UNLIKELY(grows_large) ? allocate_grown(size) : fast_allocate(room_to_grow(held, size));
    if (UNLIKELY(fresh == NULL)) {
        return reallocate_without_memory(p, held, size);
    }
    size_t copied = min_size(held, size);
    if (UNLIKELY(copied >= AHEAD_OF_COPY_LEAST_BYTES)) {
        ahead_of_copy(fresh, copied);
    }
    memcpy(fresh, p, copied);
    fast_release(p);
    return fresh;
}

/* Moving to a smaller class pays once half the block is unused. */
static inline bool may_stay(size_t held, size_t size) {
    return size <= held && (size > held / 2 || held <= 16);
}

/* Gives a large or huge block room for `size` bytes where it stands, or moves its pages; NULL if it must be
 * copied. */
static void *resize_large(void *p, size_t held, size_t size, uint32_t word) {
    void *resized = large_resize(thread_heap_get(), p, size, word);
    if (resized != NULL) {
        note_resized(resized, held);
    }
    return resized;
}

/* Whether most of the first `bytes` of a large block, half of it at most, are resident; where it must not be
 * asked, they are not. */
static NOINLINE bool is_mostly_resident(const void *p, size_t bytes) {
    size_t pages = bytes / OS_PAGE_BYTES;
    return option_bool(OPTION_HUGE_PAGES) && pages - os_missing_pages(p, bytes) > pages / 4 * 3;
}

/* Whether a block that is to become shorter is copied, and leaves its pages to another one: a program that
 * reads into a large buffer, and then gives back what it did not need, wants such a buffer again. Not where
 * it resizes its blocks again and again, or where the copy would have pages that the block has not. */
static bool leaves_its_pages(const void *p, size_t held, size_t size) {
    return held <= LARGE_MAX_BYTES && size > MID_MAX_BYTES && size <= held / 2 && !large_is_resized(p) &&
           is_mostly_resident(p, size);
}

static void *reallocate_large(void *p, size_t size, uint32_t word) {
    size_t held = large_usable_size("invalid realloc", p);
    void *resized = leaves_its_pages(p, held, size) ? NULL : resize_large(p, held, size, word);
    if (resized != NULL) {
        large_note_resized(resized);
        return resized;
    }
    resized = reallocate_by_copy(p, held, size, size > held && size > MID_MAX_BYTES);
    if (UNLIKELY(resized == p)) {
        (void)resize_large(p, held, size, word); /* there is no memory for a copy: as far as it goes */
    }
    if (resized != NULL && size > MID_MAX_BYTES) {
        large_note_resized(resized);
    }
    return resized;
}

static NOINLINE void *reallocate_otherwise(void *p, size_t size, uint32_t word) {
    enum whose owner = whose(p, word);
    if (owner == NOT_OURS) {
        return foreign_realloc(p, size, runtime_libc_forced());
    }
    if (owner == OURS_STRAY) {
        large_report_stray("invalid realloc", p);
    }
    if (size > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    if (owner == OURS_LARGE) {
        return reallocate_large(p, size, word);
    }
    heap_check_block("invalid realloc", p);
    size_t held = size_classes[page_word_class(word)].bytes;
    return may_stay(held, size) ? p : reallocate_by_copy(p, held, size, false);
}

void *reallocate(void *p, size_t size) {
    uint32_t word = page_map_get(p);
    size_t bytes = sure_bytes(p, word);
    if (LIKELY(bytes > 0 && may_stay(bytes, size))) {
        return p;
    }
    if (LIKELY(bytes > 0 && size <= MID_MAX_BYTES)) {
        return reallocate_by_copy(p, bytes, size, false);
    }
    return reallocate_otherwise(p, size, word);
}
