// Whether the kernel gives huge pages at all.
#ifndef HAKMEM_TEST_HUGE_PAGES_H
#define HAKMEM_TEST_HUGE_PAGES_H

#include <fstream>
#include <string>

namespace hakmem_test {

inline bool kernel_has_huge_pages() {
    std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line;
    std::getline(setting, line);
    return line.find("[never]") == std::string::npos && !line.empty();
}

} // namespace hakmem_test

#endif
