#include "os/report.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "os/signal.h"
#include "os/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* For wait_for_who_came_first. */
#define WAIT_FOR_FIRST_MS 1000

/* relaxed everywhere: counts and a switch, they order nothing */
static _Atomic uint64_t counts[FALLBACK_COUNT];
static _Atomic bool diagnosis;

static const char *const names[FALLBACK_COUNT] = {
    [FALLBACK_LIBC_FORCED] = "libc forced",
    [FALLBACK_FOREIGN_FREE] = "foreign free",
    [FALLBACK_FOREIGN_REALLOC] = "foreign realloc",
    [FALLBACK_FOREIGN_SIZE] = "foreign usable size",
    [FALLBACK_PAGE_MAP_BY_REGION] = "page map by region",
    [FALLBACK_SMALL_REGION] = "small region",
    [FALLBACK_THREAD_ENDING] = "thread ending",
    [FALLBACK_NO_HEAP] = "no heap",
    [FALLBACK_MAGAZINE_FULL_SIZE] = "magazine cannot grow",
    [FALLBACK_OUT_OF_MEMORY] = "out of memory",
    [FALLBACK_PURGE_FAILED] = "purge failed",
    [FALLBACK_NO_BACKGROUND_THREAD] = "no background thread",
    [FALLBACK_MOVE_BY_COPY] = "huge block copied",
    [FALLBACK_RUN_LOST] = "address space lost to a failed mremap",
    [FALLBACK_SITE_TABLE_FULL] = "site table full",
    [FALLBACK_NO_LIVE_PAGE] = "no live page",
    [FALLBACK_PROFILE_WITHOUT_MEMORY] = "no memory for a sample",
};

COLD const char *report_fallback_name(enum fallback reason) {
    return names[reason];
}

uint64_t report_fallback_count(enum fallback reason) {
    return atomic_load_explicit(&counts[reason], memory_order_relaxed);
}

void report_enable_diagnosis(bool on) {
    atomic_store_explicit(&diagnosis, on, memory_order_relaxed);
}

static COLD void write_line_to(int fd, struct text *line, enum patience patience) {
    line->length = min_size(line->length, line->capacity - 2);
    text_char(line, '\n');
    os_write(fd, line->buffer, line->length, patience);
}

static COLD void write_line(struct text *line) {
    if (LIKELY(!os_thread_is_own())) {
        write_line_to(STDERR_FILENO, line, PATIENCE_NONE);
        return;
    }
    int fd = os_thread_borrow_error_output();
    write_line_to(fd, line, PATIENCE_NONE);
    os_close(fd);
}

/* Threads that find misuse in the same moment say one line, if the first of them comes to ending the process
 * for it. */
static COLD void wait_for_who_came_first(void) {
    static _Atomic uint64_t first; /* relaxed: the ids of a process and a thread, which order nothing */
    uint64_t none = 0;
    uint64_t process = (uint64_t)os_process_id() << 32;
    uint64_t self = process | (uint32_t)os_thread_id();
    if (!atomic_compare_exchange_strong_explicit(&first, &none, self, memory_order_relaxed,
                                                 memory_order_relaxed) &&
        none != self && none >> 32 == process >> 32) {
        os_sleep_ms(WAIT_FOR_FIRST_MS);
    }
}

/* What users set, and what files are called, may hold anything: a line stays one, whatever shows it. */
static COLD void append_printable(struct text *line, const char *message) {
    for (; *message != '\0'; message++) {
        bool is_control = (unsigned char)*message < ' ' || *message == '\x7f';
        text_char(line, is_control ? '?' : *message);
    }
}

COLD void report_line_to(int fd, const char *message, enum patience patience) {
    char buffer[1536];
    struct text line = TEXT_ON(buffer);
    text_string(&line, "hakmem: ");
    append_printable(&line, message);
    write_line_to(fd, &line, patience);
}

COLD void report_line(const char *message) {
    report_line_to(STDERR_FILENO, message, PATIENCE_NONE);
}

COLD void report_fallback(enum fallback reason, size_t bytes) {
    atomic_fetch_add_explicit(&counts[reason], 1, memory_order_relaxed);
    if (!atomic_load_explicit(&diagnosis, memory_order_relaxed)) {
        return;
    }
    char buffer[160];
    struct text line = TEXT_ON(buffer);
    text_string(&line, "hakmem: fall-back: ");
    text_string(&line, names[reason]);
    if (bytes != 0) {
        text_string(&line, ", ");
        text_decimal(&line, bytes);
        text_string(&line, " B");
    }
    write_line(&line);
}

COLD void report_misuse(const struct misuse *misuse) {
    char buffer[256];
    struct text line = TEXT_ON(buffer);
    text_string(&line, "hakmem: ");
    text_string(&line, misuse->action);
    if (misuse->detail != NULL) {
        text_string(&line, " (");
        text_string(&line, misuse->detail);
        text_string(&line, ")");
    }
    text_string(&line, ": pointer ");
    text_hex(&line, (uintptr_t)misuse->pointer);
    text_string(&line, ", size class ");
    if (misuse->block_bytes != 0) {
        text_decimal(&line, misuse->block_bytes);
        text_string(&line, " B");
    } else {
        text_string(&line, misuse->lane != NULL ? misuse->lane : "unknown");
    }
    text_string(&line, ", slab ");
    if (misuse->slab != 0) {
        text_hex(&line, misuse->slab);
    } else {
        text_string(&line, "none");
    }
    wait_for_who_came_first();
    write_line(&line);
    if (os_thread_is_own()) {
        os_abort_elsewhere();
    }
    abort();
}
