// Faults of the system, as a test switches them on.
#ifndef HAKMEM_TEST_FAULTS_H
#define HAKMEM_TEST_FAULTS_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace hakmem_test {

constexpr long kEveryCall = -1;

inline void switch_faults_off() {
    for (int kind = 0; kind < OS_FAULT_KINDS; kind++) {
        os_fault_set(static_cast<os_fault>(kind), 0, 0);
    }
}

inline void expect_everything_works() {
    for (std::size_t size : kEdges) {
        // To look at every byte of the largest takes most of the time.
        std::vector<void *> blocks(size < kMiB ? 6 : 2);
        for (void *&block : blocks) {
            block = hak_calloc(1, size);
            ASSERT_NE(block, nullptr) << size << ", with faults switched off";
            ASSERT_TRUE(all_zero(block, size)) << size;
        }
        for (void *&block : blocks) {
            block = hak_realloc(block, size + size / 2 + 1);
            ASSERT_NE(block, nullptr) << size << ", with faults switched off";
            hak_free(block);
        }
    }
}

inline std::uint64_t fallbacks() {
    return stats_now().fallbacks;
}

} // namespace hakmem_test

#endif
