#include "profile/modules.h"

#include "os/maps.h"
#include "profile/pages.h"

#include <string.h>

#define MODULES_MOST 1024
#define NAME_BYTES ((size_t)128 << 10)

struct modules {
    size_t count;
    size_t name_bytes;
    struct module module[MODULES_MOST];
    char names[NAME_BYTES];
};

/* The name that the last module has, too, is kept once. */
static const char *keep_name(struct modules *modules, const char *name) {
    if (modules->count > 0 && strcmp(modules->module[modules->count - 1].path, name) == 0) {
        return modules->module[modules->count - 1].path;
    }
    size_t bytes = strlen(name) + 1;
    if (NAME_BYTES - modules->name_bytes < bytes) {
        return NULL;
    }
    char *kept = modules->names + modules->name_bytes;
    memcpy(kept, name, bytes);
    modules->name_bytes += bytes;
    return kept;
}

static bool add(const struct mapping *mapping, void *context) {
    struct modules *modules = context;
    if (!mapping->executable || mapping->path[0] == '\0') {
        return true;
    }
    const char *path = keep_name(modules, mapping->path);
    if (path != NULL) {
        modules->module[modules->count++] =
            (struct module){mapping->start, mapping->end, mapping->load_address, path};
    }
    return path != NULL && modules->count < MODULES_MOST;
}

struct modules *modules_load(void) {
    struct modules *modules = pages_take(sizeof *modules);
    if (modules != NULL) {
        maps_visit(add, modules);
    }
    return modules;
}

const struct module *modules_find(const struct modules *modules, uintptr_t address) {
    for (size_t i = 0; modules != NULL && i < modules->count; i++) {
        const struct module *module = &modules->module[i];
        if (address >= module->start && address < module->end) {
            return module;
        }
    }
    return NULL;
}

void modules_end(struct modules *modules) {
    pages_give(modules, sizeof *modules);
}
