// Blocks with memory behind them that was used and serves nobody.
#ifndef HAKMEM_TEST_SHORTENED_H
#define HAKMEM_TEST_SHORTENED_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "hakmem.h"
#include "support/resident.h"

namespace hakmem_test {

// Fills each place with a block of `had` bytes, all of which were written to, shortened to `bytes`.
inline void make_shortened(PointerArray &blocks, std::size_t had, std::size_t bytes) {
    for (void *&block : blocks) {
        block = hak_malloc(had);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, had);
        block = hak_realloc(block, bytes);
    }
}

} // namespace hakmem_test

#endif
