/* How much memory the process has resident, read from /proc without using the heap that is measured.
 *
 * The kernel sums the process's pages for each CPU on its own and lets statm lag behind by dozens of pages;
 * smaps_rollup walks the page tables and is exact.
 */
#ifndef HAKMEM_BENCH_RESIDENT_H
#define HAKMEM_BENCH_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

/* A bench_table() that the figures below leave out: the program's own, not its heap's. */
void *resident_table(size_t count, size_t size);

/* All else that is resident now, files included: exact to the page. Not for two threads at once. */
uint64_t resident_bytes(void);

/* The part of resident_bytes() that is no file's. How much of a file is resident depends on where it happens
 * to be mapped, by some 100 KiB from one run to the next; this does not. */
uint64_t resident_anonymous_bytes(void);

/* The most that was resident so far: the kernel's high-water mark, which may lag behind by dozens of pages,
 * or the most that resident_bytes() has seen. */
uint64_t resident_peak_bytes(void);

/* Minor page faults of the calling process so far. */
uint64_t minor_faults(void);

#endif
