#include "resident.h"

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Reads the line "<field>   <number> kB" of a file in /proc. */
static uint64_t kilobytes_of(const char *path, const char *field) {
    char text[8192];
    size_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        bench_fail("%s cannot be opened (%s); memory is measured with Linux 4.14 or newer", path,
                   strerror(errno));
    }
    for (;;) {
        ssize_t got = read(file, text + length, sizeof text - 1 - length);
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    close(file);
    text[length] = '\0';
    const char *line = strstr(text, field);
    if (line == NULL) {
        bench_fail("%s has no line '%s'", path, field);
    }
    return strtoull(line + strlen(field), NULL, 10) * BENCH_KIB;
}

static const char rollup[] = "/proc/self/smaps_rollup";
static uint64_t table_bytes, most_seen;

uint64_t resident_anonymous_bytes(void) {
    return kilobytes_of(rollup, "\nAnonymous:") - table_bytes;
}

uint64_t resident_bytes(void) {
    uint64_t now = kilobytes_of(rollup, "\nRss:") - table_bytes;
    most_seen = now > most_seen ? now : most_seen;
    return now;
}

uint64_t resident_peak_bytes(void) {
    uint64_t high_water = kilobytes_of("/proc/self/status", "\nVmHWM:") - table_bytes;
    return high_water > most_seen ? high_water : most_seen;
}

void *resident_table(size_t count, size_t size) {
    uint64_t before = resident_bytes();
    void *table = bench_table(count, size);
    uint64_t most_before = most_seen;
    table_bytes += resident_bytes() - before;
    most_seen = most_before; /* that measurement still included the table */
    return table;
}

uint64_t minor_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}
