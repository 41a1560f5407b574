/* libc's ways of asking for statistics, answered from HAKMEM's. */
#include "api/names.h"
#include "base/text.h"
#include "observe/stats.h"
#include "os/os.h"
#include "os/report.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void at_load(void) {
    stats_at_start(); /* the library was started by the first constructor */
}

__attribute__((destructor)) static void at_exit(void) {
    stats_at_exit();
}

/* The C++ part has no other way to the report. */
void hak_cxx_report(const char *message);

void hak_cxx_report(const char *message) {
    report_line(message);
}

#ifdef HAKMEM_STANDARD_NAMES
static int clip(size_t value) {
    return value > INT_MAX ? INT_MAX : (int)value;
}

HAK_EXPORT struct mallinfo2 mallinfo2(void) {
    hak_stats_t s;
    hak_stats_get(&s);
    size_t free = s.cached_bytes + s.free_in_slab_bytes + s.retained_bytes;
    return (struct mallinfo2){
        .arena = s.live_bytes + free,
        .uordblks = s.live_bytes,
        .fordblks = free,
        .fsmblks = s.cached_bytes,
        .keepcost = s.retained_bytes,
    };
}

/* Superseded by mallinfo2, whose figures do not fit an int: clipped, not wrapped. */
HAK_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 m = mallinfo2();
    return (struct mallinfo){
        .arena = clip(m.arena),
        .uordblks = clip(m.uordblks),
        .fordblks = clip(m.fordblks),
        .fsmblks = clip(m.fsmblks),
        .keepcost = clip(m.keepcost),
    };
}

HAK_EXPORT void malloc_stats(void) {
    hak_stats_print(STDERR_FILENO);
}

static void element(struct text *t, const char *type, uint64_t value) {
    text_string(t, "  <total type=\"");
    text_string(t, type);
    text_string(t, "\" size=\"");
    text_decimal(t, value);
    text_string(t, "\"/>\n");
}

HAK_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    hak_stats_t s;
    hak_stats_get(&s);
    char buffer[1024];
    struct text t = TEXT_ON(buffer);
    text_string(&t, "<malloc version=\"hakmem ");
    text_string(&t, hak_version());
    text_string(&t, "\">\n");
    element(&t, "live", s.live_bytes);
    element(&t, "live-blocks", s.live_blocks);
    element(&t, "cached", s.cached_bytes);
    element(&t, "free-in-slabs", s.free_in_slab_bytes);
    element(&t, "retained", s.retained_bytes);
    element(&t, "metadata", s.metadata_bytes);
    element(&t, "reserved", s.reserved_bytes);
    text_string(&t, "</malloc>\n");
    return fputs(buffer, stream) < 0 ? -1 : 0;
}
#endif
