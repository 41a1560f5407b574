/* A program that limits its address space itself, or locks it, while it holds blocks: what the library had
 * reserved for speed is there for the program then. The argument says how; prints MiB obtained. */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 20000, PIECES = 4096 };

static const size_t LIMIT_BYTES = (size_t)2 << 30;

static char *early[BLOCKS], *late[BLOCKS];

static size_t size_of(int i) {
    return i % 1000 == 0 ? 300000 : 1 + (size_t)i % 3000;
}

static void take_blocks(char **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        REQUIRE(blocks[i] != NULL);
        fill_pattern(blocks[i], size_of(i), (size_t)i);
    }
}

static void check_and_free_blocks(char **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE(has_pattern(blocks[i], size_of(i), (size_t)i));
        REQUIRE(malloc_usable_size(blocks[i]) >= size_of(i));
        blocks[i] = i % 3 == 0 ? realloc(blocks[i], size_of(i) * 2) : blocks[i];
        free(blocks[i]);
    }
    free(NULL);
}

static void limit(const char *how) {
    struct rlimit limit = {.rlim_cur = LIMIT_BYTES, .rlim_max = RLIM_INFINITY};
    if (strcmp(how, "setrlimit") == 0)
        REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    else if (strcmp(how, "prlimit") == 0)
        REQUIRE(prlimit(getpid(), RLIMIT_AS, &limit, NULL) == 0);
    else if (strcmp(how, "system_call") == 0) /* as another process may do to this one */
        REQUIRE(syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL) == 0);
    else
        REQUIRE(strcmp(how, "mlockall") == 0 &&
                (mlockall(MCL_CURRENT) == 0 || errno == ENOMEM)); /* a limit */
}

static void *use(void *unused) {
    (void)unused;
    take_blocks(late);
    check_and_free_blocks(late);
    return NULL;
}

static void use_from_a_thread(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, use, NULL) == 0); /* its stack needs address space, too */
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* Until there is no more, or in a process without a limit so much. */
static size_t take_pieces(void) {
    static void *pieces[PIECES];
    size_t n = 0;
    while (n < PIECES && (pieces[n] = malloc(1000000)) != NULL)
        n++;
    REQUIRE(n == PIECES || errno == ENOMEM);
    size_t obtained = n;
    while (n > 0)
        free(pieces[--n]);
    return obtained * 1000000 >> 20;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    take_blocks(early);
    limit(argv[1]);
    if (strcmp(argv[1], "system_call") != 0)
        use_from_a_thread();
    check_and_free_blocks(early);
    size_t obtained = take_pieces();
    use_from_a_thread();
    REQUIRE(status_kb("VmPTE:") < 4096);
    printf("%zu\n", obtained);
    return 0;
}
