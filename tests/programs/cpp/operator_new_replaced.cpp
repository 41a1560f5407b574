// A program that replaces the plain and the aligned forms of operator new and delete, or only those of arrays
// (ARRAYS): the others have to call these.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

// Not memory of any allocator's: whoever gets a block by another way ends the program.
alignas(64) unsigned char pool[8 << 20];
std::size_t used;
long taken, given;

void *take(std::size_t size, std::size_t alignment) {
    used = (used + alignment - 1) / alignment * alignment;
    if (sizeof pool - used < size) {
        return nullptr;
    }
    void *p = pool + used;
    used += size;
    taken++;
    return p;
}

void give(void *p) {
    auto at = reinterpret_cast<std::uintptr_t>(p);
    auto begin = reinterpret_cast<std::uintptr_t>(pool);
    if (p != nullptr && (at < begin || at >= begin + sizeof pool)) {
        std::puts("a block of another allocator");
        std::exit(1);
    }
    given += p != nullptr;
}

struct Base {
    virtual ~Base() = default;
    int values[9];
};
struct Derived : Base {
    long more[5];
};
struct alignas(64) Aligned {
    char bytes[64];
};

template <class T>
void make_and_drop() {
    delete new T;
    delete[] new T[3];
    delete new (std::nothrow) T;
    delete[] new (std::nothrow) T[3];
}

} // namespace

#ifdef ARRAYS
#define NEW operator new[]
#define DELETE operator delete[]
#define SERVED 12000 /* of each four blocks two */
#else
#define NEW operator new
#define DELETE operator delete
#define SERVED 24000
#endif

void *NEW(std::size_t size) {
    if (void *p = take(size, 16)) {
        return p;
    }
    throw std::bad_alloc();
}
void DELETE(void *p) noexcept {
    give(p);
}
void *NEW(std::size_t size, std::align_val_t alignment) {
    if (void *p = take(size, static_cast<std::size_t>(alignment))) {
        return p;
    }
    throw std::bad_alloc();
}
void DELETE(void *p, std::align_val_t) noexcept {
    give(p);
}

int main() {
    for (int i = 0; i < 2000; i++) {
        make_and_drop<Derived>();
        make_and_drop<int>();
        make_and_drop<Aligned>();
    }
    std::vector<int> numbers(10000);
    for (std::size_t i = 0; i < numbers.size(); i++) {
        numbers[i] = static_cast<int>(i * 7919 % 10007);
    }
    std::stable_sort(numbers.begin(), numbers.end()); // its buffer is quietly taken, and plainly given
    bool none = new (std::nothrow) char[sizeof pool] == nullptr;
    std::printf("%s %s %s\n", taken >= SERVED ? "taken" : "bypassed", given >= SERVED ? "given" : "bypassed",
                none ? "refused" : "served");
    return 0;
}
