#define _GNU_SOURCE
#include "arena/arena.h"
#include "heap/bins.h"
#include "heap/flush.h"
#include "heap/parcel.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "heap/slack.h"

#include <signal.h>
#include <sys/mman.h>

unsigned hakmem_test_words_counted_by_a_late_free(size_t was_bytes, size_t is_bytes);
bool hakmem_test_slab_goes_with_a_late_free(size_t size);
bool hakmem_test_late_parcel_goes_back(size_t size);

/* A slab that had blocks of `was_bytes` is one of blocks of `is_bytes` by the time that a thread goes on
 * which had added a block to a word of the bitmap, and not the word's last one: returns how many words it
 * counts as free. */
unsigned hakmem_test_words_counted_by_a_late_free(size_t was_bytes, size_t is_bytes) {
    static _Alignas(CACHE_LINE_BYTES) struct slab slab;
    static _Atomic uint64_t words[128];
    const struct size_class *was = &size_classes[size_class_of(was_bytes)];
    const struct size_class *is = &size_classes[size_class_of(is_bytes)];
    slab_init(&slab, size_class_of(is_bytes), 1, words);
    uint64_t now = size_class_word_mask(is, 0);
    slab_note_put(&slab, was, 0, now & (now - 1), now);
    return atomic_load_explicit(&slab.full_words, memory_order_relaxed);
}

/* All blocks of a full slab come back before the thread that was the first goes on, to see to it that its
 * owner learns of them: returns whether the slab goes back then. */
bool hakmem_test_slab_goes_with_a_late_free(size_t size) {
    void *blocks[1024];
    runtime_start();
    unsigned number = size_class_of(size);
    const struct size_class *c = &size_classes[number];
    struct heap *heap = heap_acquire(NULL, 0, 0);
    if (heap == NULL || c->blocks >= sizeof blocks / sizeof *blocks) {
        return false;
    }
    for (size_t n = 0; n <= c->blocks;) { /* one of another slab, so that the first is full for its owner */
        size_t more = bin_take(heap, number, blocks + n, n < c->blocks ? c->blocks - n : 1);
        if (more == 0) {
            return false;
        }
        n += more;
    }
    struct slab *slab = arena_header((uintptr_t)blocks[0]);
    for (unsigned word = 0; word < c->words; word++) {
        uint64_t twice;
        (void)slab_put(slab, c, word, size_class_word_mask(c, word), false, &twice);
    }
    slack_add(NULL, (int64_t)(c->blocks * c->bytes));
    bin_release_if_free(NULL, slab); /* as the one that was the last has done */
    bool was_there = page_map_get(blocks[0]) != 0;
    bin_queue(NULL, slab);
    bool is_there = page_map_get(blocks[0]) != 0;
    heap_return_blocks(heap, blocks + c->blocks, 1);
    heap_retire_slabs(heap);
    heap_leave(heap);
    heap_abandon(heap, false);
    return was_there && !is_there;
}

/* A heap, and the blocks that are sent to it: to read them faults, once the sender has seen that there is an
 * owner. */
static struct heap *left;
static void **sent;

static void leave_heap_meanwhile(int number) {
    (void)number;
    mprotect(sent, OS_PAGE_BYTES, PROT_READ | PROT_WRITE);
    heap_leave(left);
    heap_abandon(left, false);
}

/* The owner has gone by the time that a parcel is posted: returns whether that was sent and lies there no
 * more. The library's thread is there. */
bool hakmem_test_late_parcel_goes_back(size_t size) {
    struct sigaction action = {.sa_handler = leave_heap_meanwhile}, before;
    size_t n = REMOTE_BLOCKS;
    runtime_start();
    left = heap_acquire(NULL, 0, 0);
    sent = mmap(NULL, OS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (left == NULL || sent == MAP_FAILED) {
        return false;
    }
    n = bin_take(left, size_class_of(size), sent, n);
    mprotect(sent, OS_PAGE_BYTES, PROT_NONE);
    sigaction(SIGSEGV, &action, &before);
    bool was_sent = parcel_send(left, sent, n, n * size);
    sigaction(SIGSEGV, &before, NULL);
    munmap(sent, OS_PAGE_BYTES);
    return was_sent && !parcels_waiting(left);
}
