/* How much of a stack may be read.
 *
 * A walk reads upward from where it stands, so an extent grows upward, page by page as it is needed, each
 * page asked of the kernel. The stack that a thread was made with lives as long as the thread: once it is
 * known up to its top, it is asked about no more. Stacks that the program has made (coroutines, signal
 * stacks) may vanish at any time and are asked about in each walk: a system call for every 4 KiB above the
 * first. They may lie right below a thread's, so that only frames tell which stack it is: a thread's own are
 * those that lead to its top.
 *
 * Promises that what lies in an extent can be read without a fault while the walk lasts; no lock, no
 * allocation. Relies on os/stack_probe; where that does not know the end of a thread's stack, there is more
 * to ask.
 */
#ifndef HAKMEM_PROFILE_STACK_EXTENT_H
#define HAKMEM_PROFILE_STACK_EXTENT_H

#include "os/os.h"

#include <stdbool.h>
#include <stdint.h>

struct extent {
    uintptr_t low, high; /* readable from low to below high */
};

/* Makes `e` the page of an address on the stack that the caller runs on, and what is known to
 * be readable above. */
void extent_here(struct extent *e, uintptr_t address);
/* Makes `e` the page of an address on another stack; false if it cannot be read. */
bool extent_elsewhere(struct extent *e, uintptr_t address);
/* Lets the extent grow to `end`; false if what lies between cannot be read. */
bool extent_grow(struct extent *e, uintptr_t end);
/* Whether a walk that has as many frames as it wants, and has led to `reached`, is worth going on with,
 * because it has not come to what is known of the thread's own stack. */
bool extent_wants_more_frames(uintptr_t reached);
/* At the end of a walk that began with extent_here, and whose frames have led to `reached` on the same stack:
 * remembers the extent for the next walks if it is of the thread's own stack. */
void extent_keep(struct extent *e, uintptr_t reached);

/* Reads the word at `address` into `out`; false if it is not aligned or cannot be read. Without sanitizers'
 * checks, which would take it for an access to other functions' variables. */
__attribute__((no_sanitize("address", "thread"))) static inline bool
extent_word(struct extent *e, uintptr_t address, uintptr_t *out) {
    if (address % sizeof *out != 0 || address < e->low) {
        return false;
    }
    if (address >= e->high && !extent_grow(e, address + sizeof *out)) {
        return false;
    }
    *out = *(const uintptr_t *)address;
    return true;
}

#endif
