// How much free memory may stay: the bound, and the grace of a program that came back for what was purged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"

extern "C" {
#include "arena/retention.h"
}

namespace {

using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::Random;
using hakmem_test::scaled;

constexpr std::size_t kSlabBytes = 64 * kKiB;
constexpr unsigned kUsedBits = 31; // slabs in the whole address space

struct Settings {
    std::size_t least_bytes = 4 * kMiB;
    std::size_t percent = 12;
    std::size_t grace_bytes = 16 * kMiB;

    std::size_t least(std::size_t used) const {
        return std::max(least_bytes / kSlabBytes, used * percent / 100);
    }
    std::size_t most_grace() const {
        return grace_bytes / kSlabBytes;
    }
};

class Retention : public testing::Test {
  protected:
    Retention() {
        hak_free(hak_malloc(1)); // the options are read at the first call
        apply(Settings{});
    }
    ~Retention() override {
        apply(Settings{});
    }

    static void apply(const Settings &settings) {
        set("retain_min", settings.least_bytes);
        set("retain_percent", settings.percent);
        set("retain_grace", settings.grace_bytes);
    }

    static Settings random_settings(Random &random) {
        Settings settings;
        settings.least_bytes = random.log_uniform(36);
        settings.percent = random.below(1001);
        settings.grace_bytes = random.log_uniform(36);
        apply(settings);
        return settings;
    }

  private:
    static void set(const char *name, std::size_t value) {
        ASSERT_EQ(hak_option_set(name, std::to_string(value).c_str()), 0) << name << " = " << value;
    }
};

constexpr unsigned kGraceForEach = 3;

// What the grace is, slab by slab: each purged slab can be missed once, until the period ends.
class Model {
  public:
    explicit Model(std::size_t most) : most_(most) {
    }
    void purged(std::size_t slabs) {
        may_be_missed_ += slabs;
    }
    void taken_clean(std::size_t slabs) {
        for (; slabs > 0 && may_be_missed_ > 0; slabs--) {
            may_be_missed_--;
            grace_ = std::min(grace_ + kGraceForEach, most_);
        }
    }
    void period_ends(std::size_t idle) {
        may_be_missed_ = 0;
        for (; idle > 0 && grace_ > 0; idle--) {
            grace_--;
        }
    }
    std::size_t grace() const {
        return grace_;
    }

