/* Text to a descriptor, through a small buffer.
 *
 * Promises system calls proper and no allocation, so that it may be used inside malloc, in a signal handler
 * and by threads that are cancelled; that errors are kept until the end, and no signal comes
 * of them. Relies on text and write.
 */
#ifndef HAKMEM_OS_SINK_H
#define HAKMEM_OS_SINK_H

#include "base/text.h"

struct sink {
    int fd;
    int error; /* errno of the first failure, or 0 */
    struct text text;
    char buffer[1024];
};

void sink_begin(struct sink *sink, int fd);
void sink_char(struct sink *sink, char c);
void sink_string(struct sink *sink, const char *s);
void sink_decimal(struct sink *sink, uint64_t value);
void sink_decimal_column(struct sink *sink, uint64_t value, size_t width);
void sink_hex(struct sink *sink, uint64_t value); /* with 0x */
/* "12.3 MiB" */
void sink_bytes(struct sink *sink, uint64_t bytes);
/* Writes what is left. 0, or -1 with errno if anything could not be written. */
int sink_end(struct sink *sink);

#endif
