/* A program whose own names are those that the library has inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena {
    const char *name;
    int uses;
} arena = {"mine", 0};
const char *definitions[] = {"one", "two"};
int profile = 7;
int size_classes = 3;

void lock_acquire(struct arena *lock);
void *pages_take(size_t bytes);
int heap_by_id(int id);

void lock_acquire(struct arena *lock) {
    lock->uses++;
}

void *pages_take(size_t bytes) {
    lock_acquire(&arena);
    return malloc(bytes);
}

int heap_by_id(int id) {
    return id + size_classes;
}

int main(void) {
    for (size_t bytes = 1; bytes < 8 << 20; bytes *= 3) {
        char *block = pages_take(bytes);
        if (block == NULL) {
            return 1;
        }
        memset(block, 1, bytes);
        free(realloc(block, 2 * bytes));
    }
    if (arena.uses != 15 || profile != 7 || heap_by_id(4) != 7 || strcmp(definitions[1], "two") != 0) {
        printf("own_names: %d uses, profile %d, heap %d\n", arena.uses, profile, heap_by_id(4));
        return 1;
    }
    puts("own_names: fine");
    return 0;
}
