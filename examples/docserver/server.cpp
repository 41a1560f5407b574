#include "server.h"

namespace {
constexpr size_t hits_per_shard = 5;
}

Server::Server(size_t threads) : requests_(threads) {
    for (auto &queue : requests_) {
        threads_.emplace_back([this, &queue] { work(queue); });
    }
}

Server::~Server() {
    for (auto &queue : requests_) {
        queue.push(nullptr);
    }
    for (std::thread &thread : threads_) {
        thread.join();
    }
}

void Server::send(std::unique_ptr<Request> request) {
    auto &queue = requests_[request->shard % requests_.size()];
    queue.push(std::move(request));
}

std::unique_ptr<Response> Server::receive() {
    return responses_.pop();
}

void Server::work(Queue<std::unique_ptr<Request>> &requests) {
    while (auto request = requests.pop()) {
        responses_.push(answer(std::move(request)));
    }
}

std::unique_ptr<Response> Server::answer(std::unique_ptr<Request> request) {
    auto response = std::make_unique<Response>();
    Shard &shard = shards_[request->shard];
    try {
        switch (request->kind) {
        case Request::Kind::store:
            shard.store(request->id, request->json);
            break;
        case Request::Kind::remove:
            shard.remove(request->id);
            break;
        case Request::Kind::search:
            response->hits = shard.search(*request->terms, hits_per_shard);
            break;
        case Request::Kind::verify:
            shard.verify();
            break;
        }
    } catch (const std::exception &error) {
        response->error = error.what();
    }
    response->request = std::move(request);
    return response;
}

ShardCounts Server::counts() const {
    ShardCounts sum;
    for (const Shard &shard : shards_) {
        const ShardCounts one = shard.counts();
        sum.documents += one.documents;
        sum.postings += one.postings;
        sum.cache_hits += one.cache_hits;
        sum.cache_misses += one.cache_misses;
    }
    return sum;
}
