#include "stack/chain.h"

#include "stack/links.h"

namespace hakmem_test {

void Chain::add_random(Random &random, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
        add(static_cast<Link>(random.below(static_cast<std::uint64_t>(Link::count))),
            static_cast<std::size_t>(random.below(link_builds)));
    }
}

void Chain::run() {
    at_ = 0;
    next();
}

void Chain::next() {
    if (at_ == links_.size()) {
        leaf_(context_);
    } else {
        static constexpr void (*calls[link_builds])(Link, Chain &) = {
            call_link_with_pointers, call_link_without_pointers, call_link_unoptimised};
        const auto code = static_cast<std::size_t>(static_cast<unsigned char>(links_[at_++]));
        calls[code % link_builds](static_cast<Link>(code / link_builds), *this);
        at_--;
    }
    asm volatile("" ::: "memory"); // no tail call
}

std::string Chain::describe() const {
    std::string text = "links:";
    for (const char link : links_) {
        text +=
            ' ' + std::to_string(static_cast<int>(link) / static_cast<int>(link_builds)) + "pno"[link % 3];
    }
    return text;
}

} // namespace hakmem_test
