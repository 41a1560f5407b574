/* What the library's thread does each period, and what others do in passing where there is none.
 *
 * Promises that the thread ends when there is nothing more to give back, and when the program has changed its
 * credentials. Relies on the decay, which starts the thread and calls all of it. */
#ifndef HAKMEM_HEAP_BACKGROUND_H
#define HAKMEM_HEAP_BACKGROUND_H

/* Registers the work with the decay (decay_set_work). Called once, before the first block. */
void background_set_work(void);

#endif
