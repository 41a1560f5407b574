/* What a pointer at which no block begins, into a region or where one was, may once have been: for the line
 * that ends the program.
 *
 * Promises that nothing is read of a region that ends meanwhile. Waits a second at most for the arena's lock,
 * which a thread that a signal has interrupted may hold: then nothing is known. Relies on the arena's lock.
 */
#ifndef HAKMEM_ARENA_STRAY_H
#define HAKMEM_ARENA_STRAY_H

#include <stdbool.h>
#include <stdint.h>

enum stray_kind {
    STRAY_UNKNOWN,
    STRAY_GONE,   /* there is no region any more, or a block began there that was freed */
    STRAY_INSIDE, /* it lies in a block of the large or huge lane */
    STRAY_TAKEN,  /* such a block begins there, and another thread frees or resizes it */
};

struct stray {
    enum stray_kind kind;
    bool huge;       /* where it lies in a block, or one was freed there: of the huge lane */
    uintptr_t block; /* where the one begins that it lies in */
    /* Of the run that was freed there, if it was no huge one: its length, and the size class that blocks in
     * the slab were of, in this run or in one before it. */
    uint8_t run_slabs, size_class;
};

/* No lock of the arena's held. */
struct stray arena_stray(uintptr_t address);

/* Notes that the region of the huge block at `block` ends with it. Arena lock held. */
void stray_note_ended(uintptr_t block);
/* Whether a block began at `address` whose region has ended with it: one of the last few. */
bool stray_has_ended(uintptr_t address);

#endif
