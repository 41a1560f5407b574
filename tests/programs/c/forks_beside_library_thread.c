/* A program without threads that breathes, so that the library has its thread, forks in the handler of a
 * signal that comes in the midst of malloc and free ("interrupted"), or while such signals interrupt the wait
 * for the thread, which gives back much ("busy"). The children go on with what the signal has interrupted. */
#include "alarms.h"
#include "children.h"
#include "resident.h"

enum { FORKS = 10, MOST_MS = 40000, LARGE = 80, LARGE_BYTES = 300000, SMALL = 20000, CUT = 600 };
/* What was cut short stays for a round: ends of blocks are given back while they are in use. */
enum { CUT_FROM = LARGE + SMALL, ALL = CUT_FROM + CUT };

static volatile sig_atomic_t forks, is_child, longest_ms;

static void drop(int from, int to) {
    for (int i = from; i < to; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void breathe(uint32_t *random) {
    for (int i = 0; i < LARGE; i++)
        blocks[i] = touched_block(LARGE_BYTES);
    for (int i = LARGE; i < CUT_FROM; i++)
        blocks[i] = touched_block(16 + next_random(random) % 3000);
    drop(CUT_FROM, ALL);
    for (int i = CUT_FROM; i < ALL; i++)
        blocks[i] = realloc(touched_block(125000), 70000);
    drop(0, CUT_FROM);
}

static void fork_timed(void) {
    int begin = milliseconds();
    pid_t child = fork();
    int took_ms = milliseconds() - begin;
    is_child = child == 0;
    if (child > 0) {
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        require_good_end(child);
        forks++;
    }
}

static void on_alarm(int number) {
    static int last_ms;
    (void)number;
    if (!is_child && forks < FORKS && milliseconds() - last_ms > 100 && threads_now() == 2) {
        fork_timed();
        last_ms = milliseconds();
    }
}

static void ignore(int number) {
    (void)number;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    bool interrupted = strcmp(argv[1], "interrupted") == 0;
    uint32_t random = 1;
    breathe(&random); /* what resident.h uses is in memory, and no handler allocates */
    begin_alarms(interrupted ? on_alarm : ignore, interrupted ? 137 : 30);
    for (int begin = milliseconds(); !is_child && forks < FORKS && milliseconds() - begin < MOST_MS;) {
        breathe(&random);
        if (!interrupted && threads_now() == 2)
            fork_timed();
    }
    if (is_child) {
        signal(SIGALRM, SIG_IGN);
        drop(0, ALL);
        use_every_lane(1);
        breathe(&random);
        _Exit(0);
    }
    REQUIRE(forks > 0);
    printf("%d forks, the longest took %d ms\n", (int)forks, (int)longest_ms);
    return 0;
}
