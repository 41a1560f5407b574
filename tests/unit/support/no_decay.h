// Nothing is given back for being idle.
#ifndef HAKMEM_TEST_NO_DECAY_H
#define HAKMEM_TEST_NO_DECAY_H

#include "hakmem.h"

namespace hakmem_test {

// Neither a period passes, nor is there a thread that waits for one.
class NoDecay {
  public:
    NoDecay() {
        hak_option_set("decay_ms", "1000000");
        hak_option_set("background_thread", "0");
    }
    ~NoDecay() {
        hak_option_set("background_thread", "1");
        hak_option_set("decay_ms", "500");
    }
    NoDecay(const NoDecay &) = delete;
    NoDecay &operator=(const NoDecay &) = delete;
};

} // namespace hakmem_test

#endif
