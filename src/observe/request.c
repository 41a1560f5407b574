#include "observe/request.h"

#include "hakmem.h"
#include "observe/census.h"
#include "os/asleep.h"
#include "os/os.h"
#include "os/shared_page.h"
#include "os/stack_probe.h"

#include <errno.h>
#include <string.h>

enum request {
    REQUEST_PROFILE = 1,
    REQUEST_PINNED,
    REQUEST_MAP,
    REQUEST_SITES,
    REQUEST_START,
    REQUEST_STOP,
    REQUEST_NOW
};

static void publish_measured(void) {
    struct census census;
    census_take(&census, true);
    live_page_publish(&census);
}

static int write_file(enum request kind, const char *path) {
    int fd = os_make_private_file(path);
    if (fd < 0) {
        return -1;
    }
    int result = kind == REQUEST_PROFILE  ? hak_profile_dump(fd)
                 : kind == REQUEST_PINNED ? hak_profile_fragmentation(fd)
                 : kind == REQUEST_MAP    ? hak_slab_map_json(fd)
                                          : hak_sites_json(fd);
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
        return hak_profile_start(argument);
    case REQUEST_STOP:
        return hak_profile_stop();
    case REQUEST_NOW:
        publish_measured();
        return 0;
    default:
        errno = ENOSYS;
        return -1;
    }
}

/* What answers a request needs some kilobytes of stack, which not every thread or coroutine has: then another
 * one shall answer, later. Only asked while there is a request. */
#define STACK_NEEDED_BYTES ((size_t)64 << 10)
#define MAIN_STACK_BYTES ((size_t)1 << 20)

bool request_has_room(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t end = os_main_stack_end();
    if (here < end && end - here < MAIN_STACK_BYTES) {
        return true; /* the first thread's, which grows */
    }
    for (size_t below = 0; below < STACK_NEEDED_BYTES; below += OS_PAGE_BYTES) {
        if (!os_readable(here - below)) {
            return false;
        }
    }
    return true;
}

void request_answer(struct live_page *page) {
    uint32_t sequence = atomic_load_explicit(&page->request_sequence, memory_order_acquire);
    char path[LIVE_PATH_BYTES];
    memcpy(path, page->request_path, sizeof path); /* the client may change it under our hands */
    path[sizeof path - 1] = '\0';
    page->done_errno =
        answer((enum request)page->request_kind, page->request_argument, path) == 0 ? 0 : errno;
    atomic_store_explicit(&page->done_sequence, sequence, memory_order_release);
}
