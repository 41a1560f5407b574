#define _GNU_SOURCE
#include "os/resident.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/reader.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* Not that of the process (/proc/self), which is empty where its first thread has ended. */
#define STATM "/proc/thread-self/statm"

size_t os_resident_bytes(void) {
    struct reader r;
    if (!reader_open(&r, STATM)) {
        return 0;
    }
    size_t fields[2] = {0, 0};
    for (int field = 0; field < 2; field++) {
        int c;
        while ((c = reader_next(&r)) >= '0' && c <= '9') {
            fields[field] = fields[field] * 10 + (size_t)(c - '0');
        }
    }
    os_close(r.fd);
    return fields[1] * OS_PAGE_BYTES;
}

bool os_resident_pages(uintptr_t from, size_t pages, unsigned char *out) {
    if (mincore((void *)from, pages * OS_PAGE_BYTES, out) != 0) {
        memset(out, 0, pages);
        return errno == ENOMEM;
    }
    for (size_t i = 0; i < pages; i++) {
        out[i] &= 1; /* the other bits are reserved */
    }
    return true;
}

COLD size_t os_read_own_memory(uintptr_t address, void *out, size_t bytes) {
    /* A range for each page, since the kernel reads each range wholly or not at all. */
    size_t first = min_size(OS_PAGE_BYTES - address % OS_PAGE_BYTES, bytes);
    struct iovec to = {out, bytes};
    struct iovec from[2] = {{(void *)address, first}, {(void *)(address + first), bytes - first}};
    ssize_t n = process_vm_readv(os_thread_id(), &to, 1, from, bytes > first ? 2 : 1, 0);
    return n < 0 ? 0 : (size_t)n;
}
