// The live page: whole at every moment, one for each process, and it answers requests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "observe/stats.h"
}
#include "hakmem.h"
#include "os/clock.h"
#include "support/child.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::expect_child_to_succeed;
using hakmem_test::number_in;
using hakmem_test::scaled;

std::string path_of(pid_t pid) {
    constexpr ino_t kFirstNamespace = 0xEFFFFFFC;
    struct stat status {};
    const bool other = stat("/proc/self/ns/pid", &status) == 0 && status.st_ino != kFirstNamespace;
    return "/dev/shm/hakmem-" + std::to_string(geteuid()) + "-" +
           (other ? std::to_string(status.st_ino) + "-" : "") + std::to_string(pid);
}

// A slow path, twice.
void make_an_event() {
    hak_free(hak_malloc(3'000'000));
}

// What docs/statistics.md says of the file.
class Page {
  public:
    explicit Page(pid_t pid) {
        const int fd = open(path_of(pid).c_str(), O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
            struct stat status {};
            fstat(fd, &status);
            bytes_ = static_cast<std::size_t>(status.st_size);
            void *address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            close(fd);
            page_ = address == MAP_FAILED ? nullptr : static_cast<char *>(address);
        }
    }
    ~Page() {
        if (page_ != nullptr) {
            munmap(page_, bytes_);
        }
    }
    Page(const Page &) = delete;
    Page &operator=(const Page &) = delete;

    std::string magic() const {
        return {page_, 8};
    }
    template <typename T>
    T &field(std::size_t offset) const {
        return *reinterpret_cast<T *>(page_ + offset);
    }
    std::uint64_t sequence() const {
        return page_ == nullptr ? 0 : __atomic_load_n(&field<std::uint64_t>(48), __ATOMIC_ACQUIRE);
    }
    // Empty if there is no page.
    std::string text() const {
        if (page_ == nullptr) {
            return {};
        }
        for (;;) {
            const std::uint64_t before = sequence();
            const std::uint32_t current = __atomic_load_n(&field<std::uint32_t>(24), __ATOMIC_ACQUIRE);
            const auto length = static_cast<std::size_t>(field<std::uint64_t>(32 + 8 * current));
            const std::string copy(page_ + 4096 + current * field<std::uint32_t>(12), length);
            if (before != 0 && sequence() == before) {
                return copy;
            }
        }
    }
    // Asks, and makes events until it is done. Returns the errno.
    int request(std::uint32_t kind, std::uint64_t argument = 0, const std::string &file = "",
                void (*work)() = make_an_event) const {
        std::strncpy(page_ + 128, file.c_str(), 1023);
        field<std::uint32_t>(68) = kind;
        field<std::uint64_t>(72) = argument;
        const std::uint32_t number = field<std::uint32_t>(64) + 1;
        __atomic_store_n(&field<std::uint32_t>(64), number, __ATOMIC_RELEASE);
        while (__atomic_load_n(&field<std::uint32_t>(80), __ATOMIC_ACQUIRE) != number) {
            work();
        }
        return field<std::int32_t>(84);
    }

  private:
    char *page_ = nullptr;
    std::size_t bytes_ = 0;
};

