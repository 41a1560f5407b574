// How much free memory may stay: the bound, and the grace of a program that came back for what was purged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
    Model(std::size_t most, std::size_t slabs)
        : most_(most), may_be_missed_(slabs), purged_in_(slabs / kSlabs + 1) {
    }
    void purged(std::size_t slab) {
        const std::size_t superslab = slab / kSlabs;
        if (purged_in_[superslab] != period_) { // a superslab remembers one period
            for (std::size_t i = superslab * kSlabs;
                 i < (superslab + 1) * kSlabs && i < may_be_missed_.size(); i++) {
                may_be_missed_[i] = false;
            }
            purged_in_[superslab] = period_;
        }
        may_be_missed_[slab] = true;
    }
    void taken(std::size_t slab) {
        const bool missed = may_be_missed_[slab] && period_ - purged_in_[slab / kSlabs] <= 1;
        grace_ = std::min(grace_ + (missed ? kGraceForEach : 0), most_);
        may_be_missed_[slab] = false;
    }
    void period_ends(std::size_t idle) {
        period_++;
        grace_ -= std::min(grace_, idle);
    }
    std::size_t grace() const {
        return grace_;
    }

  private:
    static constexpr std::size_t kSlabs = 32;
    std::size_t most_;
    std::size_t grace_ = 0;
    std::size_t period_ = 0;
    std::vector<bool> may_be_missed_;
    std::vector<std::size_t> purged_in_; // by superslab
};

// Slabs in superslabs, of which the first so many are purged, or taken.
class Memory {
  public:
    explicit Memory(std::size_t slabs) : superslabs_(slabs / kSlabs + 1) {
    }
    void purge(retention &r, std::size_t slabs, bool withheld = false) {
        for_each(slabs, [&](missed &superslab, std::uint32_t mask) {
            retention_note_purged(&r, &superslab, mask, withheld);
        });
    }
    void take(retention &r, std::size_t slabs) {
        for_each(slabs, [&](missed &superslab, std::uint32_t mask) {
            retention_note_taken(&r, &superslab, mask, kGraceForEach);
        });
    }
    missed &superslab(std::size_t slab) {
        return superslabs_[slab / kSlabs];
    }
    static std::uint32_t mask(std::size_t slab) {
        return std::uint32_t{1} << slab % kSlabs;
    }

  private:
    static constexpr std::size_t kSlabs = 32;
    template <typename Note>
    void for_each(std::size_t slabs, const Note &note) {
        for (std::size_t s = 0; s * kSlabs < slabs; s++) {
            const std::size_t here = std::min(slabs - s * kSlabs, kSlabs);
            note(superslabs_[s], static_cast<std::uint32_t>((std::uint64_t{1} << here) - 1));
        }
    }
    std::vector<missed> superslabs_;
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
    Memory memory(100);
    for (int i = 0; i < 1000; i++) {
        memory.purge(r, 100);
        memory.take(r, 100);
        ASSERT_EQ(retention_bound(&r, 100'000, 100'000 / 2), settings.least(100'000));
    }
}

TEST_F(Retention, GraceThatTheOptionsNoLongerAllowIsNone) {
    retention r{};
    Memory memory(100);
    memory.purge(r, 100);
    memory.take(r, 100);
    for (const std::size_t most : {std::size_t{50}, std::size_t{0}}) {
        Settings settings;
        settings.grace_bytes = most * kSlabBytes;
        apply(settings);
        EXPECT_EQ(retention_bound(&r, 100'000, 100'000 / 2), settings.least(100'000) + most);
    }
}

TEST_F(Retention, GraceIsForWhatWasPurgedAndNotForGrowth) {
    retention r{};
    Memory memory(1000), other(1000);
    memory.take(r, 1000);
    EXPECT_EQ(r.grace, 0u) << "memory that never was there cannot have been missed";
    memory.purge(r, 10);
    other.take(r, 1000);
    EXPECT_EQ(r.grace, 0u) << "other memory is not what was purged";
    memory.take(r, 1000);
    EXPECT_EQ(r.grace, 10 * kGraceForEach);
    memory.take(r, 1000);
    EXPECT_EQ(r.grace, 10 * kGraceForEach) << "a slab is missed once";
}

// A program that breathes more slowly than in a period, but in less than two.
TEST_F(Retention, WhatWasPurgedInThePeriodBeforeIsMissedAndNothingEarlier) {
    retention r{};
    Memory memory(50);
    memory.purge(r, 50);
    retention_tick(&r, 0);
    memory.take(r, 20);
    EXPECT_EQ(r.grace, 20 * kGraceForEach);
    retention_tick(&r, 0);
    memory.take(r, 50);
    EXPECT_EQ(r.grace, 20 * kGraceForEach) << "two periods ago";
    memory.purge(r, 10);
    memory.take(r, 50);
    EXPECT_EQ(r.grace, 30 * kGraceForEach) << "but for those of this one";
}

TEST_F(Retention, GraceOfAnIdleProgramFallsToNothing) {
    Random random(4);
    for (std::size_t i = 0; i < scaled(20'000); i++) {
        const Settings settings = random_settings(random);
        retention r{};
        const std::size_t missed = random.log_uniform(20);
        Memory memory(missed);
        memory.purge(r, missed);
        memory.take(r, missed);
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
    Memory memory(slabs);
    for (int i = 0; i < times; i++) {
        memory.purge(r, slabs, true);
        memory.take(r, slabs);
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
    Memory memory(400);
    for (int i = 0; i < 100; i++) {
        memory.purge(r, 400, true);
        retention_tick(&r, 0);
        memory.take(r, 400);
        memory.purge(r, 400);
        memory.take(r, 400);
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
        constexpr std::size_t kSlabs = 100;
        retention r{};
        Memory memory(kSlabs);
        Model model(settings.most_grace(), kSlabs);
        for (int step = 0; step < 500; step++) {
            const std::size_t slab = random.below(kSlabs);
            const std::size_t idle = random.log_uniform(10);
            switch (random.below(random.one_in(8) ? 3 : 2)) {
            case 0:
                retention_note_purged(&r, &memory.superslab(slab), Memory::mask(slab), false);
                model.purged(slab);
                break;
            case 1:
                retention_note_taken(&r, &memory.superslab(slab), Memory::mask(slab), kGraceForEach);
                model.taken(slab);
                break;
            default:
                retention_tick(&r, idle);
                model.period_ends(idle);
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
