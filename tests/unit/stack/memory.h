// Memory for stacks and for code of one's own.
#ifndef HAKMEM_TEST_STACK_MEMORY_H
#define HAKMEM_TEST_STACK_MEMORY_H

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "support/resident.h"

namespace hakmem_test {

// Memory between two pages that cannot be touched.
class Guarded {
  public:
    explicit Guarded(std::size_t bytes) : bytes_(bytes + 2 * kPage) {
        start_ = static_cast<char *>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_NE(start_, MAP_FAILED);
        mprotect(start_, kPage, PROT_NONE);
        mprotect(start_ + bytes_ - kPage, kPage, PROT_NONE);
    }
    ~Guarded() {
        munmap(start_, bytes_);
    }
    Guarded(const Guarded &) = delete;
    Guarded &operator=(const Guarded &) = delete;

    char *data() const {
        return start_ + kPage;
    }
    std::size_t size() const {
        return bytes_ - 2 * kPage;
    }

  private:
    char *start_;
    std::size_t bytes_;
};

#if defined(__x86_64__)
// Machine code that no table knows: calls function(context), with the frame pointer given or with its own.
using Assembled = void(void (*function)(void *), void *context, std::uintptr_t frame_pointer);

inline constexpr unsigned char with_a_given_pointer[] = {
    0x55,             // push %rbp
    0x48, 0x89, 0xD5, // mov %rdx, %rbp
    0x48, 0x89, 0xF8, // mov %rdi, %rax
    0x48, 0x89, 0xF7, // mov %rsi, %rdi
    0xFF, 0xD0,       // call *%rax
    0x5D,             // pop %rbp
    0xC3,             // ret
};
inline constexpr unsigned char with_a_frame[] = {
    0x55,                   // push %rbp
    0x48, 0x89, 0xE5,       // mov %rsp, %rbp
    0x48, 0x83, 0xEC, 0x40, // sub $64, %rsp
    0x48, 0x89, 0xF8,       // mov %rdi, %rax
    0x48, 0x89, 0xF7,       // mov %rsi, %rdi
    0xFF, 0xD0,             // call *%rax
    0xC9,                   // leave
    0xC3,                   // ret
};

template <std::size_t size>
Assembled *assemble(const Guarded &memory, const unsigned char (&code)[size]) {
    std::memcpy(memory.data(), code, size);
    return reinterpret_cast<Assembled *>(memory.data());
}
#endif

} // namespace hakmem_test

#endif