void wait_for_page(pid_t pid) {
    // As the constructor does in the library proper, which the test does not link.
    static const bool started = (stats_at_start(), std::atexit(stats_at_exit) == 0);
    ASSERT_TRUE(started);
    while (Page(pid).sequence() == 0) {
        make_an_event();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

#ifndef __SANITIZE_THREAD__
// Whoever makes a page removes what is of no use any more.
void make_a_page_in_a_child() {
    expect_child_to_succeed([] {
        wait_for_page(getpid());
        const Page own(getpid());
        const bool good = own.field<std::uint32_t>(8) == static_cast<std::uint32_t>(getpid());
        unlink(path_of(getpid()).c_str());
        return good ? 0 : 1;
    });
}
#endif

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

TEST(Live, ThePageHasTheDocumentedHeaderAndIsForItsUserOnly) {
    wait_for_page(getpid());
    const Page page(getpid());
    EXPECT_EQ(page.magic(), "HAKLIVE1");
    EXPECT_EQ(page.field<std::uint32_t>(8), static_cast<std::uint32_t>(getpid()));
    EXPECT_GT(page.field<std::uint64_t>(16), 0u);
    struct stat status {};
    ASSERT_EQ(stat(path_of(getpid()).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_EQ(status.st_uid, geteuid());
}

TEST(Live, TheTextIsThatOfTheJsonAndGrowsNewWhileTheProcessAllocates) {
    wait_for_page(getpid());
    const Page page(getpid());
    std::vector<void *> blocks;
    for (int i = 0; i < 10; i++) {
        blocks.push_back(hak_malloc(5'000'000));
    }
    const std::uint64_t sequence = page.sequence();
    while (page.sequence() < sequence + 2) {
        make_an_event();
    }
    const std::string text = page.text();
    EXPECT_EQ(text.compare(0, 12, "{\"schema\":1,"), 0) << text;
    EXPECT_EQ(text.substr(text.size() - 2), "}\n");
    EXPECT_GE(number_in(text, "memory", "live_bytes"), 50'000'000u);
    EXPECT_NE(text.find("\"measured\":false"), std::string::npos) << text;
    for (void *block : blocks) {
        hak_free(block);
    }
}

TEST(Live, AReaderAlwaysFindsAWholeText) {
    wait_for_page(getpid());
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&stop] {
            while (!stop.load(std::memory_order_relaxed)) {
                make_an_event();
            }
        });
    }
    const Page page(getpid());
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < scaled(20'000); i++) {
        const std::string text = page.text();
        ASSERT_EQ(text.compare(0, 12, "{\"schema\":1,"), 0) << text;
        ASSERT_EQ(text.substr(text.size() - 2), "}\n") << text;
        const std::uint64_t allocs = number_in(text, "counters", "huge_allocs");
        ASSERT_GE(allocs, last);
        last = allocs;
    }
    stop.store(true, std::memory_order_relaxed);
    for (std::thread &thread : threads) {
        thread.join();
    }
}

// A machine that is suspended, or a process that is stopped, in the midst of a publication: the time that has
// passed is no cost of it.
TEST(Live, GoesOnAfterTheMachineStoodStill) {
    constexpr std::uint64_t kHourNs = 3600ull * 1'000'000'000;
    wait_for_page(getpid());
    const Page page(getpid());
    for (unsigned reading = 1; reading <= 4; reading++) {
        os_clock_stall(reading, kHourNs);
        const std::uint64_t sequence = page.sequence();
        while (page.sequence() < sequence + 2) {
            make_an_event();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
}

TEST(Live, PublishNowMeasures) {
    wait_for_page(getpid());
    const Page page(getpid());
    const std::uint64_t sequence = page.sequence();
    EXPECT_EQ(page.request(7), 0);
    EXPECT_GT(page.sequence(), sequence);
}

TEST(Live, ARequestToGiveMemoryBackPublishesAndAnswers) {
    wait_for_page(getpid());
    const Page page(getpid());
    for (int i = 0; i < 5; i++) {
        const std::uint64_t sequence = page.sequence();
        hak_collect();
        EXPECT_GT(page.sequence(), sequence);
    }
    EXPECT_EQ(page.request(7, 0, "", [] { hak_collect(); }), 0);
}

// Whatever was being published when it began.
TEST(Live, FiguresAfterARequestToGiveMemoryBackAreOfThen) {
    constexpr std::size_t kBytes = 240;
    constexpr std::size_t kRounds = std::max<std::size_t>(scaled(20), 2);
    wait_for_page(getpid());
    const Page page(getpid());
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
TEST(Live, AChildThatGivesMemoryBackAtOnceLeavesNoPage) {
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
TEST(Live, GivesBackOnRequestAllThatIsFree) {
    wait_for_page(getpid());
    const Page page(getpid());
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
TEST(Live, GivesBackOnRequestWhileAllThreadsAllocateAndFreeForEachOther) {
    constexpr std::size_t kThreads = 4;
    wait_for_page(getpid());
    const Page page(getpid());
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
TEST(Live, AnswersAProgramThatOnlyExchangesBlocksForOthersOfTheirSize) {
    wait_for_page(getpid());
    static void *block = hak_malloc(4096);
    const auto exchange = [] {
        hak_free(block);
        block = hak_malloc(4096);
    };
    const Page page(getpid());
    const std::uint64_t sequence = page.sequence();
    EXPECT_EQ(page.request(7, 0, "", exchange), 0);
    EXPECT_GT(page.sequence(), sequence);
    hak_free(block);
}

TEST(Live, ARequestedFileIsMadeForTheUserOnlyAndNeverOverAnother) {
    wait_for_page(getpid());
    const Page page(getpid());
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
TEST(Live, AnAnswerTellsHowTheProcessSamples) {
    constexpr std::uint64_t kInterval = 64 << 10;
    wait_for_page(getpid());
    const Page page(getpid());
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

TEST(Live, ADamagedRequestHarmsNobody) {
    wait_for_page(getpid());
    const Page page(getpid());
    std::memset(&page.field<char>(128), 'x', 1024); /* no end */
    page.field<std::uint32_t>(68) = 3;
    const std::uint32_t number = page.field<std::uint32_t>(64) + 1000;
    __atomic_store_n(&page.field<std::uint32_t>(64), number, __ATOMIC_RELEASE);
    while (__atomic_load_n(&page.field<std::uint32_t>(80), __ATOMIC_ACQUIRE) != number) {
        make_an_event();
    }
    EXPECT_NE(page.field<std::int32_t>(84), 0);
}

#ifndef __SANITIZE_THREAD__
TEST(Live, AChildMakesAPageOfItsOwnAndLeavesItsParentsAlone) {
    wait_for_page(getpid());
    const Page page(getpid());
    make_a_page_in_a_child();
    EXPECT_EQ(page.field<std::uint32_t>(8), static_cast<std::uint32_t>(getpid()));
    EXPECT_NE(page.text().find("\"pid\":" + std::to_string(getpid()) + ","), std::string::npos);
}

// Of a service that crashed, however many short programs come after it.
TEST(Live, TheLastFiguresOfAServiceStayWhereManyOthersAreLeft) {
    constexpr pid_t kNoProcess = 5'000'000; // more than any kernel gives
    const auto leave = [](pid_t pid, std::uint64_t publications) {
        std::vector<std::uint64_t> page(512);
        struct timespec now {};
        clock_gettime(CLOCK_REALTIME, &now);
        page[6] = publications;
        page[7] = static_cast<std::uint64_t>(now.tv_sec) * 1000;
        const std::string path = path_of(pid);
        const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT_EQ(write(fd, page.data(), 4096), 4096) << path;
        close(fd);
        return path;
    };
    wait_for_page(getpid());
    const std::string service = leave(kNoProcess, 10'000);
    std::vector<std::string> others;
    for (pid_t i = 1; i <= 100; i++) {
        others.push_back(leave(kNoProcess + i, 2));
    }
    make_a_page_in_a_child();
    EXPECT_EQ(access(service.c_str(), F_OK), 0);
    EXPECT_LE(std::count_if(others.begin(), others.end(),
                            [](const std::string &path) { return access(path.c_str(), F_OK) == 0; }),
              40);
    unlink(service.c_str());
    for (const std::string &path : others) {
        unlink(path.c_str());
    }
}

// What a client that was killed has left of an answer, as old as the files of processes that crashed.
TEST(Live, AnAnswerThatNobodyTookGoesOnceItIsOld) {
    const auto answer = [](const char *client, std::int64_t age_s) {
        const std::string path = path_of(getpid()) + "." + client;
        const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT_GE(fd, 0) << path;
        struct timespec now {};
        clock_gettime(CLOCK_REALTIME, &now);
        const struct timespec then[] = {{now.tv_sec - age_s, 0}, {now.tv_sec - age_s, 0}};
        EXPECT_EQ(futimens(fd, then), 0);
        close(fd);
        return path;
    };
    wait_for_page(getpid());
    const std::string old = answer("12-345", 2 * 3600);
    const std::string recent = answer("12-346", 0);
    make_a_page_in_a_child();
    EXPECT_NE(access(old.c_str(), F_OK), 0);
    EXPECT_EQ(access(recent.c_str(), F_OK), 0);
    unlink(old.c_str());
    unlink(recent.c_str());
}
#endif

} // namespace
