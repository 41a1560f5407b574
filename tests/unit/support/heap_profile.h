// A heap profile as the library writes it, read the way pprof does.
#ifndef HAKMEM_TEST_HEAP_PROFILE_H
#define HAKMEM_TEST_HEAP_PROFILE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hakmem_test {

struct Amount {
    double blocks = 0;
    double bytes = 0;
};

struct ProfileLine {
    Amount live;  // as sampled
    Amount total; // likewise
    std::vector<std::uintptr_t> frames;
};

struct HeapProfile {
    double interval = 0;
    ProfileLine header; // no frames
    std::vector<ProfileLine> lines;
    std::string mappings;

    // Scaled up by the samples' weights, over the lines with a frame in [from, to).
    Amount live(std::uintptr_t from = 0, std::uintptr_t to = UINTPTR_MAX) const;
    Amount total(std::uintptr_t from = 0, std::uintptr_t to = UINTPTR_MAX) const;
};

// What a function that takes a descriptor writes to it; an empty text and a test failure if it says -1.
std::string written_by(int (*write)(int fd));

// A gtest failure if the text is not a heap profile.
HeapProfile parse_heap_profile(const std::string &text);
HeapProfile heap_profile_now();

// By how much the estimate of `blocks` blocks of `size` bytes may be off, in bytes: five standard deviations
// and a little for the rounding, so that a test that is right fails once in a million runs.
double estimate_tolerance(double blocks, double size, double interval);

// The interval at which each block is sampled.
constexpr std::size_t kEveryBlock = 1;

// Sampling with this interval and nothing in the profile, until the end of the scope.
class Sampling {
  public:
    explicit Sampling(std::size_t interval);
    ~Sampling();
    Sampling(const Sampling &) = delete;
    Sampling &operator=(const Sampling &) = delete;
};

} // namespace hakmem_test

#endif
