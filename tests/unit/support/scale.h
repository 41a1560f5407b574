// How much work the long tests do: the full count in a plain build, a part of it under a sanitizer.
#ifndef HAKMEM_TEST_SCALE_H
#define HAKMEM_TEST_SCALE_H

#include <cstddef>

#ifndef HAKMEM_TEST_DIVISOR
#error "tests/unit/CMakeLists.txt defines HAKMEM_TEST_DIVISOR (1 in a plain build)"
#endif

namespace hakmem_test {

constexpr std::size_t scaled(std::size_t count) {
    return count / HAKMEM_TEST_DIVISOR > 0 ? count / HAKMEM_TEST_DIVISOR : 1;
}

} // namespace hakmem_test

#endif
