// Small blocks that a program builds, and drops in random parts and order, again and again.
#ifndef HAKMEM_TEST_POPULATION_H
#define HAKMEM_TEST_POPULATION_H

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "hakmem.h"
#include "support/pattern.h"
#include "support/random.h"

namespace hakmem_test {

// Its blocks know what they must hold.
class Population {
  public:
    Population(std::uint64_t stream, std::size_t most) : random_(stream), blocks_(most) {
    }
    ~Population() {
        drop(1, 1);
    }
    Population(const Population &) = delete;
    Population &operator=(const Population &) = delete;

    void build() {
        for (Block &block : blocks_) {
            if (block.at == nullptr) {
                block.size = kSizes[random_.below(std::size(kSizes))];
                block.stamp = random_.next();
                block.at = hak_malloc(block.size);
                if (block.at == nullptr) {
                    intact_ = false;
                    return;
                }
                fill_pattern(block.at, block.size, block.stamp);
            }
        }
    }

    void drop(std::uint64_t part, std::uint64_t of) {
        shuffle(blocks_, random_);
        for (Block &block : blocks_) {
            if (block.at != nullptr && random_.below(of) < part) {
                intact_ = intact_ && pattern_intact(block.at, block.size, block.stamp);
                hak_free(block.at);
                block.at = nullptr;
            }
        }
    }

    bool intact() const {
        return intact_;
    }

  private:
    static constexpr std::size_t kSizes[] = {8, 16, 48, 112, 208, 500, 1024};
    struct Block {
        void *at = nullptr;
        std::size_t size = 0;
        std::uint64_t stamp = 0;
    };
    Random random_;
    std::vector<Block> blocks_;
    bool intact_ = true;
};

} // namespace hakmem_test

#endif
