// Requests by the live page: answered by whoever comes to a slow path next.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/child.h"
#include "support/live_page.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::LivePage;
using hakmem_test::make_an_event;
using hakmem_test::number_in;
using hakmem_test::path_of;
using hakmem_test::scaled;
using hakmem_test::wait_for_page;

std::string read_all(const std::string &path) {
    std::string text;
    std::FILE *file = std::fopen(path.c_str(), "r");
    EXPECT_NE(file, nullptr) << path;
    char buffer[4096];
    for (std::size_t n; file != nullptr && (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) {
        text.append(buffer, n);
    }
    if (file != nullptr) {
        std::fclose(file);
    }
    return text;
}

std::string scratch_file() {
    const std::string path = testing::TempDir() + "live-" + std::to_string(getpid());
    unlink(path.c_str());
    return path;
}

TEST(LiveRequest, PublishNowMeasures) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    const std::uint64_t sequence = page.sequence();
    EXPECT_EQ(page.request(7), 0);
    EXPECT_GT(page.sequence(), sequence);
}

TEST(LiveRequest, ARequestToGiveMemoryBackPublishesAndAnswers) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    for (int i = 0; i < 5; i++) {
        const std::uint64_t sequence = page.sequence();
        hak_collect();
        EXPECT_GT(page.sequence(), sequence);
    }
    EXPECT_EQ(page.request(7, 0, "", [] { hak_collect(); }), 0);
}

// Whatever was being published when it began.
TEST(LiveRequest, FiguresAfterARequestToGiveMemoryBackAreOfThen) {
    constexpr std::size_t kBytes = 240;
    constexpr std::size_t kRounds = std::max<std::size_t>(scaled(20), 2);
    wait_for_page(getpid());
    const LivePage page(getpid());
    std::vector<void *> blocks(scaled(400'000));
    hakmem_test::Random random(1);
    for (std::size_t round = 0; round < kRounds; round++) {
        std::size_t live = 0;
        for (void *&block : blocks) {
            if (block == nullptr) {
                block = hak_malloc(kBytes);
            } else if (random.one_in(2)) {
                hak_free(block);
                block = nullptr;
            }
            live += block != nullptr ? kBytes : 0;
        }
        hak_collect();
        EXPECT_NEAR(static_cast<double>(number_in(page.text(), "memory", "live_bytes")),
                    static_cast<double>(live), 4e6);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
}

#ifndef __SANITIZE_THREAD__
TEST(LiveRequest, AChildThatGivesMemoryBackAtOnceLeavesNoPage) {
    wait_for_page(getpid());
    const pid_t child = fork();
    if (child == 0) {
        hak_collect();
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_NE(access(path_of(child).c_str(), F_OK), 0);
}
#endif

// Magazines and stocks of the thread that answers included.
TEST(LiveRequest, GivesBackOnRequestAllThatIsFree) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    std::vector<void *> blocks(200'000);
    for (void *&block : blocks) {
        block = std::memset(hak_malloc(240), 1, 240);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % 64 != 0) {
            hak_free(blocks[i]);
        }
    }
    EXPECT_EQ(page.request(8, 0, "", [] { hak_free(hak_malloc(4096)); }), 0);
    EXPECT_LT(hak_collect(), std::size_t{512} << 10);
    for (std::size_t i = 0; i < blocks.size(); i += 64) {
        hak_free(blocks[i]);
    }
}

// The request is only taken up where the thread that comes along holds no lock, which is in the middle of
// some malloc, of whatever size; meanwhile others go on.
TEST(LiveRequest, GivesBackOnRequestWhileAllThreadsAllocateAndFreeForEachOther) {
    constexpr std::size_t kThreads = 4;
    wait_for_page(getpid());
    const LivePage page(getpid());
    std::atomic<bool> stop{false};
    std::array<std::atomic<char *>, 512> shared{};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            hakmem_test::Random random(t + 1);
            while (!stop.load()) {
                const std::size_t bytes = random.one_in(50) ? 300'000 : 1 + random.below(20'000);
                auto *const block = static_cast<char *>(hak_malloc(bytes));
                block[0] = 'f';
                block[bytes - 1] = 'l';
                hak_free(shared[random.below(shared.size())].exchange(block));
            }
        });
    }
    for (std::size_t i = 0; i < scaled(40); i++) {
        EXPECT_EQ(page.request(8, 0, "", [] { std::this_thread::yield(); }), 0);
    }
    stop = true;
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (std::atomic<char *> &block : shared) {
        hak_free(block.load());
    }
}

