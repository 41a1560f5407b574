#include "os/sink.h"

#include <errno.h>

/* More bytes than any number with its unit takes. */
#define ROOM_FOR_AN_ITEM 48

void sink_begin(struct sink *sink, int fd) {
    sink->fd = fd;
    sink->error = 0;
    sink->patience = PATIENCE_SOME;
    sink->text = TEXT_ON(sink->buffer);
}

static void flush(struct sink *sink) {
    size_t left = sink->text.length;
    if (left > 0 && sink->error == 0) {
        sink->error = os_write_all(sink->fd, sink->buffer, left, sink->patience);
    }
    sink->text.length = 0;
}

static struct text *with_room(struct sink *sink) {
    if (sink->text.capacity - sink->text.length < ROOM_FOR_AN_ITEM) {
        flush(sink);
    }
    return &sink->text;
}

void sink_char(struct sink *sink, char c) {
    text_char(with_room(sink), c);
}

void sink_string(struct sink *sink, const char *s) {
    while (*s != '\0') {
        sink_char(sink, *s++);
    }
}

void sink_decimal(struct sink *sink, uint64_t value) {
    text_decimal(with_room(sink), value);
}

void sink_decimal_column(struct sink *sink, uint64_t value, size_t width) {
    text_decimal_column(with_room(sink), value, width);
}

void sink_hex(struct sink *sink, uint64_t value) {
    text_hex(with_room(sink), value);
}

void sink_bytes(struct sink *sink, uint64_t bytes) {
    text_bytes_column(with_room(sink), bytes, 0);
}

int sink_end(struct sink *sink) {
    flush(sink);
    if (sink->error != 0) {
        errno = sink->error;
        return -1;
    }
    return 0;
}
