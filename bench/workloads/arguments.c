#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench_settings bench = {.seed = 1};

static const struct bench_workload *workload;

enum { COMPLAINT = 1024 };

/* The lock is kept: the process ends, and no second thread gets to say anything. One call for the whole line:
 * a forked child may be complaining, too. */
static void complain(const char *format, va_list arguments) {
    char line[COMPLAINT];
    flockfile(stderr);
    int begun = snprintf(line, sizeof line / 2, "%s: ", bench.name);
    vsnprintf(line + begun, sizeof line - (size_t)begun, format, arguments);
    fprintf(stderr, "%s\n", line);
}

void bench_bad_argument(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    _exit(2);
}

void bench_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    _exit(1);
}

static uint64_t verify_asked, damage_asked;

static const struct bench_option common_options[] = {
    {.name = "seed",
     .kind = BENCH_COUNT,
     .value = &bench.seed,
     .most = UINT64_MAX,
     .help = "what the random numbers follow from"},
    {.name = "verify",
     .kind = BENCH_FLAG,
     .value = &verify_asked,
     .help = "fill every block and check it when it is freed (slower; ends with 1 on damage)"},
    {.name = "plant-damage", .kind = BENCH_FLAG, .value = &damage_asked},
};

static void print_value(const struct bench_option *option) {
    uint64_t value = *option->value;
    if (option->kind == BENCH_CHOICE) {
        printf("%s", option->choices[value]);
    } else if (option->kind == BENCH_COUNT || value == 0 || value % BENCH_KIB != 0) {
        printf("%" PRIu64, value);
    } else if (value % BENCH_GIB == 0) {
        printf("%" PRIu64 "G", value / BENCH_GIB);
    } else if (value % BENCH_MIB == 0) {
        printf("%" PRIu64 "M", value / BENCH_MIB);
    } else {
        printf("%" PRIu64 "K", value / BENCH_KIB);
    }
}

static void print_option(const struct bench_option *option) {
    static const char *const placeholders[] = {
        [BENCH_COUNT] = "N", [BENCH_BYTES] = "BYTES", [BENCH_CHOICE] = "WORD", [BENCH_FLAG] = ""};
    if (option->help == NULL) {
        return;
    }
    printf("  --%-16s %-6s %s", option->name, placeholders[option->kind], option->help);
    if (option->kind == BENCH_CHOICE) {
        for (size_t i = 0; option->choices[i] != NULL; i++) {
            printf("%s%s", i == 0 ? ": " : ", ", option->choices[i]);
        }
    }
    if (option->kind != BENCH_FLAG) {
        printf(" (default ");
        print_value(option);
        putchar(')');
    }
    putchar('\n');
}

static _Noreturn void print_help(void) {
    printf("Usage: %s [--option value]...\n\n%s\n\n", workload->name, workload->stands_for);
    for (size_t i = 0; i < workload->option_count; i++) {
        print_option(&workload->options[i]);
    }
    for (size_t i = 0; i < BENCH_COUNT_OF(common_options); i++) {
        print_option(&common_options[i]);
    }
    printf("  --%-16s %-6s print this\n\n", "help", "");
    printf(
        "BYTES may end in K, M or G. Of an option given twice, the last counts. One JSON line comes out.\n");
    exit(0);
}

static const struct bench_option *find_option(const char *name, size_t length) {
    for (size_t i = 0; i < workload->option_count + BENCH_COUNT_OF(common_options); i++) {
        const struct bench_option *option =
            i < workload->option_count ? &workload->options[i] : &common_options[i - workload->option_count];
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            return option;
        }
    }
    return NULL;
}

static unsigned suffix_shift(char suffix) {
    switch (suffix) {
    case 'K':
        return 10;
    case 'M':
        return 20;
    case 'G':
        return 30;
    default:
        return 0;
    }
}

static void set_number(const struct bench_option *option, const char *text) {
    const char *wanted = option->kind == BENCH_BYTES ? "bytes, as in 4096 or 64K" : "a whole number";
    char *end = NULL;
    errno = 0;
    uint64_t value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (end == NULL || errno != 0) {
        bench_bad_argument("--%s %s: give %s", option->name, text, wanted);
    }
    unsigned shift = option->kind == BENCH_BYTES ? suffix_shift(*end) : 0;
    if (shift != 0) {
        end++;
    }
    if (*end != '\0' || value > UINT64_MAX >> shift) {
        bench_bad_argument("--%s %s: give %s", option->name, text, wanted);
    }
    value <<= shift;
    if (value < option->least || value > option->most) {
        bench_bad_argument("--%s %s: give from %" PRIu64 " to %" PRIu64, option->name, text, option->least,
                           option->most);
    }
    *option->value = value;
}

static void set_choice(const struct bench_option *option, const char *text) {
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *option->value = i;
            return;
        }
    }
    bench_bad_argument("--%s %s: unknown; --help lists the choices", option->name, text);
}

static void read_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strncmp(name, "--", 2) != 0) {
            bench_bad_argument("%s: not an option; --help lists them", name);
        }
        name += 2;
        if (strcmp(name, "help") == 0) {
            print_help();
        }
        const char *equals = strchr(name, '=');
        size_t length = equals == NULL ? strlen(name) : (size_t)(equals - name);
        const struct bench_option *option = find_option(name, length);
        if (option == NULL) {
            bench_bad_argument("--%.*s: no such option; --help lists them", (int)length, name);
        }
        if (option->kind == BENCH_FLAG) {
            if (equals != NULL) {
                bench_bad_argument("--%s takes no value", option->name);
            }
            *option->value = 1;
            continue;
        }
        const char *text = equals != NULL ? equals + 1 : argv[++i];
        if (text == NULL) {
            bench_bad_argument("--%s: its value is missing", option->name);
        }
        if (option->kind == BENCH_CHOICE) {
            set_choice(option, text);
        } else {
            set_number(option, text);
        }
    }
}

void bench_start(const struct bench_workload *its_workload, int argc, char **argv) {
    /* stdio would otherwise take its buffer from the heap that is measured. */
    static char output[1 << 12];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    workload = its_workload;
    bench.name = workload->name;
    read_arguments(argc, argv);
    bench.verify = verify_asked != 0;
    bench.plant_damage = damage_asked != 0;
    if (bench.plant_damage && !bench.verify) {
        bench_bad_argument("--plant-damage: only --verify would see it; give both");
    }
}
