// Worker threads that own the shards, and queues that carry requests to them and responses back. What
// one thread allocates another frees, as in any server.
#pragma once

#include "shard.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

template <typename T>
class Queue {
  public:
    void push(T item) {
        {
            const std::lock_guard lock(mutex_);
            items_.push_back(std::move(item));
        }
        filled_.notify_one();
    }

    T pop() {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [this] { return !items_.empty(); });
        T item = std::move(items_.front());
        items_.pop_front();
        return item;
    }

  private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<T> items_;
};

struct Request {
    enum class Kind { store, remove, search, verify };
    Kind kind;
    size_t shard;
    uint64_t id;                                           // of the document or the query
    std::string json;                                      // store
    std::shared_ptr<const std::vector<std::string>> terms; // search; one for all shards
};

struct Response {
    std::unique_ptr<Request> request;
    std::vector<Hit> hits;
    std::string error; // empty if all went well
};

class Server {
  public:
    static constexpr size_t shard_count = 8;

    explicit Server(size_t threads);
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    // A shard's requests are done in the order in which they were sent.
    void send(std::unique_ptr<Request> request);
    std::unique_ptr<Response> receive();

    // Only while nothing is under way.
    ShardCounts counts() const;

  private:
    void work(Queue<std::unique_ptr<Request>> &requests);
    std::unique_ptr<Response> answer(std::unique_ptr<Request> request);

    std::vector<Shard> shards_{shard_count};
    std::vector<Queue<std::unique_ptr<Request>>> requests_; // one a thread; null ends it
    Queue<std::unique_ptr<Response>> responses_;
    std::vector<std::thread> threads_;
};
