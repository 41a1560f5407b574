/* Bit and size arithmetic, pure and header-only.
 *
 * Promises no state and no side effect. Relies on nothing.
 */
#ifndef HAKMEM_BASE_BITS_H
#define HAKMEM_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* In a file of which most stands behind everything else (sections.ld): this function is called by every
 * program. */
#define OFTEN __attribute__((section(".text.often")))
#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE __attribute__((always_inline)) inline
/* A function that most programs never come to: it stands behind everything else. */
#define COLD __attribute__((cold, noinline))
/* A function that a program comes to in trouble, or because it does something out of the ordinary: it stands
 * behind all that is COLD. */
#define RARE __attribute__((cold, noinline, section(".text.rare")))
/* As COLD, for a variable that starts as zero and that most programs never use. */
#define SELDOM __attribute__((section(".bss.seldom")))
#define CACHE_LINE_BYTES ((size_t)64)
/* On the declaration of a variable: addressed directly, not through the global offset table. */
#define INTERNAL __attribute__((visibility("hidden")))

/* 2^64 over the golden ratio: a product with it spreads what is alike over its highest bits (Knuth, The Art
 * of Computer Programming, 6.4). */
#define GOLDEN_64 0x9E3779B97F4A7C15u

static inline unsigned bit_lowest(uint64_t x) { /* x != 0 */
    return (unsigned)__builtin_ctzll(x);
}

static inline unsigned bit_highest(uint64_t x) { /* x != 0 */
    /* One instruction; as a difference it would be three. */
    return 63u ^ (unsigned)__builtin_clzll(x);
}

/* Sums of two bits, of four and of eight side by side: the first x86-64 has no instruction for it, and the
 * compiler's function is a call. */
static inline unsigned bit_count(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

/* The lowest `n` bits set, n <= 64. */
static inline uint64_t bits_below(unsigned n) {
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

/* The lowest `n` bits set, n <= 32. */
static inline uint32_t bits32_below(unsigned n) {
    return (uint32_t)bits_below(n);
}

/* Bit `i` of a bitmap in words of 64 bits. */
static inline bool bitmap_has(const uint64_t *words, size_t i) {
    return (words[i / 64] >> i % 64 & 1) != 0;
}

static inline void bitmap_add(uint64_t *words, size_t i) {
    words[i / 64] |= (uint64_t)1 << i % 64;
}

static inline void bitmap_drop(uint64_t *words, size_t i) {
    words[i / 64] &= ~((uint64_t)1 << i % 64);
}

static inline bool is_power_of_two(size_t x) {
    return x != 0 && (x & (x - 1)) == 0;
}

/* `alignment` is a power of two; the caller rules out overflow. */
static inline size_t round_up(size_t x, size_t alignment) {
    return (x + alignment - 1) & ~(alignment - 1);
}

static inline size_t round_down(size_t x, size_t alignment) {
    return x & ~(alignment - 1);
}

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Smallest k with 2^k >= x, x >= 1. */
static inline unsigned log2_ceil(size_t x) {
    return x <= 1 ? 0 : bit_highest(x - 1) + 1;
}

#endif
