// The call stack is the one that the C++ runtime's unwinder finds, wherever it is asked for, and where nobody
// can tell it, asking does no harm.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "profile/stack.h"
#include "stack/capture.h"
#include "stack/chain.h"
#include "stack/memory.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/threads.h"

// Of the library, whose header is not for C++: it calls back.
extern "C" void os_visit_environment(const char *prefix, void (*visit)(const char *name, std::size_t length));

namespace {

using hakmem_test::callers;
using hakmem_test::capture_frames;
using hakmem_test::capture_pair;
using hakmem_test::Chain;
using hakmem_test::compare_chains;
using hakmem_test::expect_agreement;
using hakmem_test::Frames;
using hakmem_test::frames_most;
using hakmem_test::Guarded;
using hakmem_test::kPage;
using hakmem_test::Link;
using hakmem_test::Pair;
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;

TEST(Stack, OfEachKindOfCallIsTheUnwinders) {
    for (std::size_t link = 0; link < static_cast<std::size_t>(Link::count); link++) {
        for (std::size_t build = 0; build < hakmem_test::link_builds; build++) {
            Pair pair;
            Chain chain(capture_pair, &pair);
            chain.add(static_cast<Link>(link), build);
            chain.run();
            expect_agreement(pair, chain.describe());
        }
    }
}

TEST(Stack, OfRandomChainsIsTheUnwinders) {
    compare_chains(1, scaled(3000));
}

TEST(Stack, OfANewThreadIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(50); i++) {
        run_in_thread([i] { compare_chains(100 + i, 3); });
    }
}

TEST(Stack, OfManyThreadsAtOnceIsTheUnwinders) {
    run_threads(8, [](std::size_t thread) { compare_chains(200 + thread, scaled(500)); });
}

TEST(Stack, OfAThreadThatEndsIsTheUnwinders) {
    static Pair pair;
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, capture_pair), 0);
    run_in_thread([key] { pthread_setspecific(key, &pair); });
    pthread_key_delete(key);
    expect_agreement(pair, "in a key's destructor");
}

// ---- What is asked for -----------------------------------------------------------------------------

std::vector<std::uintptr_t> all(const Frames &frames) {
    return {frames.address, frames.address + frames.count};
}

TEST(Stack, IsAsDeepAsWasAsked) {
    struct Views {
        Frames whole, part, skipped;
    } views;
    Chain chain(
        [](void *into) {
            Views &v = *static_cast<Views *>(into);
            // All from one place, so that they are equal: volatile keeps the loop a loop.
            for (volatile int i = 0; i < 3; i = i + 1) {
                Frames &frames = i == 0 ? v.whole : i == 1 ? v.part : v.skipped;
                frames.count = stack_capture(frames.address, i == 1 ? 5 : frames_most, i == 2 ? 3 : 0);
            }
        },
        &views);
    for (int i = 0; i < 10; i++) {
        chain.add(Link::plain, 1);
    }
    chain.run();
    const std::vector<std::uintptr_t> whole = all(views.whole);
    ASSERT_GT(whole.size(), 13u);
    EXPECT_EQ(all(views.part), std::vector<std::uintptr_t>(whole.begin(), whole.begin() + 5));
    EXPECT_EQ(all(views.skipped), std::vector<std::uintptr_t>(whole.begin() + 3, whole.end()));
    EXPECT_EQ(stack_capture(views.part.address, 0, 0), 0u);
}

TEST(Stack, HasNoFramesOfTheLibrary) {
    static Pair pair;
    pair = {};
    ASSERT_EQ(setenv("HAKMEM_TEST_STACK", "1", 1), 0);
    os_visit_environment("HAKMEM_TEST_STACK", [](const char *, std::size_t) { pair.capture(); });
    unsetenv("HAKMEM_TEST_STACK");
    ASSERT_GT(pair.expected.count, 3u);
    // Where the unwinder has capture, the visitor, the library, this function and others, ours has one less.
    std::vector<std::uintptr_t> expected = callers(pair.expected);
    const auto own = std::find_if(expected.begin(), expected.end(), [&](std::uintptr_t address) {
        return !std::count(pair.ours.address, pair.ours.address + pair.ours.count, address);
    });
    ASSERT_NE(own, expected.end());
    expected.erase(own);
    EXPECT_EQ(callers(pair.ours), expected);
}

