// The distances from sample to sample: those of a Poisson process.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "support/heap_profile.h"
#include "support/random.h"
#include "support/resident.h"

extern "C" {
#include "profile/poisson.h"
}

namespace {

using hakmem_test::kEveryBlock;
using hakmem_test::kKiB;

TEST(Poisson, ChanceIsThatOfTheExponentialDistribution) {
    for (const std::uint64_t interval :
         {std::uint64_t{2}, std::uint64_t{512 * kKiB}, std::uint64_t{1} << 40}) {
        for (double size = 1; size < 1e13; size *= 1.7) {
            const double exact = -std::expm1(-size / static_cast<double>(interval));
            EXPECT_NEAR(poisson_chance(size, interval), exact, exact * 1e-7) << size << " in " << interval;
        }
    }
    EXPECT_EQ(poisson_chance(1, kEveryBlock), 1);
}

TEST(Poisson, DistancesHaveTheRightMeanAndTail) {
    constexpr std::size_t kDraws = 1'000'000;
    constexpr std::uint64_t kMean = 1'000'000;
    std::uint64_t state = hakmem_test::test_seed();
    double sum = 0;
    std::array<std::size_t, 6> beyond{};
    for (std::size_t i = 0; i < kDraws; i++) {
        const auto distance = static_cast<double>(poisson_distance(&state, kMean));
        sum += distance;
        for (std::size_t k = 0; k < beyond.size(); k++) {
            beyond[k] += distance >= static_cast<double>(k) * kMean;
        }
    }
    EXPECT_NEAR(sum / kDraws / kMean, 1, 5 / std::sqrt(kDraws));
    for (std::size_t k = 0; k < beyond.size(); k++) {
        const double expected = std::exp(-static_cast<double>(k)) * kDraws;
        EXPECT_NEAR(static_cast<double>(beyond[k]), expected, 5 * std::sqrt(expected)) << k << " means";
    }
}

} // namespace
