// Options by name.
#ifndef HAKMEM_TEST_OPTIONS_H
#define HAKMEM_TEST_OPTIONS_H

#include <gtest/gtest.h>

#include <string>

#include "hakmem.h"

namespace hakmem_test {

inline hak_option_info_t option_named(const std::string &name) {
    for (int i = 0; i < hak_option_count(); i++) {
        hak_option_info_t option{};
        if (hak_option_info(i, &option) == 0 && name == option.name) {
            return option;
        }
    }
    ADD_FAILURE() << "no option " << name;
    return {};
}

} // namespace hakmem_test

#endif
