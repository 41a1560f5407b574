// An address in code is told as an offset into its file, whatever else of the file is mapped beside.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" {
#include "profile/modules.h"
}
#include "support/resident.h"

namespace {

using hakmem_test::kPage;

// Pages of a file that are mapped one behind the other.
struct Part {
    std::size_t first, count;
    int protection;
};

constexpr int kRead = PROT_READ, kCode = PROT_READ | PROT_EXEC, kData = PROT_READ | PROT_WRITE;

// How many pages behind the first part the file begins, as far as the code in the part `code` is concerned.
std::size_t beginning(const std::vector<Part> &parts, std::size_t code) {
    constexpr std::size_t kMost = 32;
    const int file = memfd_create("hakmem-modules", 0);
    EXPECT_EQ(ftruncate(file, kMost * kPage), 0);
    auto *start = static_cast<char *>(
        mmap(nullptr, kMost * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::size_t at = 1; // behind a page of no file's
    std::size_t code_at = 0;
    for (std::size_t i = 0; i < parts.size(); i++) {
        const Part &part = parts[i];
        code_at = i == code ? at : code_at;
        EXPECT_NE(mmap(start + at * kPage, part.count * kPage, part.protection, MAP_PRIVATE | MAP_FIXED, file,
                       static_cast<off_t>(part.first * kPage)),
                  MAP_FAILED);
        at += part.count;
    }
    struct modules *modules = modules_load();
    const auto base = reinterpret_cast<std::uintptr_t>(start) + kPage;
    const struct module *found = modules_find(modules, base + (code_at - 1) * kPage);
    EXPECT_NE(found, nullptr);
    const std::size_t begins = found == nullptr ? SIZE_MAX : (found->load_address - base) / kPage;
    modules_end(modules);
    munmap(start, kMost * kPage);
    close(file);
    return begins;
}

TEST(Modules, BeginWithTheirFirstSegment) {
    EXPECT_EQ(beginning({{0, 1, kRead}, {1, 1, kCode}, {2, 1, kRead}, {2, 1, kRead}, {3, 1, kData}}, 1), 0u);
    EXPECT_EQ(beginning({{0, 2, kCode}, {1, 1, kData}}, 0), 0u);
    // Linkers may let the code begin on the page of the file that what is before it ends on.
    EXPECT_EQ(beginning({{0, 1, kRead}, {0, 2, kCode}, {1, 1, kData}}, 1), 0u);
    EXPECT_EQ(beginning({{0, 3, kRead}, {2, 2, kCode}, {3, 1, kData}}, 1), 0u);
}

TEST(Modules, BeginAnewBesideAMappingOfTheirFile) {
    EXPECT_EQ(beginning({{0, 4, kRead}, {0, 1, kRead}, {1, 1, kCode}, {2, 1, kRead}, {3, 1, kData}}, 2), 4u);
    EXPECT_EQ(beginning({{0, 1, kRead}, {0, 1, kRead}, {1, 1, kCode}, {2, 1, kRead}}, 2), 1u);
    EXPECT_EQ(beginning({{0, 4, kRead}, {0, 2, kCode}, {1, 1, kData}}, 1), 4u);
    EXPECT_EQ(beginning({{0, 4, kData}, {0, 1, kRead}, {0, 2, kCode}, {1, 1, kData}}, 2), 4u);
}

} // namespace
