#include "os/credentials.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "os/reader.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Hashes the lines of a thread's status that tell of its credentials, and closes it; `ended` says whether it
 * is a thread that has ended, whose credentials nothing changes any more. */
COLD static uint64_t hash_credentials(struct reader *status, bool *ended) {
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp"};
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    *ended = false;
    while (reader_next(status) >= 0) {
        char line[128];
        struct text text = TEXT_ON(line);
        for (; status->last >= 0 && status->last != '\n'; reader_next(status)) {
            text_char(&text, (char)status->last);
        }
        *ended = *ended || strncmp(line, "State:\tZ", strlen("State:\tZ")) == 0;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            bool counts = text.length > 0 && strncmp(line, lines[i], strlen(lines[i])) == 0;
            for (size_t k = 0; counts && k < text.length; k++) {
                hash = (hash ^ (unsigned char)line[k]) * 1099511628211u;
            }
        }
    }
    os_close(status->fd);
    return hash;
}

COLD uint64_t os_credentials(int witness) {
    static _Atomic uint64_t differs; /* relaxed: each addition gives another number */
    struct reader status;
    bool ended;
    if (!reader_open(&status, "/proc/self/status")) {
        return 0;
    }
    uint64_t hash = hash_credentials(&status, &ended);
    if (ended && reader_open_of_thread(&status, witness, "status")) {
        hash = hash_credentials(&status, &ended);
    }
    return !ended ? hash : atomic_fetch_add_explicit(&differs, 1, memory_order_relaxed);
}
