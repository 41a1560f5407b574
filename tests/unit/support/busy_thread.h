// A thread that has done something, and stays awake: it never waits, so that nobody takes its heap, and is
// never in the allocator again.
#ifndef HAKMEM_TEST_BUSY_THREAD_H
#define HAKMEM_TEST_BUSY_THREAD_H

#include <atomic>
#include <functional>
#include <thread>

namespace hakmem_test {

class BusyThread {
  public:
    explicit BusyThread(const std::function<void()> &before)
        : thread_([this, before] {
              before();
              ready_.store(true, std::memory_order_release);
              while (!done_.load(std::memory_order_acquire)) {
              }
          }) {
        while (!ready_.load(std::memory_order_acquire)) {
            std::this_thread::yield();
        }
    }
    BusyThread(const BusyThread &) = delete;
    BusyThread &operator=(const BusyThread &) = delete;
    ~BusyThread() {
        done_.store(true, std::memory_order_release);
        thread_.join();
    }

  private:
    std::atomic<bool> ready_{false};
    std::atomic<bool> done_{false};
    std::thread thread_; // last: it uses the others
};

} // namespace hakmem_test

#endif
