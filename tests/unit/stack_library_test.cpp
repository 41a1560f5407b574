// The call stack through libraries that come and go, and through code that has no tables.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "stack/capture.h"
#include "stack/chain.h"
#include "stack/memory.h"
#include "support/random.h"
#include "support/scale.h"

namespace {

using hakmem_test::capture_frames;
using hakmem_test::capture_pair;
using hakmem_test::Chain;
using hakmem_test::expect_agreement;
using hakmem_test::Frames;
using hakmem_test::Guarded;
using hakmem_test::kPage;
using hakmem_test::Link;
using hakmem_test::Pair;
using hakmem_test::Random;
using hakmem_test::scaled;

using PluginCall = void(void (*)(void *), void *);

void compare_in_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto *call = reinterpret_cast<PluginCall *>(dlsym(library, "plugin_call"));
    ASSERT_NE(call, nullptr);
    Pair pair;
    for (int i = 0; i < 2; i++) {
        call(capture_pair, &pair);
        expect_agreement(pair, path);
    }
    dlclose(library);
}

TEST(StackOfLibrary, ThroughALibraryInThePlaceOfAnotherIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(30); i++) {
        compare_in_plugin(HAKMEM_TEST_PLUGIN_SMALL);
        compare_in_plugin(HAKMEM_TEST_PLUGIN_LARGE);
    }
}

// Nothing tells these two from each other but what the tables themselves say.
TEST(StackOfLibrary, ThroughALibraryWithoutABuildIdInThePlaceOfAnotherIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(30); i++) {
        compare_in_plugin(HAKMEM_TEST_PLUGIN_SMALL_WITHOUT_ID);
        compare_in_plugin(HAKMEM_TEST_PLUGIN_LARGE_WITHOUT_ID);
    }
}

