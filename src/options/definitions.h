/* What the options are: names, kinds, default values, and what each profile makes of them.
 *
 * Promises nothing but constants. For options.c. Relies on nothing.
 */
#ifndef HAKMEM_OPTIONS_DEFINITIONS_H
#define HAKMEM_OPTIONS_DEFINITIONS_H

#include "base/bits.h"
#include "options/options.h"

#include <stdbool.h>
#include <stdint.h>

enum type { TYPE_BOOL, TYPE_SIZE, TYPE_INT, TYPE_STRING, TYPE_CHOICE };

struct definition {
    const char *name;
    const char *environment; /* name of the environment variable */
    const char *fallback;    /* the default, as one would write it */
    const char *description;
    uint64_t most; /* the largest value of a number */
    enum type type;
    bool only_at_start; /* hak_option_set refuses to change it */
};

extern INTERNAL const struct definition definitions[OPTION_COUNT];

/* What HAKMEM_PROFILE trades: speed keeps memory that may be wanted again, memory gives it back. */
enum { PROFILE_BALANCED, PROFILE_SPEED, PROFILE_MEMORY, PROFILES };
extern INTERNAL const char profile_names[PROFILES][12];

/* What each profile makes of an option; NULL leaves the option's default, as the balanced
 * profile always does. */
struct profile_value {
    enum option option;
    const char *value[PROFILES];
};

#define PROFILE_VALUES 6
extern INTERNAL const struct profile_value profile_values[PROFILE_VALUES];

#endif
