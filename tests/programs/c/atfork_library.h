/* atfork_library.h: a library whose atfork handlers allocate, as those of real libraries do. */
#ifndef ATFORK_LIBRARY_H
#define ATFORK_LIBRARY_H

/* From now on a thread of the library's own allocates until the next fork, before which its handler
 * stops and awaits it. */
void atfork_library_start_worker(void);

/* How many handlers ran in this process and its ancestors. */
int atfork_library_handlers_run(void);

#endif
