// Random numbers for the tests, all drawn from one seed.
//
// Promises that a run can be repeated: the seed is printed once for a process, and the environment
// variable HAKMEM_TEST_SEED sets it.
#ifndef HAKMEM_TEST_RANDOM_H
#define HAKMEM_TEST_RANDOM_H

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hakmem_test {

std::uint64_t test_seed();

class Random {
  public:
    // Streams of one seed are independent: give every thread its own number.
    explicit Random(std::uint64_t stream) : state_(test_seed() + stream * 0xD1342543DE82EF95u) {
    }

    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    // 0 .. bound-1; the bias of the multiplication is far below what a test can see.
    std::uint64_t below(std::uint64_t bound) {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
    }

    bool one_in(std::uint64_t n) {
        return below(n) == 0;
    }

    // 0 .. 2^bits - 1, every doubling equally likely.
    std::size_t log_uniform(unsigned bits) {
        const std::uint64_t power = below(bits + 1);
        if (power == 0) {
            return 0;
        }
        const std::uint64_t half = std::uint64_t{1} << (power - 1);
        return static_cast<std::size_t>(half + below(half));
    }

  private:
    std::uint64_t state_;
};

// Of all orders, each is equally likely.
template <typename Sequence>
void shuffle(Sequence &sequence, Random &random) {
    for (std::size_t i = sequence.size(); i > 1; i--) {
        std::swap(sequence[i - 1], sequence[random.below(i)]);
    }
}

} // namespace hakmem_test

#endif
