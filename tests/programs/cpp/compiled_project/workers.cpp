#include "parts.hpp"

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace {

// Tasks are allocated by one thread and freed by another.
class Pool {
  public:
    explicit Pool(unsigned count) {
        for (unsigned i = 0; i < count; i++)
            threads_.emplace_back([this] { serve(); });
    }

    ~Pool() {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            closed_ = true;
        }
        changed_.notify_all();
        for (std::thread &thread : threads_)
            thread.join();
    }

    template <typename Function>
    auto submit(Function function) -> std::future<decltype(function())> {
        auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
        auto result = task->get_future();
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            tasks_.emplace([task] { (*task)(); });
        }
        changed_.notify_one();
        return result;
    }

  private:
    void serve() {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
                if (tasks_.empty())
                    return;
                task = std::move(tasks_.front());
                tasks_.pop();
            }
            task();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::queue<std::function<void()>> tasks_;
    bool closed_ = false;
    std::vector<std::thread> threads_;
};

std::vector<std::string> words(int seed) {
    std::unordered_set<std::string> unique;
    for (int i = 0; i < 500; i++)
        unique.insert("word " + std::to_string((i * seed) % 311) +
                      std::string(static_cast<std::size_t>(i % 60), '.'));
    return {unique.begin(), unique.end()};
}

} // namespace

std::string workers_report() {
    std::vector<std::future<std::vector<std::string>>> results;
    std::size_t count = 0, bytes = 0;
    {
        Pool pool(4);
        for (int i = 1; i <= 400; i++)
            results.push_back(pool.submit([i] { return words(i); }));
        for (auto &result : results)
            for (const std::string &word : result.get()) {
                count++;
                bytes += word.size();
            }
    }
    return "words " + std::to_string(count) + " of " + std::to_string(bytes) + " bytes\n";
}
