/* Writes a title over its arguments, as daemons do, and prints what the library then calls it. */
#include "library.h"

int main(int argc, char **argv) {
    (void)argc;
    memset(argv[0], 't', strlen(argv[0]));
    static char document[1 << 16];
    size_t (*json)(char *, size_t) = (size_t(*)(char *, size_t))library_function("hak_stats_json");
    REQUIRE(json(document, sizeof document) < sizeof document);
    char *program = strstr(document, "\"program\":\"");
    REQUIRE(program != NULL);
    printf("%.*s\n", (int)strcspn(program + 11, "\""), program + 11);
    return 0;
}
