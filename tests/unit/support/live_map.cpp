#include "support/live_map.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace hakmem_test {

LiveMap::LiveMap() : leaves_(new std::atomic<Word *>[kLeaves]()) {
    static_assert(sizeof(Word) == sizeof(std::uint64_t), "leaves are zero pages used as atomics");
}

LiveMap::~LiveMap() {
    for (std::size_t i = 0; i < kLeaves; i++) {
        Word *leaf = leaves_[i].load(std::memory_order_relaxed);
        if (leaf != nullptr) {
            munmap(static_cast<void *>(leaf), kLeafWords * sizeof(Word));
        }
    }
}

LiveMap::Word &LiveMap::word(std::uintptr_t index) {
    std::atomic<Word *> &entry = leaves_[index / kLeafWords];
    Word *leaf = entry.load(std::memory_order_acquire);
    if (leaf == nullptr) {
        void *pages = mmap(nullptr, kLeafWords * sizeof(Word), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) {
            std::perror("mmap of a live map");
            std::abort();
        }
        leaf = static_cast<Word *>(pages);
        Word *other = nullptr;
        if (!entry.compare_exchange_strong(other, leaf, std::memory_order_acq_rel)) {
            munmap(pages, kLeafWords * sizeof(Word));
            leaf = other;
        }
    }
    return leaf[index % kLeafWords];
}

bool LiveMap::flip(const void *block, std::size_t bytes, bool claiming) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    const std::uintptr_t first = address >> kGranuleBits;
    const std::uintptr_t last = (address + (bytes == 0 ? 0 : bytes - 1)) >> kGranuleBits;
    bool clean = true;
    for (std::uintptr_t index = first / 64; index <= last / 64; index++) {
        const unsigned low = index == first / 64 ? static_cast<unsigned>(first % 64) : 0;
        const unsigned high = index == last / 64 ? static_cast<unsigned>(last % 64) : 63;
        const std::uint64_t mask = (~std::uint64_t{0} >> (63 - high)) & (~std::uint64_t{0} << low);
        Word &bits = word(index);
        const std::uint64_t before = claiming ? bits.fetch_or(mask, std::memory_order_relaxed)
                                              : bits.fetch_and(~mask, std::memory_order_relaxed);
        clean &= (before & mask) == (claiming ? 0 : mask);
    }
    return clean;
}

} // namespace hakmem_test
