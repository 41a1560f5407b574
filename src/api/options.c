#include "options/options.h"

#include "base/bits.h"
#include "hakmem.h"
#include "heap/runtime.h"
#include "os/purge.h"
#include "profile/files.h"

#include <errno.h>

COLD int hak_option_count(void) {
    return OPTION_COUNT;
}

COLD int hak_option_info(int index, hak_option_info_t *out) {
    runtime_start(); /* which reads the options: a program may ask before it allocates its first block */
    bool known = option_info(index, out);
    files_write_if_asked();
    if (!known) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

COLD int hak_option_set(const char *name, const char *value) {
    runtime_start(); /* before the change: the start reads the options, and would undo it */
    int error = option_set(name, value);
    files_write_if_asked();
    if (option_number(OPTION_BACKGROUND_THREAD) == 0) {
        os_purge_forget_look(); /* nobody looks any more */
    }
    if (error != 0) {
        errno = error;
        return -1;
    }
    return 0;
}
