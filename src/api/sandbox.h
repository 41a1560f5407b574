/* The library's prctl and syscall, under names that nobody can take: see sandbox.c.
 *
 * Promises what libc's do, and that the library knows of a filter before it is there. Relies on os/purge and
 * the decay.
 */
#ifndef HAKMEM_API_SANDBOX_H
#define HAKMEM_API_SANDBOX_H

/* Whether they stand in front of libc's. On these machines a function that takes numbers is called in the
 * same way, whether it says how many or not. */
#if defined HAKMEM_SHARED && (defined __x86_64__ || defined __aarch64__)
#define SANDBOX_GIVES_NOTICE 1
#else
#define SANDBOX_GIVES_NOTICE 0
#endif

/* As libc's. Any thread, and signal handlers. */
int sandbox_prctl(int option, long a, long b, long c, long d);
long sandbox_syscall(long number, long a, long b, long c, long d, long e, long f);

#endif
