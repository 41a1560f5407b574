// Which bytes of the address space belong to live blocks: one bit for every 8 bytes.
//
// Promises that two claims never cover the same byte unnoticed, whichever threads make them. All
// accesses are relaxed, so that the map orders nothing between threads and a sanitizer still sees
// whether the allocator itself does.
#ifndef HAKMEM_TEST_LIVE_MAP_H
#define HAKMEM_TEST_LIVE_MAP_H

#include "arena/layout.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace hakmem_test {

class LiveMap {
  public:
    LiveMap();
    ~LiveMap();
    LiveMap(const LiveMap &) = delete;
    LiveMap &operator=(const LiveMap &) = delete;

    // False if a part of the block was claimed already.
    bool claim(const void *block, std::size_t bytes) {
        return flip(block, bytes, true);
    }
    // False if a part of the block was not claimed.
    bool release(const void *block, std::size_t bytes) {
        return flip(block, bytes, false);
    }

  private:
    using Word = std::atomic<std::uint64_t>;

    static constexpr unsigned kAddressBits = ADDRESS_BITS;
    static constexpr unsigned kGranuleBits = 3;
    static constexpr unsigned kWordBits = kGranuleBits + 6;
    static constexpr unsigned kLeafBits = 30;
    static constexpr std::size_t kLeaves = std::size_t{1} << (kAddressBits - kLeafBits);
    static constexpr std::size_t kLeafWords = std::size_t{1} << (kLeafBits - kWordBits);

    bool flip(const void *block, std::size_t bytes, bool claiming);
    Word &word(std::uintptr_t index);

    std::unique_ptr<std::atomic<Word *>[]> leaves_;
};

} // namespace hakmem_test

#endif
