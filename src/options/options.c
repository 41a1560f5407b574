#include "options/options.h"

#include "base/bits.h"
#include "base/text.h"
#include "hakmem.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/report.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Weak, so that a program's own definition wins and none is needed. */
__attribute__((weak, visibility("default"))) const char *hakmem_conf = NULL;

/* Of addresses that a program may have. */
#define POINTER_BITS 56

enum type { TYPE_BOOL, TYPE_SIZE, TYPE_INT, TYPE_STRING, TYPE_CHOICE };

enum source { SOURCE_DEFAULT, SOURCE_PROFILE, SOURCE_CONF, SOURCE_ENVIRONMENT, SOURCE_API };

static const char type_names[][8] = {"bool", "size", "int", "string", "choice"};
static const char source_names[][12] = {"default", "profile", "hakmem_conf", "environment", "api"};

/* What HAKMEM_PROFILE trades: speed keeps memory that may be wanted again, memory gives it back. */
enum { PROFILE_BALANCED, PROFILE_SPEED, PROFILE_MEMORY, PROFILES };
static const char profile_names[PROFILES][12] = {"balanced", "speed", "memory"};

struct profile_value {
    enum option option;
    const char *value[PROFILES]; /* of the balanced one: none, it is the default */
};

static const struct profile_value profile_values[] = {
    {OPTION_RETAIN_MIN, {NULL, "64M", "1M"}},   {OPTION_RETAIN_PERCENT, {NULL, "50", "4"}},
    {OPTION_RETAIN_GRACE, {NULL, "256M", "0"}}, {OPTION_DECAY_MS, {NULL, "5000", "100"}},
    {OPTION_HUGE_PAGES, {NULL, "1", "0"}},      {OPTION_MAGAZINE_BYTES, {NULL, "512K", "128K"}},
};

struct definition {
    const char *name;
    const char *environment;
    const char *fallback;
    const char *description;
    uint64_t most;
    enum type type;
    bool only_at_start;
};

static const struct definition definitions[OPTION_COUNT] = {
    [OPTION_STATS] = {"stats", "HAKMEM_STATS", "0", "print a screen of statistics at exit", 1, TYPE_BOOL,
                      false},
    [OPTION_STATS_FILE] = {"stats_file", "HAKMEM_STATS_FILE", "",
                           "write the statistics at exit to this file (%p: process id) instead of stderr", 0,
                           TYPE_STRING, false},
    [OPTION_STATS_JSON] = {"stats_json", "HAKMEM_STATS_JSON", "0",
                           "write the statistics at exit, as JSON and not as a screen", 1, TYPE_BOOL, false},
    [OPTION_STATS_SIGNAL] = {"stats_signal", "HAKMEM_STATS_SIGNAL", "0",
                             "number of a signal at which the statistics are written (0: none)", 64, TYPE_INT,
                             true},
    [OPTION_LIVE] = {"live", "HAKMEM_LIVE", "1",
                     "publish the statistics in shared memory, for `hakmem top` and `hakmem stats`", 1,
                     TYPE_BOOL, true},
    [OPTION_WRAP_DIAG] = {"wrap_diag", "HAKMEM_WRAP_DIAG", "0",
                          "log each fall-back with its reason to stderr", 1, TYPE_BOOL, false},
    [OPTION_FORCE_LIBC_ALLOC] = {"force_libc_alloc", "HAKMEM_FORCE_LIBC_ALLOC", "0",
                                 "hand every request to libc's allocator", 1, TYPE_BOOL, true},
    [OPTION_DEEPBIND] = {"deepbind", "HAKMEM_DEEPBIND", "0",
                         "leave RTLD_DEEPBIND in calls of dlopen: what is loaded so uses libc's allocator", 1,
                         TYPE_BOOL, false},
    [OPTION_PROFILE] = {"profile", "HAKMEM_PROFILE", "balanced",
                        "what matters most: speed, balanced or memory (the defaults of the settings below)",
                        0, TYPE_CHOICE, true},
    [OPTION_RETAIN_MIN] = {"retain_min", "HAKMEM_RETAIN_MIN", "2816K",
                           "free memory that may stay resident in any case", (uint64_t)1 << 47, TYPE_SIZE,
                           false},
    [OPTION_RETAIN_PERCENT] = {"retain_percent", "HAKMEM_RETAIN_PERCENT", "12",
                               "free memory that may stay resident, in percent of the memory in use", 1000,
                               TYPE_INT, false},
    [OPTION_RETAIN_GRACE] = {"retain_grace", "HAKMEM_RETAIN_GRACE", "128M",
                             "more that may stay while the program keeps coming back for what was given back",
                             (uint64_t)1 << 47, TYPE_SIZE, false},
    [OPTION_DECAY_MS] = {"decay_ms", "HAKMEM_DECAY_MS", "500",
                         "milliseconds after which free memory that was not needed is given back", 3600000,
                         TYPE_INT, false},
    [OPTION_BACKGROUND_THREAD] = {"background_thread", "HAKMEM_BACKGROUND_THREAD", "1",
                                  "let a thread of the library's own give memory back: 0 never, 1 in "
                                  "programs that have threads, 2 always",
                                  2, TYPE_INT, false},
    [OPTION_RECLAIM] = {"reclaim", "HAKMEM_RECLAIM", "1", "take back what threads hold that sleep for long",
                        1, TYPE_BOOL, false},
    [OPTION_HUGE_PAGES] = {"huge_pages", "HAKMEM_HUGE_PAGES", "1",
                           "ask the kernel for huge pages where the program fills its memory", 1, TYPE_BOOL,
                           false},
    [OPTION_MAGAZINE_BYTES] =
        {"magazine_bytes", "HAKMEM_MAGAZINE_BYTES", "384K",
         "most bytes of free blocks that one magazine of a thread may hold (but always 32 blocks, and "
         "four of more than 32K)",
         64 << 20, TYPE_SIZE, true},
    [OPTION_PROF] = {"prof", "HAKMEM_PROF", "0", "sample allocations for heap profiles from the start", 1,
                     TYPE_BOOL, true},
    [OPTION_PROF_INTERVAL] = {"prof_interval", "HAKMEM_PROF_INTERVAL", "0",
                              "bytes between samples, on average (0: 512K, and more from when on samples are "
                              "as many as 4096 a second)",
                              (uint64_t)1 << 40, TYPE_SIZE, false},
    [OPTION_PROF_FILE] = {"prof_file", "HAKMEM_PROF_FILE", "hakmem.%p.%n.heap",
                          "file for a heap profile (%p: process id, %n: counts from 0)", 0, TYPE_STRING,
                          false},
    [OPTION_PROF_AT_EXIT] = {"prof_at_exit", "HAKMEM_PROF_AT_EXIT", "1",
                             "write a heap profile at exit, if prof is set", 1, TYPE_BOOL, false},
    [OPTION_PROF_PEAK] = {"prof_peak", "HAKMEM_PROF_PEAK", "0",
                          "sample from the start, and write a heap profile whenever the memory in use is 5 % "
                          "over its last peak, at most once a second",
                          1, TYPE_BOOL, true},
    [OPTION_PROF_SIGNAL] = {"prof_signal", "HAKMEM_PROF_SIGNAL", "0",
                            "number of a signal at which a heap profile is written (0: none)", 64, TYPE_INT,
                            true},
    [OPTION_PROF_LEAKS] = {"prof_leaks", "HAKMEM_PROF_LEAKS", "0",
                           "sample from the start, and report at exit what is still in use", 1, TYPE_BOOL,
                           true},
    [OPTION_PROF_AGE_MS] =
        {"prof_age_ms", "HAKMEM_PROF_AGE_MS", "0",
         "the fragmentation profile counts blocks that are at least so old, in milliseconds", UINT32_MAX,
         TYPE_INT, false},
};

