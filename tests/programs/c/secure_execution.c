/* A library that makes others believe that the program has more rights than whoever started it, as one that
 * is setuid has.
 */
#include <sys/auxv.h>

unsigned long getauxval(unsigned long type) {
    return type == AT_SECURE ? 1 : type == AT_PAGESZ ? 4096 : 0;
}
