/* What huge pages cost on this machine, and whether it is worth it to ask for more of them just now.
 *
 * To clear one takes 0.1 to 0.3 ms. On a virtual machine from which the host has taken free memory back, one
 * that is new has to be found by the host first, as five hundred of its pages: 5 ms. Small pages seldom cost
 * that, because the kernel has them of what was used lately. So huge pages are timed where they are taken.
 * Promises that after one that was slow, or that the kernel had none to give for, the next superslabs get
 * small pages: 16, and twice as many each time that the next one is slow, too, but none for longer than a
 * second.
 *
 * The arena's lock protects the state. Relies on os (clock).
 */
#ifndef HAKMEM_ARENA_HUGE_PRICE_H
#define HAKMEM_ARENA_HUGE_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of `superslabs` that huge pages would be asked for, returns how many, from the first on, are to get small
 * ones instead; the pause is over after so many fewer. Arena lock held. */
size_t huge_price_skip(size_t superslabs);
/* Whether all of `superslabs` are to get small pages instead; changes nothing. Arena lock held. */
bool huge_price_skips_all(size_t superslabs);

/* The present turn, to be handed to huge_price_note: what was begun before a pause says nothing new after it.
 * Arena lock held. */
uint32_t huge_price_turn(void);
/* A huge page that was asked for in `turn` took `ns`, or was not `given`. Returns whether it was quick. Arena
 * lock held. */
bool huge_price_note(uint32_t turn, bool given, uint64_t ns);

#endif
