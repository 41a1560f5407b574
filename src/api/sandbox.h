/* The library's prctl, under a name that nobody can take: see sandbox.c. */
#ifndef HAKMEM_API_SANDBOX_H
#define HAKMEM_API_SANDBOX_H

/* As prctl. Any thread. */
int sandbox_take(int option, ...);

#endif
