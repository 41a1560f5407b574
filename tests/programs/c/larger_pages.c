/* A library that makes others believe that the kernel's pages are of 64 KiB, as those of some of aarch64 are.
 */
#include <sys/auxv.h>

unsigned long getauxval(unsigned long type) {
    return type == AT_PAGESZ ? 65536 : 0;
}
