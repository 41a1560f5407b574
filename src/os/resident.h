/* Which pages have memory behind them, and what may be read at all, as the kernel says.
 *
 * Promises to change nothing but errno, and no fault. Relies on mincore, process_vm_readv and /proc.
 */
#ifndef HAKMEM_OS_RESIDENT_H
#define HAKMEM_OS_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Resident bytes of the process as the kernel counts them; 0 if unknown. */
size_t os_resident_bytes(void);

/* Stores a byte for each page from `from` (on a page) on: 1 if it is resident, else 0; 0 for all if any of
 * them is not mapped. False, with 0 for all, if the kernel does not tell. */
bool os_resident_pages(uintptr_t from, size_t pages, unsigned char *out);

/* Copies up to `bytes` from `address`, which may be any number, to `out`, as far as memory can be read;
 * `bytes` reach over at most two pages. Returns how many bytes were copied. */
size_t os_read_own_memory(uintptr_t address, void *out, size_t bytes);

#endif
