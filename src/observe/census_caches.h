/* What threads cache, for the census.
 *
 * Promises to hold no thread up: what a heap's owner is just changing is counted as it is found. Relies on
 * heaps staying for ever.
 */
#ifndef HAKMEM_OBSERVE_CENSUS_CACHES_H
#define HAKMEM_OBSERVE_CENSUS_CACHES_H

struct census;

/* Ends a census: takes what lies in magazines, stocks, remote buffers and parcels from the live blocks, as
 * which it was counted, and adds it to the cached ones. */
void census_count_heaps(struct census *census);

#endif
