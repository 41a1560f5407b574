// Whether the container is short of memory, of whatever its files say.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "support/cgroup_files.h"

extern "C" {
#include "arena/scarcity.h"
}

namespace {

using hakmem_test::Cgroup;
using hakmem_test::kMiB;
using hakmem_test::kV2Mount;

// A container with plenty of room, which nobody has told of anything yet.
class Scarcity : public Cgroup {
  protected:
    void SetUp() override {
        Cgroup::SetUp();
        system("0::/a\n", kV2Mount);
        tells("memory.max", std::to_string(1000 * kMiB));
        tells("memory.current", std::to_string(100 * kMiB));
        is_scarce();
    }

    void tells(const std::string &name, const std::string &contents) const {
        file("/sys/fs/cgroup/a/" + name, contents + "\n");
    }

    static bool is_scarce() {
        return scarcity_read(false, 0);
    }
};

TEST_F(Scarcity, IsWhereLittleRoomIsLeft) {
    EXPECT_FALSE(is_scarce());
    tells("memory.current", std::to_string(930 * kMiB));
    EXPECT_FALSE(is_scarce());
    tells("memory.current", std::to_string(940 * kMiB));
    EXPECT_TRUE(is_scarce());
}

TEST_F(Scarcity, IsWhereTasksWaitForMemoryWhateverTheRoom) {
    tells("memory.pressure", "some avg10=4.90 avg60=9.00 avg300=9.00 total=99");
    EXPECT_FALSE(is_scarce());
    tells("memory.pressure", "some avg10=5.10 avg60=0.00 avg300=0.00 total=99");
    EXPECT_TRUE(is_scarce());
    tells("memory.max", "max");
    EXPECT_FALSE(is_scarce()) << "no limit, nothing to keep away from";
}

TEST_F(Scarcity, IsWhereTasksHaveJustBeenHeldUpWhateverTheRoom) {
    tells("memory.high", std::to_string(900 * kMiB));
    EXPECT_FALSE(is_scarce());
    tells("memory.events.local", "low 0\nhigh 17\nmax 0");
    EXPECT_TRUE(is_scarce());
    EXPECT_FALSE(is_scarce()) << "not again since";
    tells("memory.events.local", "low 0\nhigh 18\nmax 0");
    EXPECT_TRUE(is_scarce());
}

} // namespace
