// The call stack as the library tells it, beside the one that the C++ runtime's unwinder finds.
//
// Promises that a Pair can be captured where nothing may be allocated. Relies on the unwinder being right.
#ifndef HAKMEM_TEST_STACK_CAPTURE_H
#define HAKMEM_TEST_STACK_CAPTURE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hakmem_test {

constexpr std::size_t frames_most = 500;

struct Frames {
    std::uintptr_t address[frames_most];
    std::size_t count;
};

// Both views of one moment.
struct Pair {
    Frames ours, expected;

    [[gnu::noinline]] void capture();
};

// `pair` is a Pair: for callbacks.
void capture_pair(void *pair);
// `frames` are Frames: the library's view alone.
void capture_frames(void *frames);

// Without the innermost one, which makes two calls for the two views.
std::vector<std::uintptr_t> callers(const Frames &frames);

void expect_agreement(const Pair &pair, const std::string &where);

// Expects agreement from within random chains of calls, `rounds` of them.
void compare_chains(std::uint64_t stream, std::size_t rounds);

} // namespace hakmem_test

#endif