// Neither a refill nor a flush comes of it.
TEST(LiveRequest, AnswersAProgramThatOnlyExchangesBlocksForOthersOfTheirSize) {
    wait_for_page(getpid());
    static void *block = hak_malloc(4096);
    const auto exchange = [] {
        hak_free(block);
        block = hak_malloc(4096);
    };
    const LivePage page(getpid());
    const std::uint64_t sequence = page.sequence();
    EXPECT_EQ(page.request(7, 0, "", exchange), 0);
    EXPECT_GT(page.sequence(), sequence);
    hak_free(block);
}

TEST(LiveRequest, ARequestedFileIsMadeForTheUserOnlyAndNeverOverAnother) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    const std::string path = scratch_file();
    ASSERT_EQ(page.request(3, 0, path), 0);
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_NE(read_all(path).find("\"slab_bytes\":65536"), std::string::npos);
    EXPECT_EQ(page.request(4, 0, path), EEXIST);
    EXPECT_EQ(page.request(4, 0, "/nonexistent/file"), ENOENT);
    unlink(path.c_str());
    ASSERT_EQ(symlink("/dev/null", path.c_str()), 0);
    EXPECT_NE(page.request(4, 0, path), 0) << "a link was followed";
    unlink(path.c_str());
    EXPECT_EQ(page.request(4, 0, path), 0);
    EXPECT_NE(read_all(path).find("\"sites\":["), std::string::npos);
    unlink(path.c_str());
    EXPECT_EQ(page.request(99), ENOSYS);
}

// Whether the process samples, once in how many bytes, and whether it began to at the client's wish.
TEST(LiveRequest, AnAnswerTellsHowTheProcessSamples) {
    constexpr std::uint64_t kInterval = 64 << 10;
    wait_for_page(getpid());
    const LivePage page(getpid());
    struct State {
        std::uint64_t before, now, run;
    };
    const auto state = [&page] { return page.field<State>(88); };
    ASSERT_EQ(page.request(6), 0);
    const std::uint64_t run = state().run;
    EXPECT_EQ(state().now, 0u);
    ASSERT_EQ(page.request(5, kInterval), 0);
    EXPECT_EQ(state().before, 0u);
    EXPECT_EQ(state().now, kInterval);
    const std::uint64_t started = state().run;
    EXPECT_NE(started, run);
    ASSERT_EQ(page.request(5, 0), 0);
    EXPECT_EQ(state().before, kInterval);
    EXPECT_EQ(state().now, kInterval);
    EXPECT_EQ(state().run, started);
    hak_profile_start(2 * kInterval);
    ASSERT_EQ(page.request(7), 0);
    EXPECT_EQ(state().now, 2 * kInterval);
    EXPECT_NE(state().run, started);
    ASSERT_EQ(page.request(6), 0);
    EXPECT_EQ(state().before, 2 * kInterval);
    EXPECT_EQ(state().now, 0u);
}

TEST(LiveRequest, ADamagedRequestHarmsNobody) {
    wait_for_page(getpid());
    const LivePage page(getpid());
    std::memset(&page.field<char>(128), 'x', 1024); /* no end */
    page.field<std::uint32_t>(68) = 3;
    const std::uint32_t number = page.field<std::uint32_t>(64) + 1000;
    __atomic_store_n(&page.field<std::uint32_t>(64), number, __ATOMIC_RELEASE);
    while (__atomic_load_n(&page.field<std::uint32_t>(80), __ATOMIC_ACQUIRE) != number) {
        make_an_event();
    }
    EXPECT_NE(page.field<std::int32_t>(84), 0);
}

} // namespace
