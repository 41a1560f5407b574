// Threads that hold blocks.
#ifndef HAKMEM_TEST_HOLDERS_H
#define HAKMEM_TEST_HOLDERS_H

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "hakmem.h"

namespace hakmem_test {

// Each takes what `take` gives, one thread after the other, holds it until the end, and then frees it.
class Holders {
  public:
    template <typename Take>
    Holders(std::size_t count, Take take) {
        for (std::size_t i = 0; i < count; i++) {
            std::atomic<bool> done{false};
            threads_.emplace_back([&] {
                const std::vector<void *> blocks = take();
                done = true;
                while (!end_) {
                    std::this_thread::yield();
                }
                for (void *block : blocks) {
                    hak_free(block);
                }
            });
            while (!done) {
                std::this_thread::yield();
            }
        }
    }
    ~Holders() {
        end_ = true;
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }
    Holders(const Holders &) = delete;
    Holders &operator=(const Holders &) = delete;

  private:
    std::atomic<bool> end_{false};
    std::vector<std::thread> threads_;
};

} // namespace hakmem_test

#endif
