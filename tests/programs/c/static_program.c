/* Linked statically: the dynamic loader never runs, so the preload must have no effect at all. */
#include "churn.h"

int main(void) {
    churn_t churn;
    churn_start(&churn, 3);
    for (int i = 0; i < 20000; i++)
        churn_step(&churn);
    churn_end(&churn);
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    char line[4096];
    while (fgets(line, sizeof line, maps))
        REQUIRE(strstr(line, "libhakmem") == NULL);
    fclose(maps);
    puts("static");
    return 0;
}
