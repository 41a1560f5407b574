/* Runs that a heap keeps: of blocks of the large lane that its owner has freed, and takes again.
 *
 * The arena looks for the best place for a run under its lock, and joins what is freed with what lies around
 * it. A program that frees and takes buffers of the same few lengths needs neither.
 *
 * Promises that only lengths are kept that the owner has taken again before, and only as long as most runs
 * that are kept are of use; that they are a part of the free memory that may stay resident, and go back when
 * nobody has needed them for a while, or with the stocks (stock.h). A run is put and taken by the owner
 * alone, and returned by anyone. Relies on the arena.
 */
#ifndef HAKMEM_HEAP_RUNS_H
#define HAKMEM_HEAP_RUNS_H

#include "heap/heap.h"

/* Owner: keeps the run of a block of the large lane at `block`, which is no longer the program's: its state
 * is SLAB_KEPT. False if the heap has no use for it. */
bool runs_put(struct heap *heap, struct slab *head, uintptr_t block);
/* Owner: takes the run of `slabs` slabs that was put last, and returns the address of its block, whose state
 * is still SLAB_KEPT; 0 if there is none. In its header the caller sets the state, clears `ahead`, and
 * changes the span if need be. */
uintptr_t runs_take(struct heap *heap, unsigned slabs);
/* Any thread, no heap's lock held: gives the run of a block that is SLAB_KEPT to the arena. */
void runs_give_back(struct slab *head, uintptr_t block);
/* Any thread, no heap's lock held: gives all runs that the heap keeps to the arena; returns how many. */
size_t runs_return(struct heap *heap);
/* Any thread, no heap's lock held: calls runs_return if the owner has taken no kept run since the last such
 * look; if it has, sees that runs which are gone do not count as kept any more. */
void runs_return_unused(struct heap *heap);

#endif
