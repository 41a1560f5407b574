// The live page as docs/statistics.md says it is, for tests that read it or ask by it.
#ifndef HAKMEM_TEST_LIVE_PAGE_H
#define HAKMEM_TEST_LIVE_PAGE_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

extern "C" {
#include "observe/stats.h"
}
#include "hakmem.h"

namespace hakmem_test {

inline std::string path_of(pid_t pid) {
    constexpr ino_t kFirstNamespace = 0xEFFFFFFC;
    struct stat status {};
    const bool other = stat("/proc/self/ns/pid", &status) == 0 && status.st_ino != kFirstNamespace;
    return "/dev/shm/hakmem-" + std::to_string(geteuid()) + "-" +
           (other ? std::to_string(status.st_ino) + "-" : "") + std::to_string(pid);
}

// A slow path, twice.
inline void make_an_event() {
    hak_free(hak_malloc(3'000'000));
}

class LivePage {
  public:
    explicit LivePage(pid_t pid) {
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
    ~LivePage() {
        if (page_ != nullptr) {
            munmap(page_, bytes_);
        }
    }
    LivePage(const LivePage &) = delete;
    LivePage &operator=(const LivePage &) = delete;

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

inline void wait_for_page(pid_t pid) {
    // As the constructor does in the library proper, which the test does not link.
    static const bool started = (stats_at_start(), std::atexit(stats_at_exit) == 0);
    ASSERT_TRUE(started);
    while (LivePage(pid).sequence() == 0) {
        make_an_event();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

} // namespace hakmem_test

#endif
