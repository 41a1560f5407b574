// Every form of operator new and delete, the new-handler, and bad_alloc: operator_new_forms <check>.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

void require(bool condition, const char *what) {
    if (condition)
        return;
    std::fprintf(stderr, "not true: %s\n", what);
    std::_Exit(1);
}

#define REQUIRE(condition) require((condition), #condition)

// Volatile, so that the compiler neither rejects nor folds the request.
volatile std::size_t impossible = static_cast<std::size_t>(-1) / 2;
// A result that nobody looks at would let the compiler drop the call.
void *volatile seen;
const std::size_t sizes[] = {0, 1, 8, 9, 100, 1024, 5000, 65536, 300000, 3000000};
const std::size_t alignments[] = {16, 32, 64, 256, 4096, 65536, 1 << 21};

void use(void *block, std::size_t size, std::size_t alignment) {
    REQUIRE(block != nullptr);
    REQUIRE(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    REQUIRE(malloc_usable_size(block) >= size);
    std::memset(block, 0x77, size);
}

std::size_t natural_alignment(std::size_t size) {
    return size <= 8 ? 8 : 16;
}

void check_plain_forms() {
    for (std::size_t size : sizes) {
        void *single = ::operator new(size);
        void *array = ::operator new[](size);
        void *quiet = ::operator new(size, std::nothrow);
        void *quiet_array = ::operator new[](size, std::nothrow);
        for (void *block : {single, array, quiet, quiet_array})
            use(block, size, natural_alignment(size));
        ::operator delete(single);
        ::operator delete[](array);
        ::operator delete(quiet, std::nothrow);
        ::operator delete[](quiet_array, std::nothrow);
        single = ::operator new(size);
        array = ::operator new[](size);
        ::operator delete(single, size);
        ::operator delete[](array, size);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::nothrow);
    ::operator delete[](nullptr, std::nothrow);
    ::operator delete (nullptr, std::align_val_t{64});
    ::operator delete[](nullptr, std::align_val_t{64});
}

void check_aligned_forms() {
    for (std::size_t size : sizes)
        for (std::size_t alignment : alignments) {
            const std::align_val_t align{alignment};
            void *single = ::operator new(size, align);
            void *array = ::operator new[](size, align);
            void *quiet = ::operator new(size, align, std::nothrow);
            void *quiet_array = ::operator new[](size, align, std::nothrow);
            for (void *block : {single, array, quiet, quiet_array})
                use(block, size, alignment);
            ::operator delete(single, align);
            ::operator delete[](array, align);
            ::operator delete(quiet, align, std::nothrow);
            ::operator delete[](quiet_array, align, std::nothrow);
            single = ::operator new(size, align);
            array = ::operator new[](size, align);
            ::operator delete(single, size, align);
            ::operator delete[](array, size, align);
        }
}

template <typename Allocate>
void require_bad_alloc(Allocate allocate) {
    bool thrown = false;
    try {
        seen = allocate();
    } catch (const std::bad_alloc &error) {
        thrown = std::string(error.what()).size() > 0;
    }
    REQUIRE(thrown);
}

void check_bad_alloc_is_thrown() {
    require_bad_alloc([] { return ::operator new(impossible); });
    require_bad_alloc([] { return ::operator new[](impossible); });
    require_bad_alloc([] { return ::operator new (impossible, std::align_val_t{64}); });
    require_bad_alloc([] { return ::operator new[](impossible, std::align_val_t{64}); });
    require_bad_alloc([] { return static_cast<void *>(new char[impossible]); });
    std::thread([] { require_bad_alloc([] { return ::operator new(impossible); }); }).join();
}

void check_nothrow_gives_null() {
    REQUIRE(::operator new(impossible, std::nothrow) == nullptr);
    REQUIRE(::operator new[](impossible, std::nothrow) == nullptr);
    REQUIRE(::operator new (impossible, std::align_val_t{64}, std::nothrow) == nullptr);
    REQUIRE(::operator new[](impossible, std::align_val_t{64}, std::nothrow) == nullptr);
}

int handler_calls = 0;
constexpr int handler_limit = 3;

void giving_up_handler() {
    if (++handler_calls % handler_limit == 0)
        std::set_new_handler(nullptr);
}

struct HandlerGaveUp {};

void throwing_handler() {
    throw HandlerGaveUp();
}

struct HandlerBadAlloc : std::bad_alloc {};

void throwing_bad_alloc_handler() {
    throw HandlerBadAlloc();
}

void check_new_handler_is_called() {
    std::set_new_handler(giving_up_handler);
    require_bad_alloc([] { return ::operator new(impossible); });
    REQUIRE(handler_calls == handler_limit);
    std::set_new_handler(giving_up_handler);
    REQUIRE(::operator new(impossible, std::nothrow) == nullptr);
    REQUIRE(handler_calls == 2 * handler_limit);
    std::set_new_handler(giving_up_handler);
    require_bad_alloc([] { return ::operator new (impossible, std::align_val_t{128}); });
    REQUIRE(handler_calls == 3 * handler_limit);
    std::set_new_handler(throwing_handler);
    bool passed_through = false;
    try {
        seen = ::operator new(impossible);
    } catch (const HandlerGaveUp &) {
        passed_through = true;
    }
    REQUIRE(passed_through);
    // A nothrow form swallows what the handler throws, if it is a bad_alloc.
    std::set_new_handler(throwing_bad_alloc_handler);
    REQUIRE(::operator new(impossible, std::nothrow) == nullptr);
    REQUIRE(::operator new[](impossible, std::nothrow) == nullptr);
    std::set_new_handler(nullptr);
}

struct alignas(128) Wide {
    unsigned char bytes[384];
};

struct ThrowsInConstructor {
    std::vector<int> values;
    explicit ThrowsInConstructor(int count) : values(static_cast<std::size_t>(count), 7) {
        if (count % 2 == 1)
            throw count;
    }
};

void check_objects_and_containers() {
    for (int round = 0; round < 300; round++) {
        Wide *wide = new Wide;
        Wide *several = new Wide[5];
        REQUIRE(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0);
        REQUIRE(reinterpret_cast<std::uintptr_t>(several) % 128 == 0);
        delete wide;
        delete[] several;
        std::vector<Wide> wides(static_cast<std::size_t>(round % 40) + 1);
        REQUIRE(reinterpret_cast<std::uintptr_t>(wides.data()) % 128 == 0);
        int caught = 0;
        try {
            delete new ThrowsInConstructor(round);
        } catch (int count) {
            caught = count;
        }
        REQUIRE(caught == (round % 2 == 1 ? round : 0));
    }
}

struct Check {
    const char *name;
    void (*run)();
};

const Check checks[] = {
    {"plain_forms", check_plain_forms},
    {"aligned_forms", check_aligned_forms},
    {"bad_alloc_is_thrown", check_bad_alloc_is_thrown},
    {"nothrow_gives_null", check_nothrow_gives_null},
    {"new_handler_is_called", check_new_handler_is_called},
    {"objects_and_containers", check_objects_and_containers},
};

} // namespace

int main(int argc, char **argv) {
    for (const Check &check : checks)
        if (argc == 2 && std::strcmp(argv[1], check.name) == 0) {
            check.run();
            return 0;
        }
    std::fprintf(stderr, "usage: operator_new_forms <check>\n");
    return 2;
}
