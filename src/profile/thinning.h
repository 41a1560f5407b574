/* Fewer samples where they come so fast that they would be felt.
 *
 * Promises that what stays are samples such as the longer interval would have taken from the start: each
 * stays with the chance that it would have been one of them, so that all estimates remain unbiased. A sample
 * takes about a microsecond; at SAMPLES_A_SECOND all together take less than half a percent of one processor.
 * The interval only grows, slowly enough to pass over a burst, and not beyond 16 MiB: what was not sampled
 * cannot be had again. The caller holds the profile's lock: in thinning_to for a time that depends on how
 * many samples there are. Relies on poisson and the profile's state.
 */
#ifndef HAKMEM_PROFILE_THINNING_H
#define HAKMEM_PROFILE_THINNING_H

#include <stdint.h>

#define SAMPLES_A_SECOND 4096

/* To be called after each sample: returns how many times as long the interval should be, which is 1 unless
 * samples have come too fast for a while. */
unsigned thinning_factor(void);
/* Thins what was sampled as if `interval`, which is longer than that in force, had been from the start, and
 * puts it into profile.interval. */
void thinning_to(uint64_t interval);

#endif
