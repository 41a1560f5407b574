/* The live page itself: shared memory with the statistics as text, and room for a client's request.
 * docs/statistics.md has its layout.
 *
 * Promises that a reader always finds a whole text. For one thread at a time, the holder (see live.c).
 * Relies on os/shared_page.
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
    _Atomic uint32_t current; /* which text readers take; release pairs with their acquire: it is whole */
    uint64_t length[2];
    /* Publications so far; release pairs with the acquire of readers: the last one is whole. */
    _Atomic uint64_t sequence;
    uint64_t published_ms;
    /* Written by clients, last of the request: the acquire in request_answer pairs with their release. */
    _Atomic uint32_t request_sequence;
    uint32_t request_kind;
    uint64_t request_argument;
    /* The request that was answered last: release pairs with clients' acquire, who then read done_errno. */
    _Atomic uint32_t done_sequence;
    int32_t done_errno;
    uint64_t interval_before; /* of sampling when that request was taken up; 0: off */
    /* The state of sampling when that request was done, or at the last publication if that was later. */
    uint64_t interval, sampling_run; /* see struct profile_switch */
    /* 1: the process has ended normally, or uses the page no more, though it may not have been able to remove
     * the file. relaxed: it stands alone */
    _Atomic uint32_t given_up;
    char unused[12];
    char request_path[LIVE_PATH_BYTES];
};

struct census;

/* The process's page; NULL if none is made. */
struct live_page *live_page_now(void);
/* Makes the page; false if the system has no shared memory to give. */
bool live_page_make(void);
/* Whether the process has other rights than when it made the page. Reads /proc. */
bool live_page_credentials_changed(void);
/* Writes the census as the text that readers find from now on. The page is made. */
void live_page_publish(const struct census *census);
/* Writes how the process samples to the page, which is made. Returns the interval, 0 if it does not. */
uint64_t live_page_note_sampling(void);
/* Removes the page's file, so that other processes do not find it any more, and says in it that it is given
 * up: a process that has changed its root or its user cannot remove it. The page stays mapped. */
void live_page_remove(void);
/* Unmaps the page, whose file stays, so that another one may be made. */
void live_page_forget(void);
/* In a child of fork: makes the page private, so that the parent's readers do not see what
 * the child writes. */
void live_page_make_private(void);

#endif