TEST(StackOfLibrary, ThroughALibraryThatHidesItsHeaderIsTheUnwinders) {
    void *library = dlopen(HAKMEM_TEST_PLUGIN_SMALL, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto *call = reinterpret_cast<PluginCall *>(dlsym(library, "plugin_call"));
    Pair hidden;
    link_map *map = nullptr;
    ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    auto *header = reinterpret_cast<void *>(map->l_addr);
    ASSERT_EQ(mprotect(header, kPage, PROT_NONE), 0);
    call(capture_pair, &hidden);
    expect_agreement(hidden, "without a header");
    ASSERT_EQ(mprotect(header, kPage, PROT_READ), 0);
    dlclose(library);
}

// A copy of the library, to be changed before it is loaded.
class Copy {
  public:
    Copy() {
        std::ifstream from(HAKMEM_TEST_PLUGIN_SMALL, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(from), {});
        const auto *file = reinterpret_cast<const ElfW(Ehdr) *>(bytes_.data());
        const auto *headers = reinterpret_cast<const ElfW(Phdr) *>(bytes_.data() + file->e_phoff);
        for (std::size_t i = 0; i < file->e_phnum; i++) {
            if (headers[i].p_type == PT_GNU_EH_FRAME) {
                tables_ = headers[i].p_offset;
                tables_bytes_ = headers[i].p_filesz;
            }
        }
    }

    std::size_t tables_bytes() const {
        return tables_bytes_;
    }

    // Words and bytes at so many bytes from the beginning of .eh_frame_hdr.
    std::uint32_t word(std::size_t at) const {
        std::uint32_t value = 0;
        std::memcpy(&value, bytes_.data() + tables_ + at, sizeof value);
        return value;
    }
    void set_word(std::size_t at, std::uint32_t value) {
        std::memcpy(bytes_.data() + tables_ + at, &value, sizeof value);
    }
    void set_byte(std::size_t at, std::uint64_t value) {
        bytes_[tables_ + at] = static_cast<char>(value);
    }

    void capture_in_it() const {
        const std::string path = testing::TempDir() + "hakmem-damaged-" + std::to_string(getpid()) + ".so";
        std::ofstream(path, std::ios::binary)
            .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
        void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        unlink(path.c_str());
        ASSERT_NE(library, nullptr) << dlerror();
        Frames frames;
        reinterpret_cast<PluginCall *>(dlsym(library, "plugin_call"))(capture_frames, &frames);
        EXPECT_GE(frames.count, 2u); // up to the call in the library
        dlclose(library);
    }

  private:
    std::vector<char> bytes_;
    std::size_t tables_ = 0, tables_bytes_ = 0;
};

// What the sorted table has begins behind its header.
constexpr std::size_t kCount = 8, kTable = 12, kEntry = 8;

TEST(StackOfLibrary, ThroughALibraryWithDamagedTablesDoesNoHarm) {
    const Copy whole;
    const std::size_t functions = whole.word(kCount);
    ASSERT_EQ(whole.tables_bytes(), kTable + functions * kEntry);
    for (const std::uint32_t far : {0x7FFFFFF0u, 0x80000000u, 0x00100000u, 0xFFF00000u}) {
        Copy counts = whole, places = whole, lengths = whole, commons = whole;
        counts.set_word(kCount, far);
        for (std::size_t i = 0; i < functions; i++) {
            const std::size_t place = kTable + i * kEntry + 4;
            const std::size_t function = whole.word(place);
            places.set_word(place, far);
            lengths.set_word(function, far);
            commons.set_word(function + 4, far);
        }
        for (const Copy *damaged : {&counts, &places, &lengths, &commons}) {
            damaged->capture_in_it();
        }
    }
    Random random(8);
    for (std::size_t i = 0; i < scaled(300); i++) {
        Copy damaged = whole;
        for (std::size_t changes = 1 + random.below(4); changes > 0; changes--) {
            damaged.set_byte(random.below(whole.tables_bytes()), random.next());
        }
        damaged.capture_in_it();
    }
}

TEST(StackOfLibrary, NeedsNoLockOfTheLoader) {
    std::atomic<bool> captured{false};
    dl_iterate_phdr( // which holds that lock
        [](dl_phdr_info *, std::size_t, void *done) {
            std::thread other([] {
                Random random(6);
                Frames frames;
                Chain chain(capture_frames, &frames);
                chain.add(Link::plain, 0);
                chain.add(Link::plain, 1);
                chain.run();
                EXPECT_GT(frames.count, 4u);
            });
            other.join();
            static_cast<std::atomic<bool> *>(done)->store(true);
            return 1;
        },
        &captured);
    EXPECT_TRUE(captured.load());
}

// Code without tables.
#if defined(__x86_64__)
using hakmem_test::assemble;
using hakmem_test::Assembled;
using hakmem_test::with_a_frame;
using hakmem_test::with_a_given_pointer;

TEST(StackOfLibrary, GoesOnByFramePointerWhereThereAreNoTables) {
    const Guarded memory(kPage);
    Assembled *call = assemble(memory, with_a_frame);
    Pair inner, outer;
    outer.capture();
    for (int i = 0; i < 2; i++) {
        call(capture_pair, &inner, 0);
    }
    const std::vector<std::uintptr_t> found = callers(inner.ours);
    const std::vector<std::uintptr_t> outside = callers(outer.ours);
    // capture_pair, the assembled code, this function at another place, and what called it.
    ASSERT_EQ(found.size(), outside.size() + 2);
    EXPECT_EQ(found[1] / kPage, reinterpret_cast<std::uintptr_t>(memory.data()) / kPage);
    EXPECT_TRUE(std::equal(outside.begin() + 1, outside.end(), found.begin() + 3, found.end()));
}

TEST(StackOfLibrary, EndsAtAFramePointerThatIsNone) {
    const Guarded memory(kPage);
    const Guarded elsewhere(kPage);
    Assembled *call = assemble(memory, with_a_given_pointer);
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const auto guarded = reinterpret_cast<std::uintptr_t>(elsewhere.data());
    std::vector<std::uintptr_t> pointers = {0,
                                            1,
                                            8,
                                            guarded,
                                            guarded - 8,
                                            guarded + elsewhere.size() - 8,
                                            here + 1,
                                            here - 64,
                                            UINTPTR_MAX,
                                            UINTPTR_MAX - 7,
                                            std::uintptr_t{1} << 47,
                                            std::uintptr_t{1} << 63};
    Random random(7);
    for (std::size_t i = 0; i < scaled(1000); i++) {
        pointers.push_back(here - 4096 + static_cast<std::uintptr_t>(random.below(100'000)));
        pointers.push_back(static_cast<std::uintptr_t>(random.next()));
    }
    for (const std::uintptr_t pointer : pointers) {
        Frames frames;
        call(capture_frames, &frames, pointer);
        // What is inside of the assembled code is told, and the code itself.
        EXPECT_GE(frames.count, 2u) << pointer;
        EXPECT_EQ(frames.address[1] / kPage, reinterpret_cast<std::uintptr_t>(memory.data()) / kPage)
            << pointer;
    }
}

// What a stale frame pointer leads to need not be running: its library may be unmapped at that moment.
TEST(StackOfLibrary, GoesByTablesOfALibraryThatMayGoOnlyWhereItRuns) {
    const Guarded memory(kPage);
    Assembled *call = assemble(memory, with_a_given_pointer);
    void *library = dlopen(HAKMEM_TEST_PLUGIN_SMALL, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto stale = reinterpret_cast<std::uintptr_t>(dlsym(library, "plugin_call")) + 24;
    std::uintptr_t words[1024];
    std::fill(std::begin(words), std::end(words),
              stale); // wherever the tables say that a caller's address is
    words[0] = 0;
    Frames frames;
    call(capture_frames, &frames, reinterpret_cast<std::uintptr_t>(words));
    ASSERT_EQ(frames.count, 3u); // capture_frames, the assembled code and the stale address
    EXPECT_EQ(frames.address[2], stale);
    dlclose(library);
}

// A call of `function` by code without tables.
struct Detour {
    Assembled *assembled;
    void (*function)(void *);
    void *context;
};

void take_detour(void *context) {
    const auto *detour = static_cast<const Detour *>(context);
    detour->assembled(detour->function, detour->context, 0);
    asm volatile("" ::: "memory"); // no tail call
}

PluginCall *plugin_call;

// No lambda, which may be two functions.
void capture_in_plugin(void *into) {
    plugin_call(capture_frames, into);
    asm volatile("" ::: "memory"); // no tail call
}

TEST(StackOfLibrary, GoesByTablesOfALibraryThatItMetBeforeItGuessed) {
    const Guarded memory(kPage);
    void *library = dlopen(HAKMEM_TEST_PLUGIN_SMALL, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    plugin_call = reinterpret_cast<PluginCall *>(dlsym(library, "plugin_call"));
    Frames direct, frames;
    plugin_call(capture_frames, &direct);
    Detour detour{assemble(memory, with_a_frame), capture_in_plugin, &frames};
    plugin_call(take_detour, &detour);
    // Besides: capture_in_plugin, the assembled code, take_detour and the library once more.
    EXPECT_EQ(frames.count, direct.count + 4);
    dlclose(library);
}
#endif

} // namespace
