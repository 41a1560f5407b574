#include "stack/links.h"

#include <alloca.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <sstream>
#include <utility>

#ifndef HAKMEM_TEST_LINKS
#error "CMakeLists.txt builds this file several times: HAKMEM_TEST_LINKS names what it defines"
#endif

namespace hakmem_test {

namespace {

#define LINK [[gnu::noinline]] void

// Keeps a call from becoming a jump, and a buffer from going away.
inline void keep(void *what = nullptr) {
    asm volatile("" ::"r"(what) : "memory");
}

LINK plain(Chain &chain) {
    chain.next();
    keep();
}

LINK alloca_room(Chain &chain, std::size_t bytes) {
    void *room = alloca(bytes);
    keep(room);
    chain.next();
    keep(room);
}

LINK variable_arguments(Chain *chain, int count, ...) {
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += va_arg(list, double);
    }
    va_end(list);
    chain->next();
    keep(&sum);
}

LINK realigned(Chain &chain, std::size_t bytes) {
    alignas(128) char buffer[256];
    std::memset(buffer, 1, sizeof buffer);
    void *room = alloca(bytes);
    keep(buffer);
    chain.next();
    keep(buffer);
    keep(room);
}

LINK takes_many(Chain &chain, long a, long b, long c, long d, long e, long f, long g, long h, long i) {
    long sum[] = {a, b, c, d, e, f, g, h, i};
    keep(sum);
    chain.next();
    keep(sum);
}

LINK arguments_on_stack(Chain &chain, long x) {
    takes_many(chain, x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8);
    keep();
}

LINK large_frame(Chain &chain) {
    char buffer[70000];
    buffer[0] = 1;
    keep(buffer);
    chain.next();
    keep(buffer);
}

thread_local Chain *in_qsort;

int compare(const void *left, const void *right) {
    Chain *chain = std::exchange(in_qsort, nullptr);
    if (chain != nullptr) {
        chain->next();
    }
    return *static_cast<const int *>(left) - *static_cast<const int *>(right);
}

LINK qsort_callback(Chain &chain) {
    int numbers[] = {3, 1, 2};
    in_qsort = &chain;
    qsort(numbers, 3, sizeof *numbers, compare);
    keep(numbers);
}

void on_event(std::ios_base::event event, std::ios_base &stream, int index) {
    if (event == std::ios_base::imbue_event) {
        static_cast<Chain *>(stream.pword(index))->next();
    }
}

LINK stream_callback(Chain &chain) {
    static const int index = std::ios_base::xalloc();
    std::ostringstream stream;
    stream.pword(index) = &chain;
    stream.register_callback(on_event, index);
    stream.imbue(std::locale::classic());
}

struct CallsWhenDestroyed {
    Chain &chain;
    ~CallsWhenDestroyed() {
        chain.next();
    }
};

LINK destructor_while_unwinding(Chain &chain) {
    try {
        const CallsWhenDestroyed last{chain};
        keep();
        throw 1;
    } catch (int) {
        keep();
    }
}

LINK catch_handler(Chain &chain) {
    try {
        keep(&chain);
        throw 1;
    } catch (int) {
        chain.next();
    }
}

[[noreturn, gnu::noinline]] void next_and_throw(Chain &chain) {
    chain.next();
    throw 1;
}

// Ends with a call: its return address is that of the function behind it.
[[noreturn, gnu::noinline]] void ends_with_a_call(Chain &chain) {
    keep();
    next_and_throw(chain);
}

LINK does_not_return(Chain &chain) {
    try {
        ends_with_a_call(chain);
    } catch (int) {
        keep();
    }
}

} // namespace

void HAKMEM_TEST_LINKS(Link link, Chain &chain) {
    switch (link) {
    case Link::plain:
        return plain(chain);
    case Link::alloca_room:
        return alloca_room(chain, 100 + 8 * static_cast<std::size_t>(link));
    case Link::variable_arguments:
        return variable_arguments(&chain, 3, 1.0, 2.0, 3.0);
    case Link::realigned:
        return realigned(chain, 16 * (1 + static_cast<std::size_t>(link)));
    case Link::arguments_on_stack:
        return arguments_on_stack(chain, 7);
    case Link::large_frame:
        return large_frame(chain);
    case Link::qsort_callback:
        return qsort_callback(chain);
    case Link::stream_callback:
        return stream_callback(chain);
    case Link::destructor_while_unwinding:
        return destructor_while_unwinding(chain);
    case Link::catch_handler:
        return catch_handler(chain);
    case Link::does_not_return:
        return does_not_return(chain);
    case Link::count:
        break;
    }
    std::abort();
}

} // namespace hakmem_test
