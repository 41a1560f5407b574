#include "options/options.h"

#include "base/bits.h"
#include "base/text.h"
#include "hakmem.h"
#include "options/definitions.h"
#include "os/environment.h"
#include "os/lock.h"
#include "os/report.h"
#include "os/stack_probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Weak, so that a program's own definition wins and none is needed. */
__attribute__((weak, visibility("default"))) const char *hakmem_conf = NULL;

enum source { SOURCE_DEFAULT, SOURCE_PROFILE, SOURCE_CONF, SOURCE_ENVIRONMENT, SOURCE_API };

static const char type_names[][8] = {"bool", "size", "int", "string", "choice"};
static const char source_names[][12] = {"default", "profile", "hakmem_conf", "environment", "api"};

/* Held by whoever changes an option, but for options_init, and to read `sources`. Values and texts are read
 * without it. */
static struct lock lock;
/* Texts that were set; empty: the default. Plain characters: whoever reads one while it is set may see a
 * mixture of the old text and the new one, which ends within the array, because its last byte is always 0. */
static SELDOM char stats_file[OPTION_TEXT_BYTES];
static SELDOM char prof_file[OPTION_TEXT_BYTES];
static enum source sources[OPTION_COUNT];
/* relaxed everywhere: each value stands alone */
static _Atomic uint64_t values[OPTION_COUNT];

/* The array of an option that is a text; NULL of any other. */
static char *text_of(enum option option) {
    return option == OPTION_STATS_FILE ? stats_file : option == OPTION_PROF_FILE ? prof_file : NULL;
}

bool option_bool(enum option option) {
    return option_number(option) != 0;
}

uint64_t option_number(enum option option) {
    return atomic_load_explicit(&values[option], memory_order_relaxed);
}

/* Under the lock, but for whether there is one. */
static const char *text_now(enum option option) {
    const char *text = text_of(option);
    return text == NULL ? "" : text[0] == '\0' ? definitions[option].fallback : text;
}

bool option_has_text(enum option option) {
    return text_now(option)[0] != '\0';
}

COLD const char *option_begin_text(enum option option, bool may_wait) {
    if (may_wait) {
        lock_acquire(&lock);
    } else if (!lock_try(&lock)) {
        return NULL;
    }
    return text_now(option);
}

COLD void option_end_text(void) {
    lock_release(&lock);
}

const char *option_name(enum option option) {
    return definitions[option].name;
}

const char *option_environment(enum option option) {
    return definitions[option].environment;
}

NOINLINE bool option_differs(enum option option, char *value, size_t capacity) {
    const struct definition *d = &definitions[option];
    uint64_t number = option_number(option);
    uint64_t usual = 0;
    struct text text = {.buffer = value, .capacity = capacity, .length = 0};
    value[0] = '\0';
    if (d->type == TYPE_STRING) {
        return false;
    }
    if (d->type == TYPE_CHOICE) {
        text_string(&text, profile_names[number]);
        return !text_equal(value, text.length, d->fallback);
    }
    text_decimal(&text, number);
    return !parse_size(d->fallback, strlen(d->fallback), &usual) || number != usual;
}

/* Sets an option to the value that the `length` bytes at `s` say; false, and it is as it was, if they are no
 * value for it. The caller holds the lock, or is options_init. */
static bool assign(enum option option, const char *s, size_t length, enum source source) {
    const struct definition *d = &definitions[option];
    uint64_t number = 0;
    bool flag = false;
    switch (d->type) {
    case TYPE_BOOL:
        if (!parse_bool(s, length, &flag)) {
            return false;
        }
        number = flag;
        break;
    case TYPE_SIZE:
        if (!parse_size(s, length, &number) || number > d->most) {
            return false;
        }
        break;
    case TYPE_INT:
        if (length == 0 || s[length - 1] < '0' || s[length - 1] > '9' || !parse_size(s, length, &number) ||
            number > d->most) {
            return false;
        }
        break;
    case TYPE_CHOICE:
        while (!text_equal(s, length, profile_names[number])) {
            if (++number == PROFILES) {
                return false;
            }
        }
        break;
    case TYPE_STRING:
        if (length >= OPTION_TEXT_BYTES) {
            return false;
        }
        if (source != SOURCE_DEFAULT) { /* empty is the default: nothing needs to be touched */
            memcpy(text_of(option), s, length);
            text_of(option)[length] = '\0';
        }
        break;
    }
    atomic_store_explicit(&values[option], number, memory_order_relaxed);
    sources[option] = source;
    if (option == OPTION_WRAP_DIAG) {
        report_enable_diagnosis(flag);
    }
    return true;
}