static struct lock lock; /* protects what follows, except as the accessors say */
static SELDOM char stats_file[OPTION_TEXT_BYTES];
static SELDOM char prof_file[OPTION_TEXT_BYTES];
static enum source sources[OPTION_COUNT];
/* relaxed everywhere: each value stands alone */
static _Atomic uint64_t values[OPTION_COUNT];

static char *text_of(enum option option) {
    return option == OPTION_STATS_FILE ? stats_file : option == OPTION_PROF_FILE ? prof_file : NULL;
}

bool option_bool(enum option option) {
    return option_number(option) != 0;
}

uint64_t option_number(enum option option) {
    return atomic_load_explicit(&values[option], memory_order_relaxed);
}

const char *option_text(enum option option) {
    const char *text = text_of(option);
    return text == NULL ? "" : text[0] == '\0' ? definitions[option].fallback : text;
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

static void append_expectation(struct text *line, const struct definition *d) {
    switch (d->type) {
    case TYPE_BOOL:
        text_string(line, "0 or 1");
        break;
    case TYPE_SIZE:
        text_string(line, "a size such as 65536, 64K or 4M, at most ");
        text_decimal(line, d->most);
        break;
    case TYPE_INT:
        text_string(line, "a whole number from 0 to ");
        text_decimal(line, d->most);
        break;
    case TYPE_CHOICE:
        text_string(line, "balanced, speed or memory");
        break;
    case TYPE_STRING:
        text_string(line, "fewer than ");
        text_decimal(line, OPTION_TEXT_BYTES);
        text_string(line, " characters");
        break;
    }
}

/* One line: where, what, and what to do. `value` is NULL if there is none. */
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

static int find(const char *name, size_t length) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (text_equal(name, length, definitions[i].name)) {
            return i;
        }
    }
    return -1;
}

/* `only` is the one option to be taken from it, or -1 for all but the profile. */
COLD static void read_conf(const char *conf, int only) {
    while (*conf != '\0') {
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

/* A misspelt name must not pass for a setting. */
COLD static void report_if_unknown(const char *name, size_t length) {
    static const char command_name[] = "HAKMEM_LIBRARY"; /* the hakmem command's own */
    bool known = text_equal(name, length, command_name);
    for (int i = 0; i < OPTION_COUNT && !known; i++) {
        known = text_equal(name, length, definitions[i].environment);
    }
    if (!known) {
        report_bad("environment", name, length, NULL, 0, -1);
    }
}

static void read_environment(enum option option) {
    char buffer[OPTION_TEXT_BYTES];
    const char *name = definitions[option].environment;
    const char *value = os_environment(name, buffer, sizeof buffer);
    if (value != NULL && !assign(option, value, strlen(value), SOURCE_ENVIRONMENT)) {
        report_bad("environment", name, strlen(name), value, strlen(value), (int)option);
    }
}

static void apply_profile(void) {
    uint64_t profile = option_number(OPTION_PROFILE);
    for (size_t i = 0; i < sizeof profile_values / sizeof *profile_values; i++) {
        const char *value = profile_values[i].value[profile];
        if (value != NULL) {
            assign(profile_values[i].option, value, strlen(value), SOURCE_PROFILE);
        }
    }
}

/* A program may have something else of that name, or the text itself in the place of a pointer to it. */
static const char *program_conf(void) {
    uintptr_t address = (uintptr_t)hakmem_conf;
    if (address == 0) {
        return "";
    }
    if (address < OS_PAGE_BYTES || address >> POINTER_BITS != 0) {
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
        return; /* as in most processes, which may be short */
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
        text_string(&value, option_text(option));
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
