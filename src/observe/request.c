#include "observe/request.h"

#include "heap/collect.h"
#include "heap/sampling.h"
#include "observe/census.h"
#include "observe/sites_text.h"
#include "observe/slab_map.h"
#include "os/os.h"
#include "os/shared_page.h"
#include "os/stack_probe.h"
#include "profile/dump.h"
#include "profile/pinned.h"
#include "profile/sample.h"
#include "profile/snapshot.h"

#include <errno.h>
#include <string.h>

enum request {
    REQUEST_PROFILE = 1,
    REQUEST_PINNED,
    REQUEST_MAP,
    REQUEST_SITES,
    REQUEST_START,
    REQUEST_STOP,
    REQUEST_NOW,
    REQUEST_COLLECT
};

/* Publishes figures for which the kernel is asked what is resident, unlike those of live.c. */
static void publish_measured(void) {
    struct census census;
    census_take(&census, true);
    live_page_publish(&census);
}

static int dump_profile(int fd) {
    struct snapshot *snapshot = snapshot_take(true);
    return snapshot == NULL ? -1 : dump_write(fd, snapshot);
}

/* Writes what a client asks for to the new file `path`: 0, or -1 with errno. */
static int write_file(enum request kind, const char *path) {
    int fd = os_make_private_file(path);
    if (fd < 0) {
        return -1;
    }
    int result = kind == REQUEST_PROFILE  ? dump_profile(fd)
                 : kind == REQUEST_PINNED ? pinned_write(fd)
                 : kind == REQUEST_MAP    ? slab_map_write(fd)
                                          : sites_print_json(fd);
    int saved_errno = errno;
    os_close(fd);
    errno = saved_errno;
    return result;
}

static int answer(enum request kind, uint64_t argument, const char *path) {
    switch (kind) {
    case REQUEST_PROFILE:
    case REQUEST_PINNED:
    case REQUEST_MAP:
    case REQUEST_SITES:
        return write_file(kind, path);
    case REQUEST_START:
        return sampling_begin(argument);
    case REQUEST_STOP:
        profile_stop();
        return 0;
    case REQUEST_NOW:
        publish_measured();
        return 0;
    case REQUEST_COLLECT:
        (void)heap_give_back();
        publish_measured();
        return 0;
    default:
        errno = ENOSYS;
        return -1;
    }
}

/* To answer a request takes some kilobytes of stack, which not every thread or coroutine has: then another
 * thread answers it, later. */
#define STACK_NEEDED_BYTES ((size_t)64 << 10)

bool request_has_room(void) {
    return os_own_stack_has(STACK_NEEDED_BYTES);
}

bool request_answer(struct live_page *page, bool unlocked) {
    uint32_t sequence = atomic_load_explicit(&page->request_sequence, memory_order_acquire);
    /* Copies, because the client may change them meanwhile. */
    uint32_t kind = *(const volatile uint32_t *)&page->request_kind;
    char path[LIVE_PATH_BYTES];
    if (kind == REQUEST_COLLECT && !unlocked) {
        return false;
    }
    memcpy(path, page->request_path, sizeof path);
    path[sizeof path - 1] = '\0';
    page->interval_before = live_page_note_sampling();
    page->done_errno = answer((enum request)kind, page->request_argument, path) == 0 ? 0 : errno;
    (void)live_page_note_sampling();
    atomic_store_explicit(&page->done_sequence, sequence, memory_order_release);
    return true;
}
