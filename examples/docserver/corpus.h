// A made-up collection of documents: the same seed gives the same words, texts and queries.
#pragma once

#include "random.h"

#include <string>
#include <vector>

class Corpus {
  public:
    explicit Corpus(size_t words);

    // Document `id` in its `revision`, as JSON text.
    std::string document(uint64_t id, uint64_t revision) const;

    // Two or three words that are often found together.
    std::vector<std::string> query(uint64_t number) const;

  private:
    const std::string &word(Random &random) const;
    std::string sentence(Random &random, size_t words) const;

    std::vector<std::string> words_;
};
