/* A census of the heap: what its memory is used for.
 *
 * Promises that the parts add up to what is resident (see struct memory_figures), exactly so in a quiet
 * process; that no thread waits for longer than a look at a few superslabs takes; and, without measuring, to
 * make no system call. Relies on arena/walk, the headers and bitmaps of slabs, and the heaps.
 */
#ifndef HAKMEM_OBSERVE_CENSUS_H
#define HAKMEM_OBSERVE_CENSUS_H

#include "arena/walk.h"
#include "slab/size_class.h"

enum lane { LANE_TINY, LANE_MID, LANE_LARGE, LANE_HUGE, LANES };

struct lane_figures {
    uint64_t live_blocks, live_bytes;
    uint64_t cached_blocks, cached_bytes;
    uint64_t free_bytes;      /* free and resident, in slabs that are in use */
    uint64_t tail_bytes;      /* resident, but no block fits */
    uint64_t untouched_bytes; /* handed out and not resident */
    uint64_t slab_bytes;      /* address space of the slabs that are in use */
    uint64_t resident_bytes;  /* live + cached + free + tail - untouched */
};

struct class_figures {
    uint64_t free_blocks; /* resident or not; 64 GiB of slabs have 2^32 of the smallest */
    uint32_t slabs;
    uint32_t resident_pages;
    uint32_t cached_blocks;
};

struct metadata_figures {
    uint64_t regions_bytes, page_map_bytes, heaps_bytes, tables_bytes;
};

struct census {
    struct walk walk;
    bool measured; /* the kernel says what is resident; else all that was ever handed out counts as so */
    bool counted;  /* the census is complete: live blocks are without those that threads cache */
    uint32_t internal_slabs;
    uint64_t shadow_blocks, shadow_bytes; /* kept taken by sampling; the lanes count them as live */
    uintptr_t page_map_seen;              /* pages of the page map below this are counted */
    uint64_t retained_bytes;              /* free, in no slab that is in use, and resident */
    uint64_t committed_bytes;             /* address space that was made usable */
    struct metadata_figures metadata;
    struct lane_figures lanes[LANES];
    struct class_figures classes[SIZE_CLASSES];
};

/* Begins a census; `measure` asks the kernel which pages are resident, which takes a system
 * call for each step. */
void census_begin(struct census *census, bool measure);
/* Counts a few superslabs; false when the census is complete. */
bool census_step(struct census *census);
/* A whole census. */
void census_take(struct census *census, bool measure);

/* The sums of a complete census:
 * live + cached + free_in_slabs + slab_tails + retained + metadata - untouched = resident. */
struct memory_figures {
    uint64_t live_blocks, live_bytes, cached_blocks, cached_bytes;
    uint64_t free_in_slabs_bytes, slab_tail_bytes, untouched_bytes;
    uint64_t retained_bytes, metadata_bytes, resident_bytes;
};
void census_sum(const struct census *census, struct memory_figures *out);

/* How many blocks of the class the program holds; the census is complete. */
uint64_t census_class_live(const struct census *census, unsigned size_class);
enum lane size_class_lane(unsigned size_class);

/* Names a table of the library's own, which counts as metadata from then on. Once for each, for ever. */
void census_add_table(const void *address, size_t bytes);

#endif
