/* The data model of memory, from the outside in, with its units.
 *
 *   region      a reserved range of address space, REGION_GRANULE_BYTES-aligned; its first slabs hold
 *               the metadata of all others (struct region, slab headers, bitmaps)
 *    superslab  2 MiB, 2 MiB-aligned; one word says which of its 32 slabs are free, one which of the
 *               free ones are resident
 *     slab      64 KiB; one alone or a run of neighbours is used for one size class, one large block,
 *               or internal memory; a run of whole superslabs for one huge block
 *      block    what the program gets: no header, no link
 *
 * Everything that is known of a slab stands in its header (slab_header.h) and in one page-map word;
 * both are found from an address by shifts and one table (region_index.h).
 */
#ifndef HAKMEM_ARENA_LAYOUT_H
#define HAKMEM_ARENA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define SLAB_SHIFT 16
#define SLAB_BYTES ((size_t)1 << SLAB_SHIFT)
#define SUPERSLAB_SHIFT 21
#define SUPERSLAB_BYTES ((size_t)1 << SUPERSLAB_SHIFT)
#define SLABS_PER_SUPERSLAB 32

#define REGION_GRANULE_SHIFT 25
#define REGION_GRANULE_BYTES ((size_t)1 << REGION_GRANULE_SHIFT)
#define REGION_FIRST_BYTES ((size_t)256 << 20)
#define REGION_NEXT_BYTES ((size_t)1 << 30)

/* Bits of a user-space address. The kernel fills that space from the top down. */
#if defined(__aarch64__)
#define ADDRESS_BITS 48
#else
#define ADDRESS_BITS 47
#endif

/* The largest block of each lane. */
#define TINY_MAX_BYTES 1024
#define MID_MAX_BYTES ((size_t)64 << 10)
#define LARGE_MAX_BYTES SUPERSLAB_BYTES

/* Block bitmap of one slab run: at most 128 words, for 8192 blocks of 8 bytes. */
#define SLAB_BLOCKS_MAX (SLAB_BYTES / 8)
#define BITMAP_BYTES (SLAB_BLOCKS_MAX / 8)
/* Most classes need less than BITMAP_BYTES, and bitmaps of these sizes stand closer together, on fewer
 * pages. */
#define MID_BITMAP_BYTES ((size_t)256)
#define SMALL_BITMAP_BYTES 64

#endif
