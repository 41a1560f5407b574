// Near the limit of its container a program keeps less, and afterwards more again.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "os/cgroup.h"
#include "support/decay.h"
#include "support/equal_blocks.h"
#include "support/lanes.h"
#include "support/statistics.h"
#include "support/waiting.h"

namespace {

using hakmem_test::happens;
using hakmem_test::kMayStayRetained;
using hakmem_test::kMiB;
using hakmem_test::number_in;
using hakmem_test::retained;
using hakmem_test::set_option;
using hakmem_test::statistics_json;
using hakmem_test::thread_count;
using hakmem_test::use_and_free;

using std::chrono::milliseconds;

// A container made of files, in which the process is the only one.
class Container {
  public:
    Container() {
        std::string name = (std::filesystem::temp_directory_path() / "hakmem-container-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) {
            std::perror("mkdtemp");
            std::abort();
        }
        root_ = name;
        file("/proc/thread-self/cgroup", "0::/\n");
        file("/proc/thread-self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        file(kGroup + "/memory.current", std::to_string(kUsed) + "\n");
        limit(0);
        cgroup_set_root(root_.c_str());
    }
    ~Container() {
        std::filesystem::remove_all(root_);
    }
    Container(const Container &) = delete;
    Container &operator=(const Container &) = delete;

    void limit(std::size_t bytes) const {
        file(kGroup + "/memory.max", bytes == 0 ? "max\n" : std::to_string(bytes) + "\n");
    }

    static constexpr std::size_t kUsed = 1000 * kMiB;

  private:
    const std::string kGroup = "/sys/fs/cgroup";

    void file(const std::string &path, const std::string &contents) const {
        const std::filesystem::path full = root_ + path;
        std::filesystem::create_directories(full.parent_path());
        std::ofstream(full.string() + ".new") << contents;
        std::filesystem::rename(full.string() + ".new", full);
    }

    std::string root_;
};

// Frees 2 MiB, which may stay as a rule, and says how much does.
std::size_t retained_after_breath() {
    use_and_free(2 * kMiB);
    const std::size_t stays = retained();
    std::this_thread::sleep_for(milliseconds(5));
    return stays;
}

void retain_less_in_a_full_container(const char *background_thread, bool idle_meanwhile) {
    const Container container; // before anything has looked at the real one
    set_option("background_thread", background_thread);
    set_option("decay_ms", "200");
    EXPECT_GE(retained_after_breath(), 2 * kMiB);

    container.limit(Container::kUsed + 10 * kMiB);
    EXPECT_TRUE(happens([] { return retained_after_breath() <= kMiB; })) << "near the limit";

    if (idle_meanwhile) {
        EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }));
#if !HAKMEM_TEST_SANITIZED
        EXPECT_TRUE(happens([] { return thread_count() == 1; })); // nobody looks any more
#endif
    }
    container.limit(4 * Container::kUsed);
    EXPECT_TRUE(happens([] { return retained_after_breath() >= 2 * kMiB; })) << "with plenty of room again";
}

// A little more room than makes memory scarce, but not so much more as might then stay free.
constexpr std::size_t kHardlyRoom = Container::kUsed / 15 + 2 * kMiB;

void retain_as_before_with_hardly_room(bool was_full) {
    const Container container;
    set_option("background_thread", "2");
    set_option("decay_ms", "100");
    if (was_full) {
        container.limit(Container::kUsed + 10 * kMiB);
        EXPECT_TRUE(happens([] { return retained_after_breath() <= kMiB; }));
    }
    container.limit(Container::kUsed + kHardlyRoom);
    const auto until = std::chrono::steady_clock::now() + milliseconds(500);
    while (std::chrono::steady_clock::now() < until) {
        const std::size_t stays = retained_after_breath();
        EXPECT_EQ(stays <= kMiB, was_full) << stays;
    }
}

void leave_scarcity_while_breathing(const char *background_thread) {
    const Container container;
    set_option("background_thread", background_thread);
    set_option("decay_ms", "100");
    hakmem_test::PointerArray held(32);
    hakmem_test::allocate_all(held, kMiB);
    const auto breathe = [] {
        hakmem_test::PointerArray breath(16);
        hakmem_test::allocate_all(breath, kMiB);
        hakmem_test::free_all(breath);
        return retained();
    };
    container.limit(Container::kUsed + 10 * kMiB);
    EXPECT_TRUE(happens([&] { return breathe() <= kMiB; }));
    for (int i = 0; i < 20; i++) {
        breathe(); // again and again what was purged just before
    }
    container.limit(Container::kUsed + 90 * kMiB); // a sixteenth would be 68
    EXPECT_TRUE(happens([&] { return breathe() >= 2 * kMiB; }));
    hakmem_test::free_all(held);
}

