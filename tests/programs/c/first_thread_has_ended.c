/* The first thread ends by pthread_exit and the others go on: /proc/self is that of a thread which is no
 * more. Blocks of libc's are recognised, figures are right, what a sleeping thread caches goes, and the
 * library's own thread follows where the program gives up rights. */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../../include/hakmem.h"
#include "library.h"

#define PATIENCE_MS 30000
#define LOOK_MS 20

extern void *__libc_malloc(size_t size);

static pthread_t first;
static void (*stats_get)(hak_stats_t *out);

static void *sleep_on_a_cache(void *unused) {
    void *blocks[3000];
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        REQUIRE((blocks[i] = malloc(1000)) != NULL);
        fill_pattern(blocks[i], 1000, i);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
    sleep(1000);
    return unused;
}

/* Much that is free for a moment, so that the library's thread is there. */
static void leave_something_to_do(void) {
    void *blocks[400];
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        REQUIRE((blocks[i] = malloc(50000)) != NULL);
        fill_pattern(blocks[i], 50000, i);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
}

static bool something_was_taken_back(void) {
    hak_stats_t stats;
    stats_get(&stats);
    return stats.heaps_reclaimed > 0;
}

/* Whether there is a thread of the library's, with the line `wanted` in its status if that is not NULL. */
static bool library_thread_has(const char *wanted) {
    DIR *threads = opendir("/proc/self/task");
    REQUIRE(threads != NULL);
    bool found = false;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        char line[256];
        bool own = false;
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            own = own || strcmp(line, "Name:\thakmem\n") == 0;
            found = found || (own && (wanted == NULL || strcmp(line, wanted) == 0));
        }
        if (status != NULL)
            fclose(status);
    }
    closedir(threads);
    return found;
}

static bool library_thread_is_there(void) {
    return library_thread_has(NULL);
}

static bool library_thread_is_restricted(void) {
    return library_thread_has("NoNewPrivs:\t1\n");
}

/* Does `meanwhile`, if it is not NULL, between two looks. */
static void wait_for(const char *what, bool (*is_so)(void), void (*meanwhile)(void)) {
    for (int waited = 0; !is_so(); waited += LOOK_MS) {
        if (waited >= PATIENCE_MS) {
            fprintf(stderr, "not after %d ms: %s\n", PATIENCE_MS, what);
            exit(1);
        }
        if (meanwhile != NULL)
            meanwhile();
        usleep(LOOK_MS * 1000);
    }
}

static void *have_the_library_start_its_thread(void *unused) {
    wait_for("the library's thread is there", library_thread_is_there, leave_something_to_do);
    return unused;
}

static void *go_on(void *libc_block) {
    REQUIRE(pthread_join(first, NULL) == 0);
    REQUIRE(malloc_usable_size(libc_block) >= 100);
    free(libc_block);

    hak_stats_t stats;
    stats_get(&stats);
    REQUIRE(stats.resident_bytes > 0);

    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, sleep_on_a_cache, NULL) == 0);
    REQUIRE(pthread_create(&other, NULL, have_the_library_start_its_thread, NULL) == 0);
    REQUIRE(pthread_join(other, NULL) == 0);
    wait_for("what a sleeping thread caches is taken back", something_was_taken_back, NULL);

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    wait_for("the library's thread has no more rights than the program", library_thread_is_restricted,
             leave_something_to_do);
    puts("all the same");
    exit(0);
}

int main(void) {
    stats_get = (void (*)(hak_stats_t *))library_function("hak_stats_get");
    first = pthread_self();
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, go_on, __libc_malloc(100)) == 0);
    pthread_exit(NULL);
}
