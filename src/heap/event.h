/* Telling upper layers that a slow path was taken.
 *
 * Promises one load where nobody listens. Whoever listens may be called from any thread, in the middle of
 * malloc or free, with the lock of the shared heap or that of the sampled blocks held, but no other. Relies
 * on nothing.
 */
#ifndef HAKMEM_HEAP_EVENT_H
#define HAKMEM_HEAP_EVENT_H

#include "base/bits.h"

#include <stdatomic.h>

enum heap_event_place {
    HEAP_EVENT_IN_PROGRAM,
    HEAP_EVENT_UNLOCKED,      /* the same, surely with no lock held */
    HEAP_EVENT_IN_BACKGROUND, /* in the library's own thread, which has little stack */
    HEAP_EVENT_ON_REQUEST,    /* the program has asked for something after which all may be different */
};
typedef void heap_event_listener_function(enum heap_event_place place);

/* Called with each event; NULL if nobody listens. relaxed everywhere: the listener needs nothing that is set
 * up after it */
extern INTERNAL heap_event_listener_function *_Atomic heap_event_listener;

/* Called in a child of fork, before it has a second thread; NULL if nobody wants to know. `alone`: the parent
 * had one thread, too, and what that held then it still holds: it may have forked in the handler of a signal.
 */
extern INTERNAL void (*heap_child_listener)(bool alone);

static inline void heap_event(enum heap_event_place place) {
    heap_event_listener_function *listener = atomic_load_explicit(&heap_event_listener, memory_order_relaxed);
    if (listener != NULL) {
        listener(place);
    }
}

#endif
