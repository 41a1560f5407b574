/* Linked statically: the dynamic loader never runs, so the preload must have no effect at all. */
#include "churn.h"

int main(void) {
    churn_run(3, 20000);
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    char line[4096];
    while (fgets(line, sizeof line, maps))
        REQUIRE(strstr(line, "libhakmem") == NULL);
    fclose(maps);
    puts("static");
    return 0;
}
