/* Heaps of threads that sleep.
 *
 * Promises that a heap is only taken from a thread that is in a system call, outside the library. Any thread
 * but the owner. Relies on registry and os (asleep.h).
 */
#ifndef HAKMEM_HEAP_RECLAIM_H
#define HAKMEM_HEAP_RECLAIM_H

#include "heap/heap.h"

/* Takes the heap from its thread if that sleeps in a system call, and abandons it: the thread gets another
 * one when it next needs one. Not to be called by the owner. See reclaim.c for why that is safe. */
bool heap_reclaim(struct heap *heap);
/* What makes a heap worth a thread that looks after it: so much its magazines have room for, and may hold
 * when the owner falls asleep; or an id from this one on, which shows that there are many threads. */
#define RECLAIM_WORTH_BYTES ((size_t)512 << 10)
#define RECLAIM_WORTH_ID 8
/* The first thread has such a heap, and there was no other: it may sleep by the time that there is. relaxed
 * everywhere: a hint */
extern INTERNAL _Atomic bool heap_reclaim_asked;
/* Sees that the library's thread is there, in a program with threads. */
void heap_reclaim_request(void);
/* The same for a heap that is worth it; tells what the heap caches, and wakes the thread if that makes it too
 * much for all (cached.h). Owner. */
void heap_reclaim_tell(struct heap *heap);
/* Owner: to be called now and then, for heap_reclaim_tell. */
static inline void heap_reclaim_look(struct heap *heap) {
    if (UNLIKELY(heap->room_bytes > RECLAIM_WORTH_BYTES || heap->id >= RECLAIM_WORTH_ID)) {
        heap_reclaim_tell(heap);
    }
}
/* Background thread: calls heap_reclaim for all heaps whose threads look idle, and cools and trims abandoned
 * ones. False if nothing of that may be left to be done soon. */
bool heap_reclaim_idle(void);
/* Background thread, while all threads cache too much (cached.h): calls heap_reclaim for the heaps that cache
 * something and whose threads have slept for a few calls; whether any was taken. */
bool heap_reclaim_pressed(void);
/* The id of a thread of the program's, other than the first, that has a heap; 0 if none has. */
int heap_some_thread(void);
/* Has heap_reclaim_idle look at all threads anew, also those that it left out because they were awake. */
void heap_reclaim_restart(void);

#endif
