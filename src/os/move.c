#define _GNU_SOURCE
#include "os/move.h"

#include "base/bits.h"
#include "os/call.h"
#include "os/os.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* Words written to the target before the kernel may unmap it: no other mapping there begins with them. */
struct marker {
    uintptr_t of, between;
};

COLD static bool still_begins_with(const void *at, struct marker marker) {
    struct marker found;
    uintptr_t place = (uintptr_t)at;
    return os_peek(&found, &place, 1, sizeof found) && found.of == marker.of &&
           found.between == marker.between;
}

/* Moves a range as os_move_pages does, if it is one area of the kernel's; if it is several, OS_NOT_MOVED
 * with errno EFAULT. */
COLD static enum os_move move_area(void *from, void *to, size_t bytes) {
    if (fault_due(OS_FAULT_REMAP)) {
        return OS_NOT_MOVED;
    }
    /* First to a place of the kernel's choice: want of address space, too many mappings and pages of
     * several areas end here, with nothing touched. Given a place, the kernel clears it before it looks. */
    count_call();
    /* The last argument is given though it has no meaning here: kernels look at it, and libc hands on
     * whatever stands in its place. */
    void *between = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (between == MAP_FAILED) {
        return OS_NOT_MOVED;
    }
    struct marker marker = {~(uintptr_t)to, (uintptr_t)between};
    memcpy(to, &marker, sizeof marker);
    count_call();
    if (!fault_due(OS_FAULT_REMAP) &&
        mremap(between, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) {
        return OS_MOVED;
    }
    memcpy(from, between, bytes);
    os_release(between, bytes);
    if (still_begins_with(to, marker)) { /* the kernel looked first, as at the number of mappings */
        return OS_NOT_MOVED;
    }
    void *again = os_map(to, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
    if (again == to) {
        return OS_NOT_MOVED;
    }
    if (again != NULL) {
        os_release(again, bytes); /* an old kernel took the address for a hint */
    }
    return OS_TARGET_LOST;
}

/* Moves a range that may be several areas of the kernel's by halving it until each piece is one area; pieces
 * that cannot be moved are copied. Adds what was moved or copied to `*done`. False if a part of the target is
 * lost: the `*done` bytes before it are at the target. */
COLD static bool move_areas(char *from, char *to, size_t bytes, size_t *done) {
    enum os_move move = move_area(from, to, bytes);
    if (move == OS_NOT_MOVED && errno == EFAULT && bytes > OS_MOVE_GRANULE_BYTES) {
        size_t half = round_up(bytes / 2, OS_MOVE_GRANULE_BYTES);
        return move_areas(from, to, half, done) && move_areas(from + half, to + half, bytes - half, done);
    }
    if (move == OS_TARGET_LOST) {
        return false;
    }
    if (move == OS_NOT_MOVED) {
        memcpy(to, from, bytes);
        if (!os_purge(from, bytes)) {
            memset(from, 0, bytes);
        }
    }
    *done += bytes;
    return true;
}

COLD enum os_move os_move_pages(void *from, void *to, size_t bytes) {
    size_t half = round_up(bytes / 2, OS_MOVE_GRANULE_BYTES);
    enum os_move move = move_area(from, to, bytes);
    if (move != OS_NOT_MOVED || errno != EFAULT || half >= bytes) {
        return move;
    }
    size_t done = 0;
    if (move_areas(from, to, half, &done) &&
        move_areas((char *)from + half, (char *)to + half, bytes - half, &done)) {
        return OS_MOVED;
    }
    memcpy(from, to, done);
    os_purge(to, done); /* the target is not used again */
    return OS_TARGET_LOST;
}