TEST(Stack, KeepsErrno) {
    run_in_thread([] {
        Pair pair;
        errno = 12345;
        pair.capture();
        EXPECT_EQ(errno, 12345);
    });
}

// ---- Odd stacks ------------------------------------------------------------------------------------

Pair signal_pair;

void capture_on_signal(int, siginfo_t *, void *) {
    signal_pair.capture();
}

// A handler for SIGUSR2 while it lives.
class Handler {
  public:
    explicit Handler(int flags) {
        struct sigaction action {};
        action.sa_sigaction = capture_on_signal;
        action.sa_flags = SA_SIGINFO | flags;
        sigaction(SIGUSR2, &action, &before_);
    }
    ~Handler() {
        sigaction(SIGUSR2, &before_, nullptr);
    }
    Handler(const Handler &) = delete;
    Handler &operator=(const Handler &) = delete;

  private:
    struct sigaction before_ {};
};

void raise_signal(void *) {
    raise(SIGUSR2);
}

void compare_in_handlers(std::uint64_t stream) {
    Random random(stream);
    for (std::size_t round = 0; round < scaled(300); round++) {
        Chain chain(raise_signal, nullptr);
        chain.add_random(random, 4);
        signal_pair = {};
        chain.run();
        expect_agreement(signal_pair, "in a handler, " + chain.describe());
    }
}

TEST(Stack, InASignalHandlerIsTheUnwinders) {
    const Handler handler(0);
    compare_in_handlers(2);
}

TEST(Stack, InAHandlerOnAStackOfItsOwnIsTheUnwinders) {
    const Guarded memory(128 << 10);
    stack_t alternate{};
    alternate.ss_sp = memory.data();
    alternate.ss_size = memory.size();
    stack_t before{};
    ASSERT_EQ(sigaltstack(&alternate, &before), 0);
    {
        const Handler handler(SA_ONSTACK);
        compare_in_handlers(3);
    }
    before.ss_flags |= before.ss_sp == nullptr ? SS_DISABLE : 0;
    sigaltstack(&before, nullptr);
}

// ---- Libraries that come and go ------------------------------------------------------------------------

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

TEST(Stack, ThroughALibraryInThePlaceOfAnotherIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(30); i++) {
        compare_in_plugin(HAKMEM_TEST_PLUGIN_SMALL);
        compare_in_plugin(HAKMEM_TEST_PLUGIN_LARGE);
    }
}

// Nothing tells these two from each other but what the tables themselves say.
TEST(Stack, ThroughALibraryWithoutABuildIdInThePlaceOfAnotherIsTheUnwinders) {
    for (std::size_t i = 0; i < scaled(30); i++) {
        compare_in_plugin(HAKMEM_TEST_PLUGIN_SMALL_WITHOUT_ID);
        compare_in_plugin(HAKMEM_TEST_PLUGIN_LARGE_WITHOUT_ID);
    }
}

TEST(Stack, ThroughALibraryThatHidesItsHeaderIsTheUnwinders) {
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

TEST(Stack, ThroughALibraryWithDamagedTablesDoesNoHarm) {
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

TEST(Stack, NeedsNoLockOfTheLoader) {
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

// ---- Code without tables ---------------------------------------------------------------------------

#if defined(__x86_64__)
using hakmem_test::assemble;
using hakmem_test::Assembled;
using hakmem_test::with_a_frame;
using hakmem_test::with_a_given_pointer;

TEST(Stack, GoesOnByFramePointerWhereThereAreNoTables) {
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

TEST(Stack, EndsAtAFramePointerThatIsNone) {
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
TEST(Stack, GoesByTablesOfALibraryThatMayGoOnlyWhereItRuns) {
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

TEST(Stack, GoesByTablesOfALibraryThatItMetBeforeItGuessed) {
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
