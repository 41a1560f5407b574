#define _GNU_SOURCE
#include "os/asleep.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "os/reader.h"
#include "os/sanitized.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The decimal number at the end of `line`; 0 if there is none. */
static uint64_t last_number(const struct text *line) {
    uint64_t number = 0;
    size_t at = line->length;
    while (at > 0 && line->buffer[at - 1] >= '0' && line->buffer[at - 1] <= '9') {
        at--;
    }
    for (; at < line->length; at++) {
        number = number * 10 + (uint64_t)(line->buffer[at] - '0');
    }
    return number;
}

/* `switches` gets the sum of "voluntary_ctxt_switches:" and "nonvoluntary_ctxt_switches:", `runs` whether
 * "State:" is R. The last of the numbers that the thread has in the namespaces around it ("NSpid:") must be
 * its own, or /proc is of another one. */
static bool read_status(int thread, uint64_t *switches, bool *runs) {
    struct reader r;
    if (!reader_open_of_thread(&r, thread, "status")) {
        return false;
    }
    unsigned found = 0;
    *switches = 0;
    *runs = false;
    while (found < 3 && reader_next(&r) >= 0) {
        char bytes[96];
        struct text line = TEXT_ON(bytes);
        bytes[0] = '\0';
        for (; r.last >= 0 && r.last != '\n'; reader_next(&r)) {
            text_char(&line, (char)r.last);
        }
        if (strncmp(bytes, "State:\tR", 8) == 0) {
            *runs = true;
        } else if (strncmp(bytes, "NSpid:", 6) == 0) {
            found += last_number(&line) == (uint64_t)thread;
        } else if (strstr(bytes, "voluntary_ctxt_switches:") != NULL) {
            *switches += last_number(&line);
            found++;
        }
    }
    os_close(r.fd);
    return found == 3;
}

bool os_switches(int thread, uint64_t *out) {
    bool runs;
    return read_status(thread, out, &runs);
}

/* Reads the number of the system call that `thread` is in, and its stack pointer; false if it is in none. The
 * file has "-1 0xstack 0xinstruction" or "running" then, else
 * "number 0x… 0x… 0x… 0x… 0x… 0x… 0xstack 0xinstruction". */
static bool read_call(int thread, struct os_sleep *out) {
    struct reader r;
    if (!reader_open_of_thread(&r, thread, "syscall")) {
        return false;
    }
    uint64_t fields[9] = {0};
    unsigned field = 0;
    bool any = false;
    while (field < 9 && reader_next(&r) >= 0) {
        uint64_t base = field == 0 ? 10 : 16;
        if (r.last >= '0' && r.last <= '9') {
            fields[field] = fields[field] * base + (uint64_t)(r.last - '0');
            any = true;
        } else if (field > 0 && r.last >= 'a' && r.last <= 'f') {
            fields[field] = fields[field] * base + (uint64_t)(r.last - 'a' + 10);
        } else if (r.last == 'x') {
            fields[field] = 0;
        } else if ((r.last == ' ' || r.last == '\n') && any) {
            field++;
        } else {
            break;
        }
    }
    os_close(r.fd);
    out->call = fields[0];
    out->stack = fields[7];
    return field == 9;
}

bool os_is_running(int thread) {
    struct reader r;
    int saved_errno = errno;
    bool running = reader_open_of_thread(&r, thread, "syscall");
    if (running) {
        running = reader_next(&r) == 'r'; /* "running" */
        os_close(r.fd);
    }
    errno = saved_errno;
    return running;
}

static bool waits_for_child(uint64_t call) {
    bool waits = call == SYS_clone;
#ifdef SYS_vfork
    waits = waits || call == SYS_vfork;
#endif
#ifdef SYS_fork
    waits = waits || call == SYS_fork;
#endif
#ifdef SYS_clone3
    waits = waits || call == SYS_clone3;
#endif
    return waits;
}

bool os_asleep(int thread, struct os_sleep *out) {
    if (SANITIZED) {
        return false; /* a sanitizer does not see that the thread's sleep orders its accesses */
    }
    int saved_errno = errno;
    /* Asleep both before and after the count is read: a thread that ran in between has been switched to. One
     * that is being woken still seems to be in its call, until its processor has taken notice. */
    struct os_sleep first;
    bool runs;
    bool asleep = read_call(thread, &first) && read_status(thread, &out->switches, &runs) && !runs &&
                  read_call(thread, out) && first.call == out->call && first.stack == out->stack &&
                  !waits_for_child(out->call);
    errno = saved_errno;
    return asleep;
}

/* is_signal_frame tells from WORDS_NEEDED words of a stack, the first of them at address `at`, whether the
 * kernel saved them when it called a signal handler. */
#if defined(__x86_64__)
/* The words: the stack pointer and the instruction that were interrupted; the flags, of which one bit is
 * always set and the high ones never are; the segments of 64-bit programs (also under Xen), where fs and gs
 * are 0 and the last may be; four that may be anything; and the address of the floating-point registers, just
 * above. With fewer checks the program's own data would pass for it. */
#define WORDS_NEEDED 9
#define REGISTERS_BYTES_MOST ((uintptr_t)64 << 10)

static bool may_be_address(uintptr_t word) {
    return word >= OS_PAGE_BYTES && word >> 56 == 0;
}

static bool is_signal_frame(const uintptr_t *words, uintptr_t at) {
    uintptr_t flags = words[2];
    uintptr_t segments = words[3];
    uintptr_t code = segments & 0xFFFF;
    uintptr_t stack = segments >> 48;
    return (flags & 2) != 0 && flags >> 22 == 0 && (code == 0x33 || code == 0xE033) &&
           (segments >> 16 & 0xFFFFFFFF) == 0 && (stack == 0 || stack == 0x2B || stack == 0xE02B) &&
           may_be_address(words[0]) && may_be_address(words[1]) &&
           (words[8] == 0 || words[8] - at < REGISTERS_BYTES_MOST);
}
#elif defined(__aarch64__)
/* The head of the floating-point registers: their magic number and size. */
#define WORDS_NEEDED 1
static bool is_signal_frame(const uintptr_t *words, uintptr_t at) {
    (void)at;
    return words[0] == ((uintptr_t)528 << 32 | 0x46508001);
}
#else
#define WORDS_NEEDED 1
static bool is_signal_frame(const uintptr_t *words, uintptr_t at) {
    (void)words;
    (void)at;
    return true;
}
#endif

#define STACK_BYTES_MOST ((uintptr_t)1 << 20)
#define WORDS_AT_ONCE 256

bool os_in_signal_handler(const struct os_sleep *sleep, uintptr_t stack_end) {
    uintptr_t at = round_down(sleep->stack, sizeof(uintptr_t));
    if (at >= stack_end || stack_end - at > STACK_BYTES_MOST) {
        return true;
    }
    bool found = false;
    while (at < stack_end && !found) {
        /* Read by the kernel, because a load would fault where the stack is not the one expected. */
        uintptr_t words[WORDS_AT_ONCE + WORDS_NEEDED] = {0};
        found = !os_peek(words, &at, 1, min_size(stack_end - at, sizeof words));
        for (size_t i = 0; i < WORDS_AT_ONCE && !found; i++) {
            found = is_signal_frame(words + i, at + i * sizeof(uintptr_t));
        }
        at += WORDS_AT_ONCE * sizeof(uintptr_t);
    }
    return found;
}
