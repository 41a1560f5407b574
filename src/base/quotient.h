/* Division without a remainder, by a multiplication: pure and header-only.
 *
 * Promises the quotient where the divisor divides, and says so where it does not, for dividends below 2^16
 * and divisors up to 2^16. Relies on nothing. The upper half of the product with a reciprocal of 32 bits,
 * rounded up, is the quotient, and the lower half is below the reciprocal only where nothing remains (Lemire,
 * Kaser and Kurz, "Faster remainder by direct computation", 2019).
 */
#ifndef HAKMEM_BASE_QUOTIENT_H
#define HAKMEM_BASE_QUOTIENT_H

#include "base/bits.h"

/* The reciprocal of `divisor` for quotient_if_whole. */
static inline uint64_t quotient_reciprocal(uint32_t divisor) {
    return (((uint64_t)1 << 32) + divisor - 1) / divisor;
}

/* The quotient of `dividend` and the divisor of `reciprocal`; SIZE_MAX if something remains. */
static inline size_t quotient_if_whole(uint64_t reciprocal, size_t dividend) {
    uint64_t product = dividend * reciprocal;
    return LIKELY((uint32_t)product < reciprocal) ? (size_t)(product >> 32) : SIZE_MAX;
}

#endif
