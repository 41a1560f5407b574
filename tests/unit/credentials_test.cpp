// The program's credentials: whatever of them is dropped, the number that stands for them is another one.
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>

#include "support/child.h"

extern "C" {
#include "os/credentials.h"
#include "os/os.h"
}

namespace {

constexpr id_t kNobody = 65534;
constexpr id_t kAsItIs = static_cast<id_t>(-1);

bool drop_capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    return syscall(SYS_capset, &header, data) == 0;
}

// In a child, which alone has the new ones.
void expect_to_be_noticed(const std::function<bool()> &change) {
    hakmem_test::expect_child_to_succeed([&] {
        const auto credentials = [] { return os_credentials(os_thread_id()); };
        const std::uint64_t before = credentials();
        const bool still_same = credentials() == before;
        return before != 0 && still_same && change() && credentials() != before ? 0 : 1;
    });
}

TEST(Credentials, ThatAnyUserCanDropAreNoticed) {
    expect_to_be_noticed([] { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; });
}

// Each alone: the saved ids are given up without any capability. Only root has something to drop.
TEST(Credentials, ThatRootDropsAreNoticed) {
    if (geteuid() == 0) {
        expect_to_be_noticed([] { return setresuid(kAsItIs, kAsItIs, kNobody) == 0; });
        expect_to_be_noticed([] { return setresgid(kAsItIs, kAsItIs, kNobody) == 0; });
        expect_to_be_noticed([] { return setgroups(1, &kNobody) == 0; });
        expect_to_be_noticed(drop_capabilities);
    }
}

} // namespace
