/* Text to a descriptor, through a small buffer.
 *
 * Promises system calls proper and no allocation, so that it may be used inside malloc, in a signal handler
 * and by threads that are cancelled; that the first error is kept until sink_end, after which nothing is
 * written; and that no signal comes of an error. Relies on text and write.
 */
#ifndef HAKMEM_OS_SINK_H
#define HAKMEM_OS_SINK_H

#include "base/text.h"
#include "os/write.h"

struct sink {
    int fd;
    int error; /* errno of the first failure, or 0 */
    enum patience patience;
    struct text text;
    char buffer[1024];
};

/* With PATIENCE_SOME, which may be changed. */
void sink_begin(struct sink *sink, int fd);
void sink_char(struct sink *sink, char c);
void sink_string(struct sink *sink, const char *s);
void sink_decimal(struct sink *sink, uint64_t value);
void sink_decimal_column(struct sink *sink, uint64_t value, size_t width);
void sink_hex(struct sink *sink, uint64_t value); /* with 0x */
/* A number of bytes with a fitting unit: "12.3 MiB". */
void sink_bytes(struct sink *sink, uint64_t bytes);
/* Writes what the buffer still has. 0, or -1 with errno if any of the text could not be written. */
int sink_end(struct sink *sink);

#endif
