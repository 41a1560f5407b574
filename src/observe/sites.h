/* Call sites: exact figures for blocks that were allocated with a site.
 *
 * Promises that each figure is exact once the threads that change it are quiet, and that the counting takes
 * no lock. Any thread, from its first use on. Relies on a table of fixed size, reserved at the first use, of
 * which only the lines in use are ever touched; where there is no memory for it, or no room in it, the
 * unknown site counts.
 */
#ifndef HAKMEM_OBSERVE_SITES_H
#define HAKMEM_OBSERVE_SITES_H

#include "hakmem.h"

/* A block of `size` bytes, as requested, was allocated at the site `key`, or is about to be freed. Keep
 * errno. */
void site_count_allocation(hak_site_t key, size_t size);
void site_count_free(hak_site_t key, size_t size);

/* As hak_site_get and hak_site_list. */
int site_get(hak_site_t key, hak_site_stats_t *out);
size_t sites_list(hak_site_stats_t *out, size_t capacity);

#endif
