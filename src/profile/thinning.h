/* Fewer samples where they come so fast that they would be felt.
 *
 * Promises that what stays are samples such as the longer interval would have taken from the start: each
 * stays with the chance that it would have been one of them, so that all estimates remain unbiased. A sample
 * takes about a microsecond; at SAMPLES_A_SECOND all together take less than half a percent of one processor.
 * The interval only grows: what was not sampled cannot be had again. The caller has the profile's lock, for a
 * time that depends on how many samples there are.
 */
#ifndef HAKMEM_PROFILE_THINNING_H
#define HAKMEM_PROFILE_THINNING_H

#include <stdint.h>

#define SAMPLES_A_SECOND 4096

/* After each sample: the interval that suits how fast they come, if it is a longer one than now; else 0. */
uint64_t thinning_interval(void);
/* Thins what was sampled, for an interval longer than that of now. */
void thinning_to(uint64_t interval);

#endif
