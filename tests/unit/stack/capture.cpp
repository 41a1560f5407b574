#include "stack/capture.h"

#include <gtest/gtest.h>
#include <unwind.h>

#include "profile/stack.h"
#include "stack/chain.h"
#include "support/random.h"

namespace hakmem_test {

namespace {

_Unwind_Reason_Code add_frame(_Unwind_Context *context, void *into) {
    Frames &frames = *static_cast<Frames *>(into);
    int interrupted = 0; // then it is no address behind a call, but stands for one
    const std::uintptr_t address = _Unwind_GetIPInfo(context, &interrupted);
    if (address == 0 || frames.count == frames_most) {
        return _URC_END_OF_STACK;
    }
    frames.address[frames.count++] = address + (interrupted != 0 ? 1 : 0);
    return _URC_NO_REASON;
}

} // namespace

void Pair::capture() {
    ours.count = stack_capture(ours.address, frames_most, 0);
    expected.count = 0;
    _Unwind_Backtrace(add_frame, &expected);
    asm volatile("" ::: "memory"); // no tail call
}

void capture_pair(void *pair) {
    static_cast<Pair *>(pair)->capture();
    asm volatile("" ::: "memory");
}

void capture_frames(void *frames) {
    Frames &f = *static_cast<Frames *>(frames);
    f.count = stack_capture(f.address, frames_most, 0);
}

std::vector<std::uintptr_t> callers(const Frames &frames) {
    return {frames.address + (frames.count > 0 ? 1 : 0), frames.address + frames.count};
}

void expect_agreement(const Pair &pair, const std::string &where) {
    EXPECT_GT(pair.ours.count, 2u) << where;
    EXPECT_EQ(callers(pair.ours), callers(pair.expected)) << where;
}

void compare_chains(std::uint64_t stream, std::size_t rounds) {
    Random random(stream);
    for (std::size_t round = 0; round < rounds; round++) {
        Pair pair;
        Chain chain(capture_pair, &pair);
        chain.add_random(random, 1 + static_cast<std::size_t>(random.below(12)));
        chain.run();
        expect_agreement(pair, chain.describe());
    }
}

} // namespace hakmem_test
