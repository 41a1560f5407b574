/* JSON, written as it is made.
 *
 * Promises commas and quotes in the right places; the caller closes what it opens. Relies on output.
 */
#ifndef HAKMEM_OBSERVE_JSON_H
#define HAKMEM_OBSERVE_JSON_H

#include "observe/output.h"

#include <stdbool.h>

struct json {
    struct output *out;
    bool needs_comma;
};

/* In all of these `name` is that of an object's member, and NULL in an array and at the top. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
void json_number(struct json *json, const char *name, uint64_t value);
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);
void json_string(struct json *json, const char *name, const char *value);
/* Writes an address as a string, with 0x: not every reader's numbers are wide enough for it. */
void json_address(struct json *json, const char *name, uint64_t value);

#endif
