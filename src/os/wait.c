#define _GNU_SOURCE
#include "os/wait.h"

#include "os/call.h"
#include "os/thread.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void os_wait(_Atomic uint32_t *word, uint32_t value) {
    os_thread_note_wait(true);
    KEEPING_ERRNO(long, syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0L));
    os_thread_note_wait(false);
}

void os_wake(_Atomic uint32_t *word, unsigned most) {
    KEEPING_ERRNO(long, syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0L));
}
