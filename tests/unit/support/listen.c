#include "heap/event.h"

#include <stddef.h>

void hakmem_test_listen(void (*heard)(void));

static void (*hearer)(void);
static heap_event_listener_function *before;

static void on_event(enum heap_event_place place) {
    if (place == HEAP_EVENT_IN_PROGRAM || place == HEAP_EVENT_UNLOCKED) {
        hearer();
    }
}

/* Has `heard` called with each event of the program's threads instead of whoever listens; with NULL it is as
 * before. */
void hakmem_test_listen(void (*heard)(void)) {
    /* relaxed: as everywhere */
    if (heard != NULL) {
        hearer = heard;
        before = atomic_exchange_explicit(&heap_event_listener, on_event, memory_order_relaxed);
    } else {
        atomic_store_explicit(&heap_event_listener, before, memory_order_relaxed);
    }
}