#if !HAKMEM_TEST_SANITIZED
using hakmem_test::counter;
using hakmem_test::kKiB;

struct KeptForLater {
    std::uint64_t runs;
    std::uint64_t batches_stocked;
};

// Of buffers that are taken again and again, and of small blocks that are dropped by the thousand.
KeptForLater kept_for_later() {
    const KeptForLater before = {counter("large_kept"), counter("flushes_stocked")};
    for (int i = 0; i < 100; i++) {
        use_and_free(256 * kKiB);
    }
    hakmem_test::free_blocks(hakmem_test::make_equal_blocks(10'000, 64));
    return {counter("large_kept") - before.runs, counter("flushes_stocked") - before.batches_stocked};
}

void keep_nothing_for_later_without_room() {
    const Container container;
    set_option("background_thread", "1"); // which nothing here is worth: it would forget scarcity as it ends
    set_option("decay_ms", "100");
    const KeptForLater with_room = kept_for_later();
    EXPECT_GT(with_room.runs, 0u);
    EXPECT_GT(with_room.batches_stocked, 0u);
    container.limit(Container::kUsed + 10 * kMiB);
    EXPECT_TRUE(happens([] {
        retained_after_breath();
        return statistics_json().find("\"scarce\":true") != std::string::npos;
    }));
    const KeptForLater without = kept_for_later();
    EXPECT_EQ(without.runs, 0u);
    EXPECT_EQ(without.batches_stocked, 0u);
}
#endif

// In a process of its own, which has not looked at its real container yet.
template <typename Judged>
void expect_right_in_a_container(Judged judged) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto judge_and_exit = [&] {
        judged();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    };
    EXPECT_EXIT(judge_and_exit(), testing::ExitedWithCode(0), "");
}

TEST(DecayInAContainer, NearItsLimitLessStaysAndAfterwardsMoreAgain) {
    expect_right_in_a_container([] { retain_less_in_a_full_container("2", false); });
}

TEST(DecayInAContainer, AProgramThatWasIdleMeanwhileLearnsThatThereIsRoomAgain) {
    expect_right_in_a_container([] { retain_less_in_a_full_container("2", true); });
}

TEST(DecayInAContainer, WithoutABackgroundThreadToo) {
    expect_right_in_a_container([] { retain_less_in_a_full_container("1", false); });
}

TEST(DecayInAContainer, MoreStaysAgainOnlyWhereThereIsRoomForIt) {
    expect_right_in_a_container([] { retain_as_before_with_hardly_room(true); });
}

TEST(DecayInAContainer, WhatHasNotBeenShortOfRoomKeepsWhatItMay) {
    expect_right_in_a_container([] { retain_as_before_with_hardly_room(false); });
}

TEST(DecayInAContainer, WhatBreathesWhileThereIsNoRoomIsNotTakenForWhatItKeeps) {
    expect_right_in_a_container([] { leave_scarcity_while_breathing("2"); });
    expect_right_in_a_container([] { leave_scarcity_while_breathing("1"); });
}

#if !HAKMEM_TEST_SANITIZED // for whose own threads the library's comes, and goes
TEST(DecayInAContainer, ThreadsKeepNothingForLaterWhereThereIsNoRoom) {
    expect_right_in_a_container(keep_nothing_for_later_without_room);
}
#endif

TEST(DecayInAContainer, StatisticsSayHowMuchRoomThereIs) {
    expect_right_in_a_container([] {
        const Container container;
        set_option("background_thread", "2");
        set_option("decay_ms", "100");
        container.limit(Container::kUsed + 10 * kMiB);
        EXPECT_TRUE(happens([] { return retained_after_breath() <= kMiB; }));
        const std::string json = statistics_json();
        EXPECT_EQ(number_in(json, "container", "limit_bytes"), Container::kUsed + 10 * kMiB);
        EXPECT_EQ(number_in(json, "container", "room_bytes"), 10 * kMiB);
        EXPECT_NE(json.find("\"scarce\":true"), std::string::npos);
    });
}

} // namespace
