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
/* Owner: the block of the last run of so many slabs that was put, which is SLAB_KEPT still, or 0. Of its
 * header only `ahead` is of another block. */
uintptr_t runs_take(struct heap *heap, unsigned slabs);
/* The run of a block, kept or about to be freed, goes back to the arena. */
void runs_give_back(struct slab *head, uintptr_t block);
/* Any thread, no heap's lock held: returns what the heap keeps; gives the number of runs. */
size_t runs_return(struct heap *heap);
/* The same if its owner has taken none of them since the last such look; or else what is not there any more
 * counts no longer. */
void runs_return_unused(struct heap *heap);

#endif
