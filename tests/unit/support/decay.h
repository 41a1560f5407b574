// What the tests of decay have in common: free memory that nobody needs goes back by itself.
//
// In a sanitizer's build resident memory says nothing (support/resident.h) and the allocator's thread is an
// ordinary one: there the allocator's own count of what it retains is judged, and the thread by what it does.
#ifndef HAKMEM_TEST_DECAY_H
#define HAKMEM_TEST_DECAY_H

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace hakmem_test {

// What may stay over the start, by the promise: caches of the threads and what is not worth giving back.
inline constexpr std::size_t kMayStay = 4 * kMiB;
// What the library itself leaves when nobody needs anything: less is not worth starting a thread for, and it
// may have ended just before the last frees.
inline constexpr std::size_t kMayStayRetained = 512 * kKiB;

inline void set_option(const char *name, const char *value) {
    ASSERT_EQ(hak_option_set(name, value), 0) << name << "=" << value;
}

inline std::size_t retained() {
    return stats_now().retained_bytes;
}

inline std::uint64_t purged_bytes() {
    return stats_now().purged_bytes;
}

// The allocator is not called while its memory goes back: asking for its figures comes after, or under a
// sanitizer, where nothing else can be asked.
inline void expect_memory_to_come_back(const ResidentMeter &meter, const char *after) {
#if !HAKMEM_TEST_SANITIZED
    EXPECT_TRUE(happens([&] { return meter.growth() <= static_cast<std::ptrdiff_t>(kMayStay); }))
        << meter.growth() << " bytes over the start stay resident " << after;
#else
    (void)meter;
#endif
    EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }))
        << retained() << " bytes stay retained " << after;
}

inline void *touched_block(std::size_t size) {
    void *block = hak_malloc(size);
    if (block != nullptr) {
        dirty(block, size, 0xDB);
    }
    return block;
}

inline void allocate_all(PointerArray &blocks, std::size_t size) {
    for (void *&block : blocks) {
        block = touched_block(size);
        ASSERT_NE(block, nullptr) << size;
    }
}

// Frees `bytes` in blocks of the large lane: all of it reaches the free memory at once.
inline void use_and_free(std::size_t bytes) {
    constexpr std::size_t kBlock = 256 * kKiB;
    PointerArray blocks(bytes / kBlock);
    allocate_all(blocks, kBlock);
    free_all(blocks);
}

// Each test begins and ends with the options as they were, no fault, and nothing to give back.
class Decay : public testing::Test {
  protected:
    Decay() {
        for (const std::size_t size : kLanes) {
            hak_free(hak_malloc(size)); // sets up what the allocator keeps for good
        }
        settle();
        set_option("background_thread", "2"); // most of these programs have no threads
    }

    ~Decay() override {
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        for (const auto &[name, value] : kDefaults) {
            hak_option_set(name, value);
        }
        settle();
    }

    // Also waits for the allocator's thread, if there is one, to have ended.
    static void settle() {
        hak_collect();
        EXPECT_TRUE(happens([] { return retained() <= kMayStayRetained; }));
#if !HAKMEM_TEST_SANITIZED
        // By their number: a thread that has just begun has no name of its own yet.
        EXPECT_TRUE(happens([] { return thread_count() == 1; }));
#endif
    }

    static constexpr const char *kThreadName = "hakmem";

    // The ids of the allocator's own threads.
    static std::vector<std::string> own_threads() {
        std::vector<std::string> found;
        for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name;
            std::getline(std::ifstream(task.path() / "comm"), name);
            if (name == kThreadName) {
                found.push_back(task.path().filename());
            }
        }
        return found;
    }

  private:
    static constexpr std::array<std::pair<const char *, const char *>, 5> kDefaults = {{
        {"retain_min", "2816K"},
        {"retain_percent", "12"},
        {"retain_grace", "128M"},
        {"decay_ms", "500"},
        {"background_thread", "1"},
    }};
};

} // namespace hakmem_test

#endif