/* Appends a size with the largest unit that leaves a whole number: "4M". */
static void append_size(struct text *line, uint64_t bytes) {
    static const char units[] = "KMGT";
    char unit = '\0';
    for (size_t i = 0; bytes % 1024 == 0 && i < sizeof units - 1; i++) {
        bytes /= 1024;
        unit = units[i];
    }
    text_decimal(line, bytes);
    if (unit != '\0') {
        text_char(line, unit);
    }
}

static void append_expectation(struct text *line, const struct definition *d) {
    switch (d->type) {
    case TYPE_BOOL:
        text_string(line, "0 or 1");
        break;
    case TYPE_SIZE:
        text_string(line, "a size such as 65536, 64K or 4M, at most ");
        append_size(line, d->most);
        break;
    case TYPE_INT:
        text_string(line, "a whole number from 0 to ");
        text_decimal(line, d->most);
        break;
    case TYPE_CHOICE:
        text_string(line, "balanced, speed or memory (heap profiles: ");
        text_string(line, definitions[OPTION_PROF].environment);
        text_string(line, "=1)");
        break;
    case TYPE_STRING:
        text_string(line, "fewer than ");
        text_decimal(line, OPTION_TEXT_BYTES);
        text_string(line, " characters");
        break;
    }
}

/* Reports in one line that what stands in `where` is wrong: `value` (NULL if there is none) for the
 * option with the index `option`, or, if that is -1, a `name` that no option has. Both texts have a
 * length, and no end. */
static COLD void report_bad(const char *where, const char *name, size_t name_length, const char *value,
                            size_t length, int option) {
    char buffer[384];
    struct text line = TEXT_ON(buffer);
    text_string(&line, where);
    text_string(&line, ": ");
    for (size_t i = 0; i < min_size(name_length, 64); i++) {
        text_char(&line, name[i]);
    }
    if (value != NULL) {
        text_string(&line, "=");
        for (size_t i = 0; i < min_size(length, 128); i++) {
            text_char(&line, value[i]);
        }
    }
    if (option < 0) {
        text_string(&line, ": no such option; `hakmem options` lists them");
    } else {
        text_string(&line, ": expected ");
        append_expectation(&line, &definitions[option]);
        text_string(&line, "; ignored");
    }
    report_line(buffer);
}

/* The index of the option called `name`, of `length` bytes; -1 if there is none. */
static int find(const char *name, size_t length) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (text_equal(name, length, definitions[i].name)) {
            return i;
        }
    }
    return -1;
}

/* Sets options as `conf` says, "name=value,name=value", and reports what is wrong in it. `only` is the one
 * option to be set, or -1 for all but the profile. */
COLD static void read_conf(const char *conf, int only) {
    while (*conf != '\0') {
        conf += strspn(conf, " ");
        size_t length = strcspn(conf, ",");
        const char *equals = memchr(conf, '=', length);
        size_t name_length = equals == NULL ? length : (size_t)(equals - conf);
        int option = find(conf, name_length);
        const char *value = equals == NULL ? NULL : equals + 1;
        size_t value_length = equals == NULL ? 0 : length - name_length - 1;
        bool empty = length == 0; /* a comma at the end is nobody's mistake */
        bool mine = only < 0 ? option != OPTION_PROFILE : option == only;
        if (!empty && mine &&
            (option < 0 || value == NULL || !assign((enum option)option, value, value_length, SOURCE_CONF))) {
            report_bad("hakmem_conf", conf, name_length, value, value_length, option);
        }
        conf += length;
        conf += *conf == ',';
    }
}

/* Whether `name`, of `length` bytes, is `other`. To the letter, because variables of the environment
 * are looked up so. */
static bool is_named(const char *name, size_t length, const char *other) {
    return strlen(other) == length && memcmp(name, other, length) == 0;
}

/* Reports a variable of the environment whose name begins as ours do, but is misspelt: its user believes
 * it to be in force. */
