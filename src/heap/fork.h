/* Fork.
 *
 * Promises that the child can allocate and free whatever the parent's other threads were just doing, and that
 * a handler of a signal may fork in the midst of malloc where there is one thread. Relies on pthread_atfork,
 * and on each part to take its locks and to put itself right in the child.
 */
#ifndef HAKMEM_HEAP_FORK_H
#define HAKMEM_HEAP_FORK_H

/* Registers the handlers once, however often it is called. Any thread. */
void fork_register_handlers(void);

#endif
