/* A thread goes on that has read the page-map word of a huge block, after another thread has freed it. In C,
 * because C++ has no _Atomic. */
#include "arena/page_map.h"
#include "heap/large.h"
#include "heap/thread.h"

#include "hakmem.h"

void hakmem_test_free_late(size_t size);
void hakmem_test_resize_late(size_t size);
void hakmem_test_measure_late(size_t size);

static void *freed(size_t size) {
    void *block = hak_malloc(size);
    hak_free(block);
    return block;
}

void hakmem_test_free_late(size_t size) {
    large_free(thread_heap_get(), freed(size), page_word(PAGE_OWNER_HUGE, 0));
}

void hakmem_test_resize_late(size_t size) {
    large_resize(thread_heap_get(), freed(size), 2 * size, page_word(PAGE_OWNER_HUGE, 0));
}

void hakmem_test_measure_late(size_t size) {
    (void)large_usable_size("invalid usable size", freed(size));
}