COLD static void report_if_unknown(const char *name, size_t length) {
    static const char command_name[] = "HAKMEM_LIBRARY"; /* the hakmem command's own */
    bool known = is_named(name, length, command_name);
    for (int i = 0; i < OPTION_COUNT && !known; i++) {
        known = is_named(name, length, definitions[i].environment);
    }
    if (!known) {
        report_bad("environment", name, length, NULL, 0, -1);
    }
}

static void read_environment(enum option option) {
    char buffer[OPTION_TEXT_BYTES + 1]; /* so that what is too long does not pass for shorter */
    const char *name = definitions[option].environment;
    const char *value = os_environment(name, buffer, sizeof buffer);
    if (value != NULL && !assign(option, value, strlen(value), SOURCE_ENVIRONMENT)) {
        report_bad("environment", name, strlen(name), value, strlen(value), (int)option);
    }
}

static void apply_profile(void) {
    uint64_t profile = option_number(OPTION_PROFILE);
    for (size_t i = 0; i < PROFILE_VALUES; i++) {
        const char *value = profile_values[i].value[profile];
        if (value != NULL) {
            assign(profile_values[i].option, value, strlen(value), SOURCE_PROFILE);
        }
    }
}

/* The program's `hakmem_conf`; "" if it has none, or if what it calls so points nowhere: it may be
 * something else, or the text itself instead of a pointer to it. */
static const char *program_conf(void) {
    uintptr_t address = (uintptr_t)hakmem_conf;
    if (address == 0) {
        return "";
    }
    if (!os_readable(address)) {
        report_line("hakmem_conf is no `const char *`; ignored");
        return "";
    }
    return hakmem_conf;
}

static bool environment_has_any;

static void note_any(const char *name, size_t length) {
    (void)name;
    (void)length;
    environment_has_any = true;
}

void options_init(void) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        assign((enum option)i, definitions[i].fallback, strlen(definitions[i].fallback), SOURCE_DEFAULT);
    }
    const char *conf = program_conf();
    bool known = os_visit_environment("HAKMEM_", note_any);
    if (known && *conf == '\0' && !environment_has_any) {
        return; /* nothing is set, as in most processes: they may be short, so this is to cost little */
    }
    read_conf(conf, OPTION_PROFILE);
    read_environment(OPTION_PROFILE);
    apply_profile();
    read_conf(conf, -1);
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (i != OPTION_PROFILE) {
            read_environment((enum option)i);
        }
    }
    os_visit_environment("HAKMEM_", report_if_unknown);
}

void options_lock_for_fork(void) {
    lock_acquire(&lock);
}

void options_unlock_after_fork(bool child) {
    lock_end_fork(&lock, child);
}

COLD bool option_info(int index, struct hak_option_info *out) {
    if (index < 0 || index >= OPTION_COUNT || out == NULL) {
        return false;
    }
    const struct definition *d = &definitions[index];
    enum option option = (enum option)index;
    lock_acquire(&lock);
    out->name = d->name;
    out->environment = d->environment;
    out->type = type_names[d->type];
    out->default_value = d->fallback;
    out->description = d->description;
    out->source = source_names[sources[index]];
    struct text value = TEXT_ON(out->value);
    out->value[0] = '\0';
    if (d->type == TYPE_STRING) {
        text_string(&value, text_now(option));
    } else if (d->type == TYPE_CHOICE) {
        text_string(&value, profile_names[option_number(option)]);
    } else {
        text_decimal(&value, option_number(option));
    }
    lock_release(&lock);
    return true;
}

COLD int option_set(const char *name, const char *value) {
    int option = name == NULL ? -1 : find(name, strlen(name));
    if (option < 0) {
        return ENOENT;
    }
    if (definitions[option].only_at_start) {
        return EPERM;
    }
    lock_acquire(&lock);
    bool done = value != NULL && assign((enum option)option, value, strlen(value), SOURCE_API);
    lock_release(&lock);
    return done ? 0 : EINVAL;
}

COLD bool option_is_chosen(enum option option) {
    lock_acquire(&lock);
    bool chosen = sources[option] != SOURCE_DEFAULT;
    lock_release(&lock);
    return chosen;
}

COLD void option_reset(enum option option) {
    const char *fallback = definitions[option].fallback;
    lock_acquire(&lock);
    assign(option, fallback, strlen(fallback), SOURCE_DEFAULT);
    lock_release(&lock);
}
