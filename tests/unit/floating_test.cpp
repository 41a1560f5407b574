// What the program sees of the floating-point arithmetic that sampling does.
#include "hakmem.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <fcntl.h>
#include <unistd.h>

namespace {

TEST(Floating, ExceptionsOfSamplingAreNotTheProgramsOwn) {
    int nowhere = open("/dev/null", O_WRONLY);
    void *blocks[500];
    std::feclearexcept(FE_ALL_EXCEPT);
    hak_profile_start(1000);
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = hak_malloc(i * 331 % 90000 + 1);
    }
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = hak_realloc(blocks[i], i * 457 % 90000 + 1);
    }
    EXPECT_EQ(hak_profile_leaks(nowhere), 0);
    EXPECT_EQ(hak_profile_fragmentation(nowhere), 0);
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_profile_stop();
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
    close(nowhere);
}

} // namespace
