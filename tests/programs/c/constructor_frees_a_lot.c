/* A constructor frees a lot, then main: prints how many threads there were before main, and in it, at most
 * and at last. */
#include "resident.h"

static long threads_before_main;

__attribute__((constructor)) static void free_a_lot(void) {
    for (int i = 0; i < 10; i++) {
        use_and_free(300000, 32 << 20);
        use_and_free(64, 32 << 20);
        sleep_ms(20);
        long threads = threads_now();
        threads_before_main = threads > threads_before_main ? threads : threads_before_main;
    }
}

int main(void) {
    printf("%ld\n", threads_before_main);
    /* From here on there may be one, and it gives back what the constructor left, too. */
    use_and_free(300000, 8 << 20);
    long most = threads_now();
    for (int i = 0; i < PATIENCE_S * 20 && threads_now() > 1; i++)
        sleep_ms(50);
    printf("%ld %ld\n", most, threads_now());
    return 0;
}
