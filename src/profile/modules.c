#include "profile/modules.h"

#include "os/maps.h"
#include "os/pages.h"
#include "os/stack_probe.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define MODULES_MOST 1024
#define NAME_BYTES ((size_t)128 << 10)

struct modules {
    size_t count;
    size_t name_bytes;
    uintptr_t program;      /* where the program's own file begins */
    uintptr_t program_bias; /* what to take off an address in it to get the address that its symbols have */
    struct module module[MODULES_MOST];
    char names[NAME_BYTES];
};

/* Keeps a copy of `name`, one for neighbouring modules of the same name; NULL if there is no room. */
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
        bool own = mapping->load_address == modules->program;
        modules->module[modules->count++] = (struct module){
            mapping->start, mapping->end, own ? modules->program_bias : mapping->load_address, path};
    }
    return path != NULL && modules->count < MODULES_MOST;
}

/* Finds out where the program's own file begins, and its bias: the same address, or 0 if the program is not
 * position-independent, since its symbols then have the addresses that it has in memory. */
static void find_program(struct modules *modules) {
    int saved_errno = errno;
    uintptr_t first = getauxval(AT_PHDR);
    size_t count = os_readable(first) ? getauxval(AT_PHNUM) : 0; /* hardened programs hide them */
    errno = saved_errno;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)first;
    for (size_t i = 0; i < count; i++) {
        /* The headers stand right behind the ELF header, at the beginning of the file. */
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
            modules->program = first - sizeof(ElfW(Ehdr));
            modules->program_bias = modules->program - headers[i].p_vaddr;
        }
    }
}

struct modules *modules_load(void) {
    struct modules *modules = pages_take(sizeof *modules);
    if (modules != NULL) {
        find_program(modules);
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
