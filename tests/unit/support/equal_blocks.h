// Many blocks of one size: made, and freed in the order in which they were made.
#ifndef HAKMEM_TESTS_SUPPORT_EQUAL_BLOCKS_H
#define HAKMEM_TESTS_SUPPORT_EQUAL_BLOCKS_H

#include <cstddef>
#include <vector>

#include "hakmem.h"

namespace hakmem_test {

inline std::vector<void *> make_equal_blocks(std::size_t count, std::size_t size) {
    std::vector<void *> blocks(count);
    for (void *&block : blocks) {
        block = hak_malloc(size);
    }
    return blocks;
}

inline void free_blocks(const std::vector<void *> &blocks) {
    for (void *block : blocks) {
        hak_free(block);
    }
}

} // namespace hakmem_test

#endif
