#include "profile/sample.h"

void hakmem_test_sample_stacks(size_t count, size_t depth);
uint64_t hakmem_test_profile_bytes(void);
bool hakmem_test_keep_without_a_stack(bool keep);

#define BLOCK_BYTES 64

/* Samples `count` blocks, each from a call stack of its own, which are freed at once. All stacks have the
 * same innermost frame. */
void hakmem_test_sample_stacks(size_t count, size_t depth) {
    uintptr_t frames[FRAMES_MOST] = {BLOCK_BYTES};
    /* relaxed: one thread */
    uint64_t run = atomic_load_explicit(&profile_switch.run, memory_order_relaxed);
    for (size_t i = 1; i <= count; i++) {
        frames[depth - 1] = i;
        const struct sample sample = {.address = i * BLOCK_BYTES,
                                      .size = BLOCK_BYTES,
                                      .chosen = BLOCK_BYTES,
                                      .frames = frames,
                                      .depth = depth};
        profile_add(&sample, run);
        profile_remove(i * BLOCK_BYTES);
    }
}

/* Samples a block of which no frame is known; if not `keep`, it is freed. Whether that could be done. */
bool hakmem_test_keep_without_a_stack(bool keep) {
    /* relaxed: one thread */
    uint64_t run = atomic_load_explicit(&profile_switch.run, memory_order_relaxed);
    if (!keep) {
        profile_remove(BLOCK_BYTES);
        return true;
    }
    const uintptr_t no_frame = 0;
    const struct sample sample = {
        .address = BLOCK_BYTES, .size = BLOCK_BYTES, .chosen = BLOCK_BYTES, .frames = &no_frame};
    return profile_add(&sample, run);
}

/* What the profile's own tables take. */
uint64_t hakmem_test_profile_bytes(void) {
    struct profile_costs costs;
    profile_costs(&costs);
    return costs.table_bytes;
}
