#include "base/sort.h"

struct items {
    char *first;
    size_t bytes;
    bool (*before)(const void *, const void *);
};

static char *item(const struct items *items, size_t number) {
    return items->first + number * items->bytes;
}

static void swap(const struct items *items, size_t a, size_t b) {
    char *one = item(items, a);
    char *other = item(items, b);
    for (size_t i = 0; i < items->bytes; i++) {
        char byte = one[i];
        one[i] = other[i];
        other[i] = byte;
    }
}

static bool is_before(const struct items *items, size_t a, size_t b) {
    return items->before(item(items, a), item(items, b));
}

/* Restores the heap below `parent`: no item is to stand in front of its children, so that the last of all is
 * on top. */
static void sift_down(const struct items *items, size_t parent, size_t count) {
    for (size_t child; (child = 2 * parent + 1) < count; parent = child) {
        if (child + 1 < count && is_before(items, child, child + 1)) {
            child++;
        }
        if (!is_before(items, parent, child)) {
            return;
        }
        swap(items, parent, child);
    }
}

void sort_items(void *first, size_t count, size_t bytes, bool (*before)(const void *, const void *)) {
    const struct items items = {first, bytes, before};
    for (size_t i = count / 2; i-- > 0;) {
        sift_down(&items, i, count);
    }
    for (size_t end = count; end > 1; end--) {
        swap(&items, 0, end - 1);
        sift_down(&items, 0, end - 1);
    }
}
