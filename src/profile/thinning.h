/* Fewer samples where they come so fast that they would be felt.
 *
 * Promises that what stays are samples such as the longer interval would have taken from the start: each
 * stays with the chance that it would have been one of them, so that all estimates remain unbiased. A sample
 * takes about a microsecond; at SAMPLES_A_SECOND all together take less than half a percent of one processor.
 * The interval only grows, slowly enough to pass over a burst, and not beyond 16 MiB: what was not sampled
 * cannot be had again. The caller has the profile's lock, for a time that depends on how many samples there
 * are.
 */
#ifndef HAKMEM_PROFILE_THINNING_H
#define HAKMEM_PROFILE_THINNING_H

#include <stdint.h>

#define SAMPLES_A_SECOND 4096

/* After each sample: how many times as long the interval should be; 1 unless they have come too fast for a
 * while. */
unsigned thinning_factor(void);
/* Thins what was sampled, for an interval longer than that of now. */
void thinning_to(uint64_t interval);

#endif
