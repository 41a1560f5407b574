/* The program's floating-point environment, kept from what is calculated behind its back.
 *
 * Promises that a program which looks at the exceptions that have occurred finds its own only, and that one
 * which lets them end it, or rounds in another direction, changes nothing here. Relies on nothing.
 */
#ifndef HAKMEM_BASE_FLOATING_H
#define HAKMEM_BASE_FLOATING_H

#include <stdint.h>

struct floating {
    uint64_t control, status; /* as the processor has them; on x86-64 `control` holds both */
};

/* floating_hold returns the program's environment and sets the usual one, which rounds to nearest and in
 * which no exception does anything. floating_restore brings the former back, and forgets what has occurred
 * since. Elsewhere than on x86-64 and aarch64 they do nothing. */
#if defined(__x86_64__)
/* The memory clobbers keep loads and stores of the program's on their side of the change. */
static inline struct floating floating_hold(void) {
    uint32_t found;
    const uint32_t usual = 0x1F80; /* no exception has occurred, or does anything; to the nearest */
    __asm__ volatile("stmxcsr %0" : "=m"(found) : : "memory");
    __asm__ volatile("ldmxcsr %0" : : "m"(usual) : "memory");
    return (struct floating){.control = found};
}

static inline void floating_restore(struct floating held) {
    uint32_t found = (uint32_t)held.control;
    __asm__ volatile("ldmxcsr %0" : : "m"(found) : "memory");
}
#elif defined(__aarch64__)
static inline struct floating floating_hold(void) {
    struct floating held;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(held.control), "=r"(held.status) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return held;
}

static inline void floating_restore(struct floating held) {
    __asm__ volatile("msr fpsr, %0\n\tmsr fpcr, %1" : : "r"(held.status), "r"(held.control) : "memory");
}
#else
static inline struct floating floating_hold(void) {
    return (struct floating){0};
}

static inline void floating_restore(struct floating held) {
    (void)held;
}
#endif

#endif
