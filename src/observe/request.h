/* What clients ask of the process by its live page.
 *
 * Promises to answer where there is the stack for it, and to do what is asked with the rights of the process.
 * Relies on the caller to have seen that these are still those that the page was made with.
 */
#ifndef HAKMEM_OBSERVE_REQUEST_H
#define HAKMEM_OBSERVE_REQUEST_H

#include "observe/live_page.h"

/* Whether there is one. */
static inline bool request_waits(const struct live_page *page) {
    /* relaxed: only whether they differ */
    return atomic_load_explicit(&page->request_sequence, memory_order_relaxed) !=
           atomic_load_explicit(&page->done_sequence, memory_order_relaxed);
}

/* Whether the calling thread has the stack for it. */
bool request_has_room(void);
void request_answer(struct live_page *page);

#endif
