/* Whether the calling thread is the only one.
 *
 * What only one thread can see may be changed without locked instructions, each of which takes as long as all
 * else that the return of a block costs. libc's own allocator leaves out its locks by the same sign.
 *
 * Promises to say false as soon as there is another thread: of the program's, as far as libc knows of it; of
 * the library's; and one of which libc does not know (another namespace's libc made it, say), once it has
 * come for a heap of its own. Until then such a thread adds to what the caller changes and takes nothing of
 * it, so that no more than the use of a block can be lost. Relies on libc, os and the table of heaps.
 */
#ifndef HAKMEM_HEAP_ALONE_H
#define HAKMEM_HEAP_ALONE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the calling thread is the only one. The answer is good until the caller makes a thread, which it
 * may do wherever it may start the library's (decay_do). Cost: a few loads. */
bool heap_is_alone(void);
/* Whether it is the only one but for the library's. */
bool heap_is_alone_beside_library_thread(void);

#ifdef __cplusplus
}
#endif
#endif
