/* What huge pages cost on this machine, and whether it is worth it to ask for more of them just now.
 *
 * To clear one takes 0.1 to 0.3 ms. On a virtual machine from which the host has taken free memory back, one
 * that is new has to be found by the host first, as five hundred of its pages: 5 ms. Small pages seldom cost
 * that, because the kernel has them of what was used lately. So each that is taken is timed, and after one
 * that was slow, or that the kernel had none to give for, the next superslabs get small pages: 16, and twice
 * as many each time that the next one is slow, too.
 *
 * Promises that a program pays for at most one slow page in 17, and for fewer and fewer. The arena's lock
 * protects the state. Relies on nothing.
 */
#ifndef HAKMEM_ARENA_HUGE_PRICE_H
#define HAKMEM_ARENA_HUGE_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether to ask for huge pages for so many superslabs; where not, they count as those that get small ones.
 * Arena lock held. */
bool huge_price_allows(size_t superslabs);
/* One took so long, or was not given. Returns whether to go on asking. Arena lock held. */
bool huge_price_note(bool given, uint64_t ns);

#endif
