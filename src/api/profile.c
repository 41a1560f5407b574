/* Profiles: the entry points. */
#include "hakmem.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "profile/dump.h"
#include "profile/leaks.h"
#include "profile/pinned.h"
#include "profile/sample.h"

int hak_profile_start(size_t interval_bytes) {
    return sampling_begin(interval_bytes);
}

int hak_profile_stop(void) {
    profile_stop();
    return 0;
}

int hak_profile_dump(int fd) {
    struct snapshot *snapshot = snapshot_take(true);
    return snapshot == NULL ? -1 : dump_write(fd, snapshot);
}

int hak_profile_fragmentation(int fd) {
    runtime_start();
    return pinned_write(fd);
}

int hak_profile_leaks(int fd) {
    return leaks_write(fd);
}
