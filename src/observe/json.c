#include "observe/json.h"

#include "base/json_char.h"

static void quoted(struct output *out, const char *s) {
    out_char(out, '"');
    for (; *s != '\0'; s++) {
        out_string(out, json_char(*s).text);
    }
    out_char(out, '"');
}

static void begin(struct json *json, const char *name) {
    if (json->needs_comma) {
        out_char(json->out, ',');
    }
    json->needs_comma = true;
    if (name != NULL) { /* one of the library's own words: nothing in it needs escaping */
        out_char(json->out, '"');
        out_string(json->out, name);
        out_string(json->out, "\":");
    }
}

void json_open(struct json *json, const char *name, char bracket) {
    begin(json, name);
    out_char(json->out, bracket);
    json->needs_comma = false;
}

void json_close(struct json *json, char bracket) {
    out_char(json->out, bracket);
    json->needs_comma = true;
}

void json_number(struct json *json, const char *name, uint64_t value) {
    begin(json, name);
    out_decimal(json->out, value);
}

void json_bool(struct json *json, const char *name, bool value) {
    begin(json, name);
    out_string(json->out, value ? "true" : "false");
}

void json_null(struct json *json, const char *name) {
    begin(json, name);
    out_string(json->out, "null");
}

void json_string(struct json *json, const char *name, const char *value) {
    begin(json, name);
    quoted(json->out, value);
}

void json_address(struct json *json, const char *name, uint64_t value) {
    begin(json, name);
    out_char(json->out, '"');
    out_hex(json->out, value);
    out_char(json->out, '"');
}
