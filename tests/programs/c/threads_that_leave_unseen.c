/* Threads whose end libc does not tell the library of: some leave by the system call, others never allocate
 * and free what libc keeps of earlier ones after their last destructor. Prints kB resident. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 1000, BURSTS = 60, AT_ONCE = 16 };

static atomic_int running;

static void *use_and_leave(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 20000; size = size * 2 + 1) {
        void *block = malloc(size);
        REQUIRE(block != NULL);
        memset(block, 1, size);
        free(block);
    }
    syscall(SYS_exit, 0);
    return NULL;
}

static void *do_nothing(void *unused) {
    (void)unused;
    usleep(1000);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&thread, NULL, use_and_leave, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    pthread_attr_t detached;
    REQUIRE(pthread_attr_init(&detached) == 0);
    REQUIRE(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    for (int burst = 0; burst < BURSTS; burst++) {
        atomic_store(&running, AT_ONCE);
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&thread, &detached, do_nothing, NULL) == 0);
        while (atomic_load(&running) > 0)
            usleep(200);
    }
    printf("%ld\n", status_kb("VmRSS:"));
    return 0;
}
