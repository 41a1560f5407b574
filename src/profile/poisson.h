/* Where samples fall: points strewn over the bytes that a program asks for, independent of each other and one
 * in `interval` bytes on average. A block is sampled if a point falls into it.
 *
 * Promises an exponential distribution, and so one that has no memory: what lies ahead does not depend on
 * what was passed over, and a counter may be drawn anew at any time. Results are good to 1e-8.
 * Relies on nothing, libm least of all.
 */
#ifndef HAKMEM_PROFILE_POISSON_H
#define HAKMEM_PROFILE_POISSON_H

#include <stdint.h>

/* The next random number of the generator with the given state, evenly spread over 0 <= result < 1. Any value
 * of the state will do to begin with. */
double poisson_random(uint64_t *state);

/* A random number of bytes that are passed over before the next point, `interval` on average; none if that is
 * 1, so that every block is sampled. */
uint64_t poisson_distance(uint64_t *state, uint64_t interval);

/* How likely it is that a block of `size` bytes is sampled. */
double poisson_chance(double size, uint64_t interval);

/* For how many blocks a sample of `size` bytes (not 0) stands. */
static inline double poisson_weight(double size, uint64_t interval) {
    return 1 / poisson_chance(size, interval);
}

#endif
