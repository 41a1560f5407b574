// What the kernel knows of madvise.
#ifndef HAKMEM_TEST_ADVICE_H
#define HAKMEM_TEST_ADVICE_H

#include <sys/mman.h>

#include "support/resident.h"

namespace hakmem_test {

inline bool kernel_takes_advice(int advice) {
    void *page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool takes = madvise(page, kPage, advice) == 0;
    munmap(page, kPage);
    return takes;
}

} // namespace hakmem_test

#endif
