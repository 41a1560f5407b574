#include "support/resident.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "hakmem.h"

namespace hakmem_test {

namespace {

[[noreturn]] void give_up(const char *what) {
    std::perror(what);
    std::abort();
}

// The kernel counts the memory of each thread in batches; smaps_rollup walks the page tables and is exact,
// which bounds of a few hundred KiB need.
std::size_t exact_resident_bytes() {
    const int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    char text[2048];
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    const char *line = std::strstr(text, "\nRss:");
    return line == nullptr ? 0 : std::strtoull(line + 5, nullptr, 10) * kKiB;
}

struct Statm {
    unsigned long long total_pages;
    unsigned long long resident_pages;
};

Statm read_statm() {
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        give_up("/proc/self/statm");
    }
    char text[256];
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        give_up("/proc/self/statm: read");
    }
    text[length] = '\0';
    char *rest = nullptr;
    Statm statm{};
    statm.total_pages = std::strtoull(text, &rest, 10);
    statm.resident_pages = std::strtoull(rest, nullptr, 10);
    return statm;
}

std::size_t page_bytes() {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

std::size_t resident_bytes() {
    const std::size_t exact = exact_resident_bytes();
    return exact != 0 ? exact : read_statm().resident_pages * page_bytes();
}

std::size_t address_space_bytes() {
    return read_statm().total_pages * page_bytes();
}

std::size_t faults_so_far() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::size_t>(usage.ru_minflt);
}

void touch(void *block, std::size_t bytes, std::size_t step) {
    for (std::size_t at = 0; at < bytes; at += step) {
        static_cast<volatile char *>(block)[at] = 1;
    }
}

// Of volatile words, since a call of memset would be seen.
__attribute__((no_sanitize("thread"), noinline)) void dirty(void *block, std::size_t bytes, int value) {
    const std::uint64_t word = 0x0101010101010101 * static_cast<unsigned char>(value);
    std::size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        *reinterpret_cast<volatile std::uint64_t *>(static_cast<char *>(block) + at) = word;
    }
    for (; at < bytes; at++) {
        static_cast<volatile unsigned char *>(block)[at] = static_cast<unsigned char>(value);
    }
}

void ResidentMeter::expect_growth_within(std::size_t bound, const char *when) const {
#if HAKMEM_TEST_SANITIZED
    (void)bound;
    (void)when;
#else
    EXPECT_LE(growth(), static_cast<std::ptrdiff_t>(bound)) << "resident memory over the start, " << when;
#endif
}

void ResidentMeter::wait_for_growth_within(std::size_t bound) const {
    using std::chrono::seconds;
    const auto deadline =
        std::chrono::steady_clock::now() + (HAKMEM_TEST_SANITIZED ? seconds(1) : seconds(20));
    while (growth() > static_cast<std::ptrdiff_t>(bound) && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

PointerArray::PointerArray(std::size_t count) : pointers_(nullptr), count_(count) {
    void *pages = mmap(nullptr, count * sizeof(void *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) {
        give_up("mmap of a pointer array");
    }
    pointers_ = static_cast<void **>(pages);
}

PointerArray::~PointerArray() {
    munmap(pointers_, count_ * sizeof(void *));
}

void free_all(PointerArray &blocks) {
    for (void *&block : blocks) {
        hak_free(block);
        block = nullptr;
    }
}

} // namespace hakmem_test
