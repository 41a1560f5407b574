// Blocks of all lanes that come and go while memory decays.
#ifndef HAKMEM_TEST_MIXED_POPULATION_H
#define HAKMEM_TEST_MIXED_POPULATION_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"

namespace hakmem_test {

// Blocks of all sizes that know what they must hold. Some are kept much longer than others, so that what
// decays lies between blocks in use.
class MixedPopulation {
  public:
    explicit MixedPopulation(std::uint64_t stream) : random_(stream), blocks_(300) {
    }
    ~MixedPopulation() {
        for (Block &block : blocks_) {
            release(block);
        }
    }
    MixedPopulation(const MixedPopulation &) = delete;
    MixedPopulation &operator=(const MixedPopulation &) = delete;

    // Two thirds of the blocks are freed, some MiB in one go: the rest lives on.
    void shrink() {
        for (Block &block : blocks_) {
            if (!random_.one_in(3)) {
                release(block);
            }
        }
    }

    void grow() {
        for (Block &block : blocks_) {
            if (block.at == nullptr) {
                make(block);
            }
        }
    }

    void check() const {
        for (const Block &block : blocks_) {
            ASSERT_TRUE(block.at == nullptr || pattern_intact(block.at, block.size, block.stamp))
                << block.size << " bytes at " << block.at;
        }
    }

  private:
    struct Block {
        void *at = nullptr;
        std::size_t size = 0;
        std::uint64_t stamp = 0;
    };

    void make(Block &block) {
        block.size = random_.one_in(20) ? kEdges[random_.below(kEdges.size())]
                                        : 1 + random_.log_uniform(random_.one_in(4) ? 19 : 13);
        block.stamp = random_.next();
        const bool zeroed = random_.one_in(3);
        block.at = zeroed ? hak_calloc(1, block.size) : hak_malloc(block.size);
        ASSERT_NE(block.at, nullptr) << block.size;
        ASSERT_TRUE(!zeroed || all_zero(block.at, block.size)) << block.size << " bytes from calloc";
        fill_pattern(block.at, block.size, block.stamp);
    }

    void release(Block &block) {
        if (block.at != nullptr) {
            EXPECT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
            hak_free(block.at);
            block.at = nullptr;
        }
    }

    Random random_;
    std::vector<Block> blocks_;
};

} // namespace hakmem_test

#endif
