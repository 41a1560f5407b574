#include "corpus.h"

Corpus::Corpus(size_t words) {
    static const char *const syllables[] = {"ka", "lo",  "mi", "ter", "un", "so", "ri",  "pa", "den", "vo",
                                            "ne", "gal", "si", "tu",  "or", "be", "lin", "ha", "que", "zy"};
    Random random(7);
    words_.reserve(words);
    for (size_t i = 0; i < words; ++i) {
        std::string word;
        for (uint64_t n = 2 + random.below(4); n > 0; --n) {
            word += syllables[random.below(std::size(syllables))];
        }
        words_.push_back(std::move(word));
    }
}

const std::string &Corpus::word(Random &random) const {
    return words_[random.skewed(words_.size())];
}

std::string Corpus::sentence(Random &random, size_t words) const {
    std::string text;
    for (size_t i = 0; i < words; ++i) {
        text += text.empty() ? "" : " ";
        text += word(random);
    }
    return text;
}

std::string Corpus::document(uint64_t id, uint64_t revision) const {
    Random random(mix(id) + revision);
    // Most documents are short, some are fifty times longer.
    const size_t words = 20 + random.below(120) + (random.below(40) == 0 ? random.below(4000) : 0);
    std::string json = "{\"id\": " + std::to_string(id) + ", \"title\": \"" + sentence(random, 6) + "\"";
    json += ", \"author\": {\"name\": \"" + sentence(random, 2) + "\", \"active\": true, \"note\": null}";
    json += ", \"tags\": [";
    for (uint64_t i = 0, n = 1 + random.below(6); i < n; ++i) {
        json += (i ? ", \"" : "\"") + word(random) + "\"";
    }
    json += "], \"history\": [";
    for (uint64_t i = 0; i <= revision; ++i) {
        json += (i ? ", " : "") + std::string("{\"revision\": ") + std::to_string(i);
        json += ", \"by\": \"" + sentence(random, 2) + "\"}";
    }
    json += "], \"body\": \"" + sentence(random, words) + "\"}";
    return json;
}

std::vector<std::string> Corpus::query(uint64_t number) const {
    Random random(number ^ 0x5155455259u);
    std::vector<std::string> terms;
    for (uint64_t n = 2 + random.below(2); n > 0; --n) {
        terms.push_back(word(random));
    }
    return terms;
}