  private:
    std::size_t most_;
    std::size_t grace_ = 0;
    std::size_t may_be_missed_ = 0;
};

TEST_F(Retention, BoundIsWhatTheOptionsSayAndAtMostTheGraceMore) {
    Random random(1);
    for (std::size_t i = 0; i < scaled(200'000); i++) {
        const Settings settings = random_settings(random);
        const std::size_t used = random.log_uniform(kUsedBits);
        retention r{};
        EXPECT_EQ(retention_bound(&r, used, used / 2), settings.least(used))
            << "of a program that missed nothing";
        r.grace = random.log_uniform(kUsedBits);
        const std::size_t bound = retention_bound(&r, used, used / 2);
        ASSERT_GE(bound, settings.least(used)) << used;
        ASSERT_LE(bound, settings.least(used) + std::min(r.grace, used / 2)) << used;
    }
}

TEST_F(Retention, BoundNeverFallsWhenMoreIsInUse) {
    Random random(2);
    for (std::size_t i = 0; i < scaled(100'000); i++) {
        random_settings(random);
        retention r{};
        r.grace = random.log_uniform(kUsedBits);
        r.scarce = random.one_in(2);
        const std::size_t used = random.log_uniform(kUsedBits - 1);
        const std::size_t more = used + random.log_uniform(kUsedBits - 1);
        ASSERT_LE(retention_bound(&r, used, used / 2), retention_bound(&r, more, more / 2))
            << used << " and " << more;
    }
}

TEST_F(Retention, PurgingStopsBelowTheBoundButKeepsMostOfIt) {
    Random random(3);
    for (std::size_t i = 0; i < scaled(100'000); i++) {
        const std::size_t bound = random.log_uniform(40);
        const std::size_t target = retention_purge_target(bound);
        ASSERT_LE(target, bound);
        ASSERT_GE(target, bound / 2) << bound;
        if (bound >= 4) {
            ASSERT_LT(target, bound) << "the next run given back would purge again";
        }
    }
}

TEST_F(Retention, WithoutGraceInTheOptionsThereIsNone) {
    Settings settings;
    settings.grace_bytes = 0;
    apply(settings);
    retention r{};
    for (int i = 0; i < 1000; i++) {
        retention_note_purged(&r, 100, false);
        retention_note_taken_clean(&r, 100, kGraceForEach);
        ASSERT_EQ(retention_bound(&r, 100'000, 100'000 / 2), settings.least(100'000));
    }
}

TEST_F(Retention, GraceThatTheOptionsNoLongerAllowIsNone) {
    retention r{};
    retention_note_purged(&r, 100, false);
    retention_note_taken_clean(&r, 100, kGraceForEach);
    for (const std::size_t most : {std::size_t{50}, std::size_t{0}}) {
        Settings settings;
        settings.grace_bytes = most * kSlabBytes;
        apply(settings);
        EXPECT_EQ(retention_bound(&r, 100'000, 100'000 / 2), settings.least(100'000) + most);
    }
}

TEST_F(Retention, GraceIsForWhatWasPurgedAndNotForGrowth) {
    retention r{};
    retention_note_taken_clean(&r, 1000, kGraceForEach);
    EXPECT_EQ(r.grace, 0u) << "memory that never was there cannot have been missed";
    retention_note_purged(&r, 10, false);
    retention_note_taken_clean(&r, 1000, kGraceForEach);
    EXPECT_EQ(r.grace, 10 * kGraceForEach);
    retention_note_taken_clean(&r, 1000, kGraceForEach);
    EXPECT_EQ(r.grace, 10 * kGraceForEach) << "a slab is missed once";
}

TEST_F(Retention, WhatWasPurgedBeforeThePeriodIsNotMissed) {
    retention r{};
    retention_note_purged(&r, 50, false);
    retention_tick(&r, 0);
    retention_note_taken_clean(&r, 50, kGraceForEach);
    EXPECT_EQ(r.grace, 0u);
}

TEST_F(Retention, GraceOfAnIdleProgramFallsToNothing) {
    Random random(4);
    for (std::size_t i = 0; i < scaled(20'000); i++) {
        const Settings settings = random_settings(random);
        retention r{};
        const std::size_t missed = random.log_uniform(20);
        retention_note_purged(&r, missed, false);
        retention_note_taken_clean(&r, missed, kGraceForEach);
        const std::size_t grace = r.grace;
        ASSERT_EQ(grace, std::min(kGraceForEach * missed, settings.most_grace()));
        retention_tick(&r, 0);
        ASSERT_EQ(r.grace, grace) << "of a program that needs all it keeps";
        const std::size_t idle = 1 + random.log_uniform(18);
        for (std::size_t left = grace; left > 0; left -= std::min(left, idle)) {
            ASSERT_EQ(r.grace, left);
            retention_tick(&r, idle);
        }
        ASSERT_EQ(r.grace, 0u);
        const std::size_t used = random.log_uniform(kUsedBits);
        ASSERT_EQ(retention_bound(&r, used, used / 2), settings.least(used));
    }
}

TEST_F(Retention, NearALimitMuchLessMayStayAndNoGrace) {
    Random random(5);
    for (std::size_t i = 0; i < scaled(100'000); i++) {
        const Settings settings = random_settings(random);
        const std::size_t used = random.log_uniform(kUsedBits);
        retention r{};
        r.grace = random.log_uniform(kUsedBits);
        r.scarce = true;
        ASSERT_LE(retention_bound(&r, used, used / 2), settings.least(used) / 4) << used;
    }
}

// More is not counted, or it could not be forgotten soon.
constexpr std::size_t kMostBreath = 512;

// What was purged of a program with nothing else in use, and taken again.
void breathe(retention &r, std::size_t slabs, int times) {
    for (int i = 0; i < times; i++) {
        retention_note_purged(&r, slabs, true);
        retention_note_taken_clean(&r, slabs, kGraceForEach);
    }
}

TEST_F(Retention, BreathIsWhatWasTakenAgainSeveralTimesOver) {
    retention r{};
    EXPECT_EQ(retention_breath(&r), 0u);
    breathe(r, 400, 1);
    EXPECT_EQ(retention_breath(&r), 200u);
    breathe(r, 400, 1);
    EXPECT_EQ(retention_breath(&r), 400u);
    breathe(r, 400, 100);
    EXPECT_EQ(retention_breath(&r), kMostBreath);
}

TEST_F(Retention, BreathIsNotWhatIsSeldomTakenAgainNorWhatOthersWereInUseBeside) {
    retention r{};
    for (int i = 0; i < 100; i++) {
        retention_note_purged(&r, 400, true);
        retention_tick(&r, 0);
        retention_note_taken_clean(&r, 400, kGraceForEach);
        retention_note_purged(&r, 400, false);
        retention_note_taken_clean(&r, 400, kGraceForEach);
    }
    EXPECT_EQ(retention_breath(&r), 0u);
}

TEST_F(Retention, BreathThatIsNeededNoMoreIsForgotten) {
    retention r{};
    breathe(r, 512, 4);
    retention_tick(&r, 512);
    EXPECT_EQ(retention_breath(&r), 0u) << "it lay idle";
    breathe(r, 512, 4);
    for (int period = 0; period < 12; period++) {
        retention_tick(&r, 0);
    }
    EXPECT_LE(retention_breath(&r), kMostBreath / 4) << "nothing was missed of late";
}

TEST_F(Retention, AnyHistoryGivesTheGraceOfTheModel) {
    for (std::uint64_t history = 0; history < scaled(400); history++) {
        Random random(1000 + history);
        Settings settings = random_settings(random);
        settings.grace_bytes = random.log_uniform(9) * kSlabBytes;
        apply(settings);
        retention r{};
        Model model(settings.most_grace());
        for (int step = 0; step < 500; step++) {
            const std::size_t slabs = random.log_uniform(10);
            switch (random.below(random.one_in(4) ? 3 : 2)) {
            case 0:
                retention_note_purged(&r, slabs, false);
                model.purged(slabs);
                break;
            case 1:
                retention_note_taken_clean(&r, slabs, kGraceForEach);
                model.taken_clean(slabs);
                break;
            default:
                retention_tick(&r, slabs);
                model.period_ends(slabs);
            }
            ASSERT_EQ(r.grace, model.grace()) << "history " << history << ", step " << step;
            ASSERT_LE(r.grace, settings.most_grace());
            const std::size_t used = random.log_uniform(kUsedBits);
            ASSERT_EQ(retention_bound(&r, used, used / 2),
                      settings.least(used) + std::min(model.grace(), used / 2));
        }
    }
}

} // namespace
