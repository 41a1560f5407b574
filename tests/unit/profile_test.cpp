// HAKMEM_PROFILE chooses the defaults of the settings behind it, and who sets one of them has the last word.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hakmem.h"
#include "support/options.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::option_named;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::stats_now;

// What a profile trades: the larger, the more memory is kept.
constexpr std::array<const char *, 5> kTraded = {"retain_min", "retain_percent", "retain_grace", "decay_ms",
                                                 "magazine_bytes"};

std::uint64_t bytes_of(const char *text) {
    char *suffix = nullptr;
    const std::uint64_t number = std::strtoull(text, &suffix, 10);
    return number * (*suffix == 'K' ? kKiB : *suffix == 'M' ? kMiB : 1);
}

std::uint64_t value_of(const char *name) {
    return bytes_of(option_named(name).value);
}

std::uint64_t balanced_value_of(const char *name) {
    return bytes_of(option_named(name).default_value);
}

class Profile : public testing::Test {
  protected:
    ~Profile() override {
        unsetenv("HAKMEM_PROFILE");
        unsetenv("HAKMEM_RETAIN_MIN");
    }

    // In a process of its own, which finds the profile in its environment as it starts.
    template <typename Body>
    static void in_a_process(const char *profile, Body body) {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        setenv("HAKMEM_PROFILE", profile, 1);
        const auto judged = [&body] {
            body();
            std::_Exit(HasFailure() ? 1 : 0);
        };
        EXPECT_EXIT(judged(), testing::ExitedWithCode(0), "") << profile;
    }
};

void expect_all_as_balanced() {
    for (const char *name : kTraded) {
        EXPECT_EQ(value_of(name), balanced_value_of(name)) << name;
        EXPECT_STREQ(option_named(name).source, "default") << name;
    }
}

TEST_F(Profile, BalancedIsWhatHoldsWithoutOne) {
    in_a_process("balanced", [] {
        EXPECT_STREQ(option_named("profile").value, "balanced");
        EXPECT_STREQ(option_named("profile").source, "environment");
        expect_all_as_balanced();
    });
}

TEST_F(Profile, MemoryKeepsLessInEverySettingAndSaysWhy) {
    in_a_process("memory", [] {
        EXPECT_STREQ(option_named("profile").value, "memory");
        for (const char *name : kTraded) {
            EXPECT_LT(value_of(name), balanced_value_of(name)) << name;
            EXPECT_STREQ(option_named(name).source, "profile") << name;
        }
    });
}

TEST_F(Profile, SpeedKeepsMoreInEverySettingAndSaysWhy) {
    in_a_process("speed", [] {
        EXPECT_STREQ(option_named("profile").value, "speed");
        for (const char *name : kTraded) {
            EXPECT_GT(value_of(name), balanced_value_of(name)) << name;
            EXPECT_STREQ(option_named(name).source, "profile") << name;
        }
    });
}

TEST_F(Profile, TouchesNoOtherSetting) {
    in_a_process("speed", [] {
        for (int i = 0; i < hak_option_count(); i++) {
            hak_option_info_t option{};
            ASSERT_EQ(hak_option_info(i, &option), 0);
            bool traded =
                std::strcmp(option.name, "profile") == 0 || std::strcmp(option.name, "huge_pages") == 0;
            for (const char *name : kTraded) {
                traded = traded || std::strcmp(option.name, name) == 0;
            }
            if (!traded && std::getenv(option.environment) == nullptr) {
                EXPECT_STREQ(option.source, "default") << option.name;
            }
        }
    });
}

TEST_F(Profile, YieldsToASettingOfTheEnvironment) {
    setenv("HAKMEM_RETAIN_MIN", "3M", 1);
    in_a_process("memory", [] {
        EXPECT_EQ(value_of("retain_min"), 3 * kMiB);
        EXPECT_STREQ(option_named("retain_min").source, "environment");
        EXPECT_STREQ(option_named("retain_percent").source, "profile");
    });
}

TEST_F(Profile, YieldsToASettingOfTheProgram) {
    in_a_process("memory", [] {
        ASSERT_EQ(hak_option_set("retain_min", "3M"), 0);
        EXPECT_EQ(value_of("retain_min"), 3 * kMiB);
        EXPECT_STREQ(option_named("retain_min").source, "api");
    });
}

TEST_F(Profile, OfNoSuchNameIsTheBalancedOne) {
    for (const char *name : {"fast", "", "memor", "memory,speed"}) {
        in_a_process(name, [] {
            EXPECT_STREQ(option_named("profile").value, "balanced");
            expect_all_as_balanced();
        });
    }
}

TEST_F(Profile, IsChosenAtTheStartOnly) {
    in_a_process("balanced", [] {
        errno = 0;
        EXPECT_EQ(hak_option_set("profile", "speed"), -1);
        EXPECT_EQ(errno, EPERM);
        expect_all_as_balanced();
    });
}

// With nothing in use, what stays after a burst is bounded by RETAIN_MIN alone: that much and no more.
void expect_a_burst_to_leave_the_least_that_may_stay() {
    ASSERT_EQ(hak_option_set("decay_ms", "3600000"), 0); // the bound itself, and not what time takes away
    constexpr std::size_t kSize = 300'000;
    const std::uint64_t least = value_of("retain_min");
    PointerArray blocks(2 * least / kSize + 10);
    for (void *&block : blocks) {
        block = hak_malloc(kSize);
        ASSERT_NE(block, nullptr);
        std::memset(block, 1, kSize);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    const hak_stats_t stats = stats_now();
    EXPECT_LE(stats.retained_bytes, least);
    EXPECT_GE(stats.retained_bytes, least / 2);
}

TEST_F(Profile, DecidesHowMuchStaysAfterABurst) {
    for (const char *name : {"memory", "balanced", "speed"}) {
        in_a_process(name, expect_a_burst_to_leave_the_least_that_may_stay);
    }
}

// Bytes that are given back of each thousand, while buffers of 8 to 32 KiB, 10 MiB of them, are replaced in
// no order.
std::uint64_t given_back_of_a_thousand_replaced() {
    constexpr std::size_t kLeast = 8 * kKiB;
    constexpr std::size_t kMost = 32 * kKiB;
    constexpr std::size_t kReplaced = 40'000;
    Random random(1);
    PointerArray buffers(512);
    hak_stats_t before{};
    for (std::size_t i = 0; i < 2 * kReplaced; i++) {
        if (i == kReplaced) {
            before = stats_now();
        }
        void *&buffer = buffers[random.below(buffers.size())];
        hak_free(buffer);
        const std::size_t size = kLeast + random.below(kMost - kLeast);
        buffer = hak_malloc(size);
        std::memset(buffer, 1, size);
    }
    const hak_stats_t after = stats_now();
    for (void *buffer : buffers) {
        hak_free(buffer);
    }
    return (after.purged_bytes - before.purged_bytes) * 1000 / (kReplaced * kMost);
}

TEST_F(Profile, OfMemoryKeepsWhatIsWantedAgainAtOnce) {
    in_a_process("memory", [] { EXPECT_LE(given_back_of_a_thousand_replaced(), 5); });
}

} // namespace
