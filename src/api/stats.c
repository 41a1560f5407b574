/* Statistics: the entry points. */
#include "observe/stats.h"
#include "hakmem.h"
#include "observe/counters.h"
#include "observe/slab_map.h"

void hak_stats_get(hak_stats_t *out) {
    stats_get(out);
}

size_t hak_stats_json(char *buffer, size_t capacity) {
    return stats_json(buffer, capacity);
}

void hak_stats_print(int fd) {
    stats_print(fd);
}

void hak_stats_reset(void) {
    counters_reset();
}

int hak_slab_map_json(int fd) {
    return slab_map_write(fd);
}
