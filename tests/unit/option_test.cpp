// Options through the API: every one describes itself, and bad names and values are refused.
#include <gtest/gtest.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/options.h"

namespace {

using hakmem_test::option_named;

std::vector<hak_option_info_t> all_options() {
    std::vector<hak_option_info_t> options(static_cast<std::size_t>(hak_option_count()));
    for (std::size_t i = 0; i < options.size(); i++) {
        EXPECT_EQ(hak_option_info(static_cast<int>(i), &options[i]), 0) << i;
    }
    return options;
}

std::string environment_name_of(const std::string &name) {
    std::string upper = "HAKMEM_";
    for (const char c : name) {
        upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return upper;
}

// What no option of the type can mean; strings may take anything.
std::vector<std::string> nonsense_for(const std::string &type) {
    if (type == "bool") {
        return {"", "maybe", "2", "yes please", "1 "};
    }
    if (type == "size") {
        return {"", "big", "-1", "12Q", "K", "1MM", "1 M", "99999999999999999999", "99999999999G"};
    }
    if (type == "choice") {
        return {"", "no such thing", "0", "speed ", "memor", "memoryy"};
    }
    if (type == "int") {
        return {"", "many", "1x", "0x", "99999999999999999999", "1.5"};
    }
    return {};
}

TEST(Option, EveryOneDescribesItself) {
    const std::set<std::string> types = {"bool", "size", "int", "string", "choice"};
    const std::set<std::string> sources = {"default", "profile", "hakmem_conf", "environment", "api"};
    std::set<std::string> names;
    ASSERT_GT(hak_option_count(), 0);
    for (const hak_option_info_t &option : all_options()) {
        SCOPED_TRACE(option.name);
        EXPECT_TRUE(names.insert(option.name).second) << "a name that is used twice";
        EXPECT_EQ(option.environment, environment_name_of(option.name));
        EXPECT_EQ(types.count(option.type), 1u) << option.type;
        EXPECT_EQ(sources.count(option.source), 1u) << option.source;
        ASSERT_NE(option.default_value, nullptr);
        ASSERT_NE(option.description, nullptr);
        EXPECT_GT(std::strlen(option.description), 10u);
        EXPECT_NE(std::memchr(option.value, 0, sizeof option.value), nullptr) << "a value without an end";
    }
}

TEST(Option, WithoutAnyoneSettingItTheDefaultIsInForce) {
    for (const hak_option_info_t &option : all_options()) {
        if (std::getenv(option.environment) == nullptr) {
            EXPECT_STREQ(option.source, "default") << option.name;
            // Setting the default must change nothing: it may be written with a suffix that values do not
            // have.
            errno = 0;
            if (hak_option_set(option.name, option.default_value) == 0) {
                EXPECT_STREQ(option_named(option.name).value, option.value) << option.name;
            } else {
                EXPECT_EQ(errno, EPERM) << option.name;
            }
        }
    }
}

TEST(Option, WhatInfoShowsCanBeSet) {
    for (const hak_option_info_t &option : all_options()) {
        SCOPED_TRACE(option.name);
        errno = 0;
        if (hak_option_set(option.name, option.value) == 0) {
            const hak_option_info_t now = option_named(option.name);
            EXPECT_STREQ(now.value, option.value);
            EXPECT_STREQ(now.source, "api");
        } else {
            EXPECT_EQ(errno, EPERM) << "only an option that is fixed at the start may refuse its own value";
        }
    }
}

TEST(Option, ABoolCanBeSwitchedAndBack) {
    std::size_t switched = 0;
    for (const hak_option_info_t &option : all_options()) {
        if (std::strcmp(option.type, "bool") != 0) {
            continue;
        }
        const std::string before = option.value;
        const std::string other = before == "1" ? "0" : "1";
        errno = 0;
        if (hak_option_set(option.name, other.c_str()) != 0) {
            EXPECT_EQ(errno, EPERM) << option.name;
            continue;
        }
        switched++;
        EXPECT_EQ(option_named(option.name).value, other);
        EXPECT_EQ(hak_option_set(option.name, before.c_str()), 0) << option.name;
        EXPECT_EQ(option_named(option.name).value, before);
    }
    EXPECT_GT(switched, 0u);
}

TEST(Option, SizesTakeSuffixes) {
    std::size_t taken = 0;
    for (const hak_option_info_t &option : all_options()) {
        if (std::strcmp(option.type, "size") != 0) {
            continue;
        }
        const std::string before = option.value;
        errno = 0;
        if (hak_option_set(option.name, "8M") != 0) {
            EXPECT_TRUE(errno == EPERM || errno == EINVAL) << option.name;
            continue;
        }
        taken++;
        const std::string with_suffix = option_named(option.name).value;
        EXPECT_EQ(hak_option_set(option.name, "8388608"), 0) << option.name;
        EXPECT_EQ(option_named(option.name).value, with_suffix);
        EXPECT_EQ(hak_option_set(option.name, "8192K"), 0) << option.name;
        EXPECT_EQ(option_named(option.name).value, with_suffix);
        EXPECT_EQ(hak_option_set(option.name, before.c_str()), 0) << option.name;
    }
    EXPECT_GT(taken, 0u);
}

TEST(Option, NonsenseIsRefusedAndChangesNothing) {
    for (const hak_option_info_t &option : all_options()) {
        for (const std::string &value : nonsense_for(option.type)) {
            SCOPED_TRACE(option.name + (" = \"" + value) + "\"");
            errno = 0;
            EXPECT_EQ(hak_option_set(option.name, value.c_str()), -1);
            EXPECT_TRUE(errno == EINVAL || errno == EPERM) << std::strerror(errno);
            EXPECT_STREQ(option_named(option.name).value, option.value);
            EXPECT_STREQ(option_named(option.name).source, option.source);
        }
    }
}

TEST(Option, AnUnknownNameGivesEnoent) {
    for (const char *name : {"", "no_such_option", "HAKMEM_STATS", "stats ", "stat"}) {
        errno = 0;
        EXPECT_EQ(hak_option_set(name, "1"), -1) << name;
        EXPECT_EQ(errno, ENOENT) << name;
    }
}

TEST(Option, AnIndexThatIsNoneGivesEinval) {
    for (int index : {-1, hak_option_count(), INT_MIN, INT_MAX}) {
        hak_option_info_t option{};
        errno = 0;
        EXPECT_EQ(hak_option_info(index, &option), -1) << index;
        EXPECT_EQ(errno, EINVAL) << index;
    }
}

TEST(Option, VersionIsThatOfTheHeader) {
    const std::string version = std::to_string(HAKMEM_VERSION_MAJOR) + "." +
                                std::to_string(HAKMEM_VERSION_MINOR) + "." +
                                std::to_string(HAKMEM_VERSION_PATCH);
    EXPECT_EQ(hak_version(), version);
}

} // namespace
