// Chains of calls of every kind that compilers and libraries make, built three times: with frame pointers,
// without, and without optimisation.
//
// Promises that each link is a frame of its own, or several. Relies on C++ exceptions and libc's qsort.
#ifndef HAKMEM_TEST_STACK_CHAIN_H
#define HAKMEM_TEST_STACK_CHAIN_H

#include <cstddef>
#include <string>

#include "support/random.h"

namespace hakmem_test {

enum class Link : unsigned char {
    plain,
    alloca_room,
    variable_arguments,
    realigned,
    arguments_on_stack,
    large_frame,
    qsort_callback,
    stream_callback,
    destructor_while_unwinding,
    catch_handler,
    does_not_return,
    count
};

constexpr std::size_t link_builds = 3;

class Chain {
  public:
    using Leaf = void (*)(void *);

    Chain(Leaf leaf, void *context) : leaf_(leaf), context_(context) {
    }

    // Appends a link, made by build 0, 1 or 2.
    void add(Link link, std::size_t build) {
        links_.push_back(static_cast<char>(static_cast<std::size_t>(link) * link_builds + build));
    }
    void add_random(Random &random, std::size_t count);

    // Calls the links, each from the one before, and from the last one the leaf.
    void run();
    std::string describe() const;

    // For the links: goes on with what is left.
    void next();

  private:
    Leaf leaf_;
    void *context_;
    std::string links_;
    std::size_t at_ = 0;
};

} // namespace hakmem_test

#endif
