/* Telling the user: misuse that ends the program, fall-backs that are counted and logged.
 *
 * Promises one line per report, written by one system call, without allocating. Relies on os_write.
 */
#ifndef HAKMEM_OS_REPORT_H
#define HAKMEM_OS_REPORT_H

#include "os/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why something did not go the way it should. */
enum fallback {
    FALLBACK_LIBC_FORCED,  /* HAKMEM_FORCE_LIBC_ALLOC, or pages of another size */
    FALLBACK_FOREIGN_FREE, /* a block of libc's, handed to libc */
    FALLBACK_FOREIGN_REALLOC,
    FALLBACK_FOREIGN_SIZE,
    FALLBACK_PAGE_MAP_BY_REGION,   /* no room for the flat page map */
    FALLBACK_SMALL_REGION,         /* address space only in smaller pieces */
    FALLBACK_THREAD_ENDING,        /* allocation after the thread's heap was taken down */
    FALLBACK_NO_HEAP,              /* no heap for the thread: the shared one serves it */
    FALLBACK_MAGAZINE_FULL_SIZE,   /* no room to let a magazine grow */
    FALLBACK_OUT_OF_MEMORY,        /* the OS gave nothing: NULL was returned */
    FALLBACK_PURGE_FAILED,         /* the OS would not take pages back */
    FALLBACK_NO_BACKGROUND_THREAD, /* threads that free do its work */
    FALLBACK_MOVE_BY_COPY,         /* mremap would not move a huge block */
    FALLBACK_RUN_LOST,             /* mremap failed half-way: address space that is not used again */
    FALLBACK_SITE_TABLE_FULL,
    FALLBACK_NO_LIVE_PAGE,           /* no shared memory to publish the statistics in */
    FALLBACK_PROFILE_WITHOUT_MEMORY, /* a block that should have been sampled is not */
    FALLBACK_COUNT
};

/* Counts a fall-back, and writes a line to stderr if diagnosis is on. `bytes` is the size concerned, 0 if
 * none. Keeps errno. */
void report_fallback(enum fallback reason, size_t bytes);
/* How often it has happened. */
uint64_t report_fallback_count(enum fallback reason);
const char *report_fallback_name(enum fallback reason);
/* Switches the lines of report_fallback on or off. */
void report_enable_diagnosis(bool on);

/* Writes "hakmem: <message>" to stderr. Keeps errno. */
void report_line(const char *message);
/* Writes "hakmem: <message>" to `fd`, which is that of os_error_output: long after the start, the program may
 * have a file of its own where stderr was. Keeps errno. */
void report_line_to(int fd, const char *message, enum patience patience);

struct misuse {
    const char *action; /* what the program did */
    const char *detail; /* why that is misuse; NULL if it goes without saying */
    const void *pointer;
    size_t block_bytes; /* the block's size class; 0 outside the tiny and mid lanes, or not known */
    const char *lane;   /* named where there is no size class; NULL if that is not known either */
    uintptr_t slab;     /* 0 if there is none */
};

/* Writes one line that names the misuse, the pointer and what is known of its place, then aborts. */
void report_misuse(const struct misuse *misuse) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
