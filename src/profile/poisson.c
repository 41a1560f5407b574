#include "profile/poisson.h"

#include "base/bits.h"

#include <string.h>

#define LN_2 0.69314718055994530942
#define SQUARE_ROOT_OF_2 1.41421356237309504880
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += GOLDEN_64;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double poisson_random(uint64_t *state) {
    return (double)(next(state) >> 11) / (double)((uint64_t)1 << 53);
}

/* Natural logarithm of a normal number above 0. */
static double logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    bits &= ((uint64_t)1 << MANTISSA_BITS) - 1;
    bits |= (uint64_t)EXPONENT_BIAS << MANTISSA_BITS;
    memcpy(&x, &bits, sizeof x);
    if (x > SQUARE_ROOT_OF_2) {
        x /= 2;
        exponent++;
    }
    /* ln x = 2 artanh t, and |t| < 0.172: the first term left out is below 1e-9 */
    double t = (x - 1) / (x + 1);
    double s = t * t;
    double series = 1 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s / 9)));
    return exponent * LN_2 + 2 * t * series;
}

uint64_t poisson_distance(uint64_t *state, uint64_t interval) {
    if (interval <= 1) {
        return 0;
    }
    return (uint64_t)(-logarithm(1 - poisson_random(state)) * (double)interval);
}

double poisson_chance(double size, uint64_t interval) {
    double x = interval == 0 ? 0 : size / (double)interval;
    if (interval == 1 || x > 50) {
        return 1;
    }
    int halvings = 0;
    while (x > 0.25) {
        x /= 2;
        halvings++;
    }
    /* 1 - exp(-x) by its series; then each doubling back: a block is missed if both halves of it are */
    double p = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6 * (1 - x / 7))))));
    while (halvings-- > 0) {
        p *= 2 - p;
    }
    return p;
}
