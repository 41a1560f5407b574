// Division without a remainder: against the processor's own, for every dividend that it is promised for.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/quotient.h"

namespace {

constexpr std::size_t kDividends = 65536;

void expect_exact(std::uint32_t divisor) {
    const std::uint64_t reciprocal = quotient_reciprocal(divisor);
    for (std::size_t dividend = 0; dividend < kDividends; dividend++) {
        const std::size_t expected = dividend % divisor == 0 ? dividend / divisor : SIZE_MAX;
        ASSERT_EQ(quotient_if_whole(reciprocal, dividend), expected) << dividend << " / " << divisor;
    }
}

TEST(Quotient, IsExactForTheSizesOfSmallBlocks) {
    expect_exact(8);
    for (std::uint32_t bytes = 16; bytes <= 2048; bytes += 16) {
        expect_exact(bytes);
    }
}

TEST(Quotient, IsExactForOtherDivisors) {
    for (const std::uint32_t divisor :
         {1U, 2U, 3U, 7U, 641U, 4097U, 10'000U, 32'767U, 40'000U, 65'535U, 65'536U}) {
        expect_exact(divisor);
    }
}

} // namespace
