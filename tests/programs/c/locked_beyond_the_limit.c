/* Locks what memory it will have, where the system allows little of that, and asks for more. Prints by how
 * many MiB its data segment has grown for what it did not get. */
#include "check.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From now on the limit concerns the process, whoever runs it. */
static void give_up_the_privilege(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    REQUIRE(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    REQUIRE(syscall(SYS_capset, &header, data) == 0);
}

static const size_t WANTED_BYTES = (size_t)100 << 20;

int main(void) {
    struct rlimit limit = {8 << 20, 8 << 20};
    free(malloc(1));
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    give_up_the_privilege();
    if (mlockall(MCL_FUTURE) != 0) {
        REQUIRE(errno == ENOMEM || errno == EPERM);
        puts("0");
        return 0;
    }
    long before_kb = status_kb("VmData:");
    REQUIRE(malloc(WANTED_BYTES) == NULL && errno == ENOMEM);
    void *block = malloc(1000);
    REQUIRE(block != NULL);
    free(block);
    printf("%ld\n", (status_kb("VmData:") - before_kb) >> 10);
    return 0;
}
