// What the process holds, as the kernel says, and arrays that do not disturb that measurement.
//
// Promises that neither reading nor the arrays allocate from any heap.
#ifndef HAKMEM_TEST_RESIDENT_H
#define HAKMEM_TEST_RESIDENT_H

#include <cstddef>
#include <cstdint>

namespace hakmem_test {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::size_t kPage = 4 * kKiB;

std::size_t resident_bytes();
std::size_t address_space_bytes();

// Page faults of the process.
std::size_t faults_so_far();

// Writes to a byte in each `step`, and so to each page of the block or to a part of them.
void touch(void *block, std::size_t bytes, std::size_t step);

// Writes to each byte, unseen by ThreadSanitizer, which would need four times that memory for it, and as much
// time: for tests of what is resident, not for those of several threads that share blocks.
void dirty(void *block, std::size_t bytes, int value);

// Resident memory relative to the moment of construction.
class ResidentMeter {
  public:
    ResidentMeter() : start_(resident_bytes()) {
    }

    std::ptrdiff_t growth() const {
        return static_cast<std::ptrdiff_t>(resident_bytes()) - static_cast<std::ptrdiff_t>(start_);
    }

    // Waits until no more is resident than that, or for long enough; where nobody judges, for a moment.
    void wait_for_growth_within(std::size_t bound) const;

    // A gtest expectation. A sanitizer keeps the shadow of all memory ever touched, so that resident
    // memory says nothing about the allocator there and only the plain build judges.
    void expect_growth_within(std::size_t bound, const char *when) const;

  private:
    std::size_t start_;
};

// Block pointers in pages of their own, resident from the start.
class PointerArray {
  public:
    explicit PointerArray(std::size_t count);
    ~PointerArray();
    PointerArray(const PointerArray &) = delete;
    PointerArray &operator=(const PointerArray &) = delete;

    std::size_t size() const {
        return count_;
    }
    void *&operator[](std::size_t index) {
        return pointers_[index];
    }
    void **begin() {
        return pointers_;
    }
    void **end() {
        return pointers_ + count_;
    }

  private:
    void **pointers_;
    std::size_t count_;
};

void free_all(PointerArray &blocks);

} // namespace hakmem_test

#endif
