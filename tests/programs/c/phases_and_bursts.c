/* THREADS workers in phases that differ in size and amount, with bursts in between; nobody waits for
 * anybody. A sampler compares at random moments. Each worker counts a block before it asks for it and until
 * after it has freed it, so that `live` is never too low; `highest` is the highest while the sampler looks,
 * since reading what is resident takes a while, and `between` the highest since it last looked. */
#include "resident.h"

enum { THREADS = 3, PHASES = 24, SIZES = 8, MOST_BLOCKS = 400000 };
static const size_t sizes[SIZES] = {16, 100, 1000, 3000, 10000, 40000, 300000, 3000000};

extern int hak_size_class_of(size_t) __attribute__((weak));
extern size_t hak_size_class_slab_bytes(int) __attribute__((weak));

/* What a thread may have at hand: for each size a magazine and the run of slabs that is in use; in the mid
 * lane two of these, one of the spaced class and one of the exact class. */
static long cache_kb_of_thread(void) {
    long kb = 0;
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] <= 1 << 16)
            kb += MAGAZINE_KB + (long)hak_size_class_slab_bytes(hak_size_class_of(sizes[i])) / 1024 *
                                    (sizes[i] <= 1024 ? 1 : 2);
    return kb;
}

static _Atomic long live, highest, between;
static atomic_int busy = THREADS;

static void raise_to(_Atomic long *most, long now) {
    long seen = atomic_load(most);
    while (now > seen && !atomic_compare_exchange_weak(most, &seen, now))
        ;
}

static void count(long bytes) {
    long now = atomic_fetch_add(&live, bytes) + bytes;
    raise_to(&highest, now);
    raise_to(&between, now);
}

/* What a block really takes is known from its usable size, that is: with the rounding to its class. */
static void *counted_block(size_t size) {
    long taken = (long)(size + size / 8 + 16);
    count(taken);
    void *block = touched_block(size);
    long usable = (long)malloc_usable_size(block);
    count((size > 1 << 16 ? (long)size : usable) - taken);
    return block;
}

static void counted_free(void *block, size_t size) {
    long usable = size > 1 << 16 ? (long)size : (long)malloc_usable_size(block);
    free(block);
    count(-usable);
}

typedef struct worker {
    uint32_t random;
    void **blocks;
} worker_t;

/* Freed in the order in which they were made, or the other way round: what stays between blocks in use when a
 * program frees every second one is another matter, and no allocator can give it back. */
static void phase(worker_t *w) {
    size_t size = sizes[next_random(&w->random) % SIZES];
    size_t bytes = ((size_t)1 << 20) + next_random(&w->random) % (40u << 20);
    size_t wanted = bytes / size + 1;
    size_t n = wanted < MOST_BLOCKS ? wanted : MOST_BLOCKS;
    int breaths = next_random(&w->random) % 3 == 0 ? 6 : 1;
    for (int breath = 0; breath < breaths; breath++) {
        for (size_t i = 0; i < n; i++)
            w->blocks[i] = counted_block(size);
        sleep_ms(next_random(&w->random) % 4);
        int backwards = next_random(&w->random) % 2 == 0;
        for (size_t i = 0; i < n; i++)
            counted_free(w->blocks[backwards ? n - 1 - i : i], size);
    }
    sleep_ms(next_random(&w->random) % 8 == 0 ? 300 : 2); /* goes idle, now and then */
}

static void *working(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    worker_t w = {(uint32_t)number * 2654435761u + 1, blocks + number * MOST_BLOCKS};
    for (int i = 0; i < PHASES; i++)
        phase(&w);
    atomic_fetch_sub(&busy, 1);
    return NULL;
}

/* Prints at the start: kB resident, kB of caches; for each sample: the time in ms, kB resident, kB live, and
 * kB live at most since the sample before. */
int main(void) {
    memset(blocks, 0, (size_t)THREADS * MOST_BLOCKS * sizeof *blocks);
    static char output[1 << 16];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    uint32_t random = 4711;
    long cache_kb = THREADS * cache_kb_of_thread();
    printf("start %ld %ld\n", resident_kb(), cache_kb);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, working, (void *)i) == 0);
    while (atomic_load(&busy) > 0) {
        sleep_ms(next_random(&random) % 10);
        atomic_store(&highest, 0);
        count(0);
        long resident = resident_kb();
        printf("sample %d %ld %ld %ld\n", milliseconds(), resident, atomic_load(&highest) / 1024,
               atomic_exchange(&between, 0) / 1024);
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    return 0;
}
