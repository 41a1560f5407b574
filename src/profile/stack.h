/* The call stack of the calling thread.
 *
 * Promises to allocate nothing, to take no lock, to keep errno, and never to touch memory that it does not
 * know to be readable: callable on every slow path of malloc, in every thread, on a coroutine's stack, in a
 * signal handler, in a thread that begins or ends, while a library is being loaded, and right after fork
 * (nothing needs to be reset there). Where a frame cannot be told, the stack ends early.
 *
 * On x86-64 it relies on the unwind tables that compilers put into every program, found by _dl_find_object,
 * which is free of locks (glibc >= 2.35). Without it, only the program's own tables are found and not those
 * of libraries, since dl_iterate_phdr takes a lock. A program linked -static has tables that can be searched
 * if it is linked with -Wl,--eh-frame-hdr, too. Code without tables, and everything on other machines, is
 * followed by frame pointers. What these lead to may be stale: from there on, the tables of a library that
 * may be unloaded are used only if its code was met before, and it is otherwise followed by frame pointers,
 * too.
 */
#ifndef HAKMEM_PROFILE_STACK_H
#define HAKMEM_PROFILE_STACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes up to `most` return addresses to `frames`, innermost first, and returns how many. Frames of this
 * library are left out, and the innermost `skip` of the others. As in every backtrace, an address is that of
 * the instruction behind the call, whose line is that of the byte before; where a signal interrupted the
 * program, it is one byte behind the beginning of the instruction, because whoever reads a profile takes one
 * off. */
size_t stack_capture(uintptr_t *frames, size_t most, unsigned skip);

#ifdef __cplusplus
}
#endif

#endif
