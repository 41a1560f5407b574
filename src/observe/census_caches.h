/* What threads cache, for the census.
 *
 * Promises to hold no thread up: what its owner is just changing is counted as it is found. Relies on heaps
 * to stay for ever.
 */
#ifndef HAKMEM_OBSERVE_CENSUS_CACHES_H
#define HAKMEM_OBSERVE_CENSUS_CACHES_H

struct census;

/* Ends the census: what lies in magazines, stocks, remote buffers and parcels was counted as live before. */
void census_count_heaps(struct census *census);

#endif
