/* The library's thread under sanitizers, as one of libc's: they must see each thread begin, and the allocator
 * under test is not the one that libc uses. It counts as one of the program's, and ends by itself only. */
#include "os/thread.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/sanitized.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if SANITIZED

static void *run_in_pthread(void *run) {
    void (*function)(void);
    memcpy(&function, &run, sizeof function);
    function();
    return NULL;
}

COLD bool os_thread_start(void (*run)(void)) {
    pthread_t id;
    void *argument;
    memcpy(&argument, &run, sizeof argument);
    return pthread_create(&id, NULL, run_in_pthread, argument) == 0 && pthread_detach(id) == 0;
}

void os_thread_prepare(void) {
}

bool os_thread_sleep(uint64_t ms) {
    os_sleep_ms(ms);
    return true;
}

void os_thread_wake(void) { /* os_sleep_ms is not to be woken */
}

bool os_thread_end(void) {
    return true; /* it is one of the program's, for whoever counts them */
}

bool os_thread_is_only_other(void) {
    return false; /* as above: who counts threads, counts this one */
}

void os_thread_note_wait(bool begins) {
    (void)begins;
}

bool os_thread_exists(void) {
    return true;
}

bool os_thread_is_lost(void) {
    return false;
}

bool os_thread_is_own(void) {
    return false; /* it has no table of descriptors of its own here */
}

int os_thread_borrow_error_output(void) {
    return STDERR_FILENO;
}

void os_thread_lost_by_fork(void) {
}

#endif
