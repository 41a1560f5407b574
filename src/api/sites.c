/* Call sites: the entry points. */
#include "observe/sites.h"
#include "hakmem.h"
#include "observe/sites_text.h"

void *hak_alloc_at(size_t size, hak_site_t site) {
    void *p = hak_malloc(size);
    if (p != NULL) {
        site_count_allocation(site, size);
    }
    return p;
}

void hak_free_at(void *p, size_t size, hak_site_t site) {
    if (p != NULL) {
        site_count_free(site, size);
        hak_free(p);
    }
}

int hak_site_get(hak_site_t site, hak_site_stats_t *out) {
    return site_get(site, out);
}

size_t hak_site_list(hak_site_stats_t *out, size_t capacity) {
    return sites_list(out, capacity);
}

void hak_sites_print(int fd) {
    sites_print(fd);
}

int hak_sites_json(int fd) {
    return sites_print_json(fd);
}
