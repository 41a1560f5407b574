/* The live page itself: shared memory with the statistics as text, and room for a client's request.
 * docs/statistics.md has its layout.
 *
 * Promises that a reader always finds a whole text. For one thread at a time (see live.c). Relies on
 * os/shared_page.
 */
#ifndef HAKMEM_OBSERVE_LIVE_PAGE_H
#define HAKMEM_OBSERVE_LIVE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_TEXT_BYTES 32768 /* capacity of each of the two texts */
#define LIVE_TEXTS_OFFSET 4096
#define LIVE_FILE_BYTES (LIVE_TEXTS_OFFSET + 2 * LIVE_TEXT_BYTES)
#define LIVE_PATH_BYTES 1024

struct live_page {
    char magic[8];
    uint32_t pid;
    uint32_t buffer_bytes;
    uint64_t start_ticks;
    _Atomic uint32_t current; /* release: which text it names is whole, if the sequence was not seen yet */
    uint64_t length[2];
    _Atomic uint64_t sequence; /* release pairs with the acquire of readers: what it counts is whole */
    uint64_t published_ms;
    /* Written by clients. acquire pairs with their release: the rest of the request is there. */
    _Atomic uint32_t request_sequence;
    uint32_t request_kind;
    uint64_t request_argument;
    _Atomic uint32_t done_sequence; /* release: its errno is there */
    int32_t done_errno;
    char unused[40];
    char request_path[LIVE_PATH_BYTES];
};

struct census;

/* NULL: not made yet. */
struct live_page *live_page_now(void);
bool live_page_make(void);
/* The process has other rights than when it made the page. */
bool live_page_credentials_changed(void);
/* Writes the census as the text that readers find from now on. */
void live_page_publish(const struct census *census);
/* Other processes find the page no more. */
void live_page_remove(void);
/* Nor is it this one's, who may make another. */
void live_page_forget(void);
/* In a child of fork: what it writes there the parent's readers do not see. */
void live_page_make_private(void);

#endif
