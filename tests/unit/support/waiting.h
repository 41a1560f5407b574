// Waits for what another thread or the clock brings about.
#ifndef HAKMEM_TEST_WAITING_H
#define HAKMEM_TEST_WAITING_H

#include <chrono>
#include <thread>

namespace hakmem_test {

// Nothing that is waited for takes more than two seconds on an idle machine; past this it does not happen.
inline constexpr std::chrono::seconds kLongEnough{60};

// Whether `condition()` comes to hold; asked again and again.
template <typename Condition>
bool happens(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kLongEnough;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

} // namespace hakmem_test

#endif
