#include "slab/slab.h"

unsigned hakmem_test_words_counted_by_a_late_free(size_t was_bytes, size_t is_bytes);

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
