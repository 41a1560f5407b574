// A thread that has all memory given back, again and again, while others use it.
#ifndef HAKMEM_TEST_COLLECTOR_H
#define HAKMEM_TEST_COLLECTOR_H

#include <atomic>
#include <chrono>
#include <thread>

#include "hakmem.h"

namespace hakmem_test {

class Collector {
  public:
    Collector()
        : thread_([this] {
              while (!done_.load(std::memory_order_relaxed)) {
                  hak_collect();
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
          }) {
    }
    Collector(const Collector &) = delete;
    Collector &operator=(const Collector &) = delete;
    ~Collector() {
        done_.store(true, std::memory_order_relaxed);
        thread_.join();
    }

  private:
    std::atomic<bool> done_{false};
    std::thread thread_; // last: it uses the other
};

} // namespace hakmem_test

#endif
