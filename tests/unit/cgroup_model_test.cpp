// The container's memory limits, read from random trees of files, beside a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "os/cgroup.h"
#include "support/cgroup_files.h"
#include "support/random.h"
#include "support/scale.h"

namespace {

using hakmem_test::Cgroup;
using hakmem_test::kNone;
using hakmem_test::kUnlimitedV1;
using hakmem_test::kV1Mount;
using hakmem_test::kV2Mount;
using hakmem_test::Random;
using hakmem_test::scaled;

// One level of the hierarchy: texts as the files may have them, and what they mean.
struct Figure {
    std::optional<std::string> text; // none: no such file
    std::uint64_t value;             // kNone: it says nothing
};

Figure random_figure(Random &random) {
    static const std::vector<std::string> nonsense = {"",
                                                      "\n",
                                                      "max\n",
                                                      "max",
                                                      "-1\n",
                                                      "12 34x\n" + std::string(600, 'x'),
                                                      "0x10\n",
                                                      "1.5.x\n",
                                                      "1.5\n",
                                                      "1K\n",
                                                      " 5\n",
                                                      "mäx\n",
                                                      "9\xff\n",
                                                      "99999999999999999999999999\n",
                                                      "maximum 5\n",
                                                      ".5\n",
                                                      "5,000\n",
                                                      std::string("7\0\n", 3),
                                                      "18446744073709551615\n",
                                                      std::to_string(kUnlimitedV1) + "\n"};
    switch (random.below(6)) {
    case 0:
        return {std::nullopt, kNone};
    case 1:
    case 2: {
        const std::string &text = nonsense[random.below(nonsense.size())];
        return {text, text.rfind("12 34", 0) == 0 ? 12 : kNone};
    }
    default:
        const std::uint64_t value = random.log_uniform(50);
        return {std::to_string(value) + (random.one_in(5) ? "" : "\n"), value};
    }
}

std::uint64_t or_0(std::uint64_t value) {
    return value == kNone ? 0 : value;
}

TEST_F(Cgroup, AgreesWithAModelForAnyLevelsAndContents) {
    Random random(1);
    for (std::size_t round = 0; round < scaled(2000) && !HasFailure(); round++) {
        const bool v1 = random.one_in(3);
        const std::string mount = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
        remove("/sys");
        std::string group;
        cgroup_memory expected{kNone, kNone, 0, 0, 0};
        const std::size_t depth = random.below(8);
        std::vector<std::string> levels = {mount};
        for (std::size_t i = 0; i < depth; i++) {
            group += "/l" + std::to_string(random.below(3));
            levels.push_back(mount + group);
        }
        // From the inside out, as ties are the innermost's.
        for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
            folder(*level);
            const auto put = [&](const char *name, const Figure &figure, const std::string &before = "") {
                if (figure.text) {
                    file(*level + name, before + *figure.text);
                }
                return figure.value;
            };
            const std::uint64_t max =
                put(v1 ? "/memory.limit_in_bytes" : "/memory.max", random_figure(random));
            const std::uint64_t current =
                put(v1 ? "/memory.usage_in_bytes" : "/memory.current", random_figure(random));
            std::uint64_t high = kNone;
            std::string stat = "anon 12\nworkingset 3\n";
            if (v1) {
                const Figure all = random_figure(random);
                if (all.text) {
                    stat += "hierarchical_memory_limit " + *all.text + "\n";
                    high = all.value;
                }
            } else {
                high = put("/memory.high", random_figure(random));
                const std::uint64_t events =
                    put("/memory.events.local", random_figure(random), "low 5\nhigh ");
                expected.throttled += high == kNone ? 0 : or_0(events);
            }
            const std::uint64_t cache =
                put("/memory.stat", random_figure(random),
                    stat + std::string(random.below(700), 'x') + (v1 ? "\ntotal_" : "\n") + "inactive_file ");
            if (v1 && !std::filesystem::exists(root_ + *level + "/memory.stat")) {
                high = kNone;
            }
            const std::uint64_t limit = std::min(max, high);
            if (limit != kNone) {
                const std::uint64_t used = or_0(current) - std::min(or_0(current), or_0(cache));
                const std::uint64_t room = limit - std::min(limit, used);
                expected.limit_bytes = std::min(expected.limit_bytes, limit);
                if (room < expected.room_bytes) {
                    expected.room_bytes = room;
                    expected.used_bytes = used;
                }
            }
        }
        system((v1 ? "7:memory:" : "0::") + (group.empty() ? "/" : group) + "\n", v1 ? kV1Mount : kV2Mount);
        const auto memory = read();
        ASSERT_TRUE(memory);
        EXPECT_EQ(memory->limit_bytes, expected.limit_bytes);
        EXPECT_EQ(memory->room_bytes, expected.room_bytes);
        EXPECT_EQ(memory->used_bytes, expected.used_bytes);
        EXPECT_EQ(memory->throttled, expected.throttled);
    }
}

} // namespace
