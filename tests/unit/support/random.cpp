#include "support/random.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace hakmem_test {

namespace {

std::uint64_t choose_seed() {
    std::uint64_t seed = 0;
    const char *text = std::getenv("HAKMEM_TEST_SEED");
    if (text != nullptr) {
        char *end = nullptr;
        seed = std::strtoull(text, &end, 0);
        if (end == text || *end != '\0') {
            std::fprintf(stderr, "HAKMEM_TEST_SEED: \"%s\" is not a number; give a decimal or 0x number\n",
                         text);
            std::exit(2);
        }
    } else {
        std::random_device device;
        seed = (static_cast<std::uint64_t>(device()) << 32) | device();
    }
    // A test that starts its own program again continues with the same seed.
    setenv("HAKMEM_TEST_SEED", std::to_string(seed).c_str(), 0);
    std::printf("seed: repeat with HAKMEM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    return seed;
}

} // namespace

std::uint64_t test_seed() {
    static const std::uint64_t seed = choose_seed();
    return seed;
}

} // namespace hakmem_test
