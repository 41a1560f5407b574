/* Allocates in every place before main and after exit: .preinit_array (before any library's
 * constructor), constructors, atexit handlers, quick destructors, and frees across them. */
#include <unistd.h>

#include "churn.h"

static void *from_preinit, *from_constructor, *from_main, *from_atexit;
enum { KEPT = 12345 };

static void *kept_block(size_t tag) {
    void *block = malloc(KEPT);
    REQUIRE(block != NULL);
    fill_pattern(block, KEPT, tag);
    return block;
}

static void drop_kept(void *block, size_t tag) {
    REQUIRE(block != NULL && has_pattern(block, KEPT, tag));
    free(block);
}

static void work(uint32_t seed) {
    churn_run(seed, 2000);
}

static void preinit(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    work(1);
    from_preinit = kept_block(1);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **,
                                                                                    char **) = preinit;

__attribute__((constructor(101))) static void early_constructor(void) {
    work(2);
    from_constructor = kept_block(2);
}

static void at_exit_handler(void) {
    drop_kept(from_main, 3);
    work(4);
    from_atexit = kept_block(4);
}

__attribute__((destructor(101))) static void late_destructor(void) {
    drop_kept(from_constructor, 2);
    drop_kept(from_atexit, 4);
    work(5);
    static const char said[] = "late destructor done\n";
    REQUIRE(write(STDOUT_FILENO, said, sizeof said - 1) == (ssize_t)sizeof said - 1);
}

int main(void) {
    drop_kept(from_preinit, 1);
    work(3);
    from_main = kept_block(3);
    REQUIRE(atexit(at_exit_handler) == 0);
    return 0;
}
