/* What clients ask of the process by its live page.
 *
 * Promises to do what is asked with the rights of the process. For the holder of the page (see live.c).
 * Relies on the caller having checked that the calling thread has the stack for it, and that the process
 * still has the rights that it made the page with.
 */
#ifndef HAKMEM_OBSERVE_REQUEST_H
#define HAKMEM_OBSERVE_REQUEST_H

#include "observe/live_page.h"

/* Whether there is a request that was not answered. */
static inline bool request_waits(const struct live_page *page) {
    /* relaxed: only whether they differ; request_answer's acquire load orders what follows */
    return atomic_load_explicit(&page->request_sequence, memory_order_relaxed) !=
           atomic_load_explicit(&page->done_sequence, memory_order_relaxed);
}

/* Whether the calling thread has the stack for request_answer, or to write statistics. Some system calls. */
bool request_has_room(void);
/* Does what the page's request asks for, and tells the client of the result. False, and the request waits
 * still, if that takes locks and the caller may hold some, in the middle of malloc (not `unlocked`). */
bool request_answer(struct live_page *page, bool unlocked);

#endif
