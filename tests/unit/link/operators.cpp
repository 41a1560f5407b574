// An ordinary C++ program: operator new and delete, in all their forms, must be HAKMEM's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"

namespace {

void expect(bool holds, const char *what) {
    if (!holds) {
        std::fprintf(stderr, "operators: broken: %s\n", what);
        std::exit(1);
    }
}

std::uint64_t live_blocks() {
    hak_tiny_magazine_flush_all();
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.live_blocks;
}

struct alignas(256) Overaligned {
    char bytes[300];
};

// The compiler may leave out a new with its delete unless the pointer escapes.
template <typename T>
T *escape(T *pointer) {
    asm volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

void forms_of_new_and_delete() {
    const std::uint64_t before = live_blocks();
    int *one = escape(new int(7));
    int *many = escape(new int[1000]());
    auto *aligned = escape(new Overaligned);
    auto *quiet = escape(new (std::nothrow) Overaligned[3]);
    expect(live_blocks() == before + 4, "every new is a block of HAKMEM's");
    expect(*one == 7 && many[999] == 0, "new initialises");
    expect(reinterpret_cast<std::uintptr_t>(aligned) % alignof(Overaligned) == 0, "new aligns");
    expect(reinterpret_cast<std::uintptr_t>(quiet) % alignof(Overaligned) == 0, "new[] aligns");
    delete one;
    delete[] many;
    delete aligned;
    delete[] quiet;
    expect(live_blocks() == before, "every delete reaches HAKMEM");
}

void failure_throws_or_gives_null() {
    volatile std::size_t impossible = SIZE_MAX / 2;
    bool thrown = false;
    try {
        ::operator delete(escape(::operator new(impossible)));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    expect(thrown, "new of an impossible size throws bad_alloc");
    expect(::operator new(impossible, std::nothrow) == nullptr, "nothrow new gives NULL");
    expect(::operator new (impossible, std::align_val_t{64}, std::nothrow) == nullptr,
           "aligned nothrow new gives NULL");
}

void new_handler_gets_its_turn() {
    static int calls;
    std::set_new_handler([] {
        calls++;
        if (calls == 3) {
            std::set_new_handler(nullptr);
        }
    });
    volatile std::size_t impossible = SIZE_MAX / 2;
    expect(::operator new(impossible, std::nothrow) == nullptr, "nothrow new gives NULL in the end");
    expect(calls == 3, "the new handler is called until it gives up");
}

void containers_in_threads() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++) {
        threads.emplace_back([number] {
            std::map<int, std::string> names;
            for (int i = 0; i < 5000; i++) {
                names[i] = std::string(static_cast<std::size_t>(i % 200), static_cast<char>('a' + number));
            }
            for (const auto &entry : names) {
                expect(entry.second.size() == static_cast<std::size_t>(entry.first % 200),
                       "a string keeps its size");
                expect(entry.second.find_first_not_of(static_cast<char>('a' + number)) == std::string::npos,
                       "a string keeps its contents");
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

} // namespace

int main() {
    forms_of_new_and_delete();
    failure_throws_or_gives_null();
    new_handler_gets_its_turn();
    containers_in_threads();
    std::puts("operators: fine");
    return 0;
}
