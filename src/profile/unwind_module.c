#define _GNU_SOURCE
#include "profile/unwind_module.h"

#include "base/bits.h"
#include "os/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* The first words of the id that linkers put into a file, a hash of its contents; 0 if there is none. */
static uint64_t build_id(uintptr_t start, uintptr_t end) {
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)start;
    size_t room = (OS_PAGE_BYTES - sizeof *file) / sizeof(ElfW(Phdr)); /* one page is surely mapped */
    if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phoff != sizeof *file ||
        file->e_phnum > room) {
        return 0;
    }
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(start + file->e_phoff);
    uintptr_t base = 0;
    for (size_t i = 0; i < file->e_phnum; i++) {
        uintptr_t at = base + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
            base = start - headers[i].p_vaddr;
        } else if (headers[i].p_type == PT_NOTE && at >= start && at < end) {
            uintptr_t notes_end = at + min_size(headers[i].p_filesz, end - at);
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            const char *name = (const char *)(note + 1);
            /* Only the first note is looked at: the id comes first, or has a segment of its own. */
            if (notes_end - at >= sizeof *note + 4 + sizeof(uint64_t) && note->n_type == NT_GNU_BUILD_ID &&
                note->n_namesz == 4 && note->n_descsz >= sizeof(uint64_t) && memcmp(name, "GNU", 4) == 0) {
                uint64_t id;
                memcpy(&id, name + 4, sizeof id);
                return id;
            }
        }
    }
    return 0;
}

/* A hash of where the module is, of libc's handle of it, of its tables' header, which has the number of
 * functions, and of its build id. */
static uint64_t identity_of(const struct module *m, const void *handle) {
    uint64_t words[] = {m->start, m->end, (uintptr_t)handle, (uintptr_t)m->header, 0, 0, 0};
    if (m->header != NULL) {
        memcpy(words + 4, m->header, 2 * sizeof *words);
    }
    words[6] = build_id(m->start, m->end);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hash = (hash ^ words[i]) * GOLDEN_64;
        hash ^= hash >> 32;
    }
    return hash;
}

/* As module_find, for the program itself, by the headers that the kernel tells of; for where
 * libc tells of none. */
static bool find_program(uintptr_t address, struct module *out) {
    int saved_errno = errno;
    uintptr_t first = getauxval(AT_PHDR);
    size_t count = getauxval(AT_PHNUM);
    errno = saved_errno;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)first;
    uintptr_t base = 0;
    bool based = false;
    for (size_t i = 0; first != 0 && i < count && !based; i++) {
        /* The headers stand right behind the ELF header, at the beginning of the file. */
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
            base = first - sizeof(ElfW(Ehdr)) - headers[i].p_vaddr;
            based = true;
        }
    }
    *out = (struct module){.start = UINTPTR_MAX};
    for (size_t i = 0; based && i < count; i++) {
        uintptr_t start = base + headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD) {
            out->start = min_size(out->start, start);
            out->end = max_size(out->end, start + headers[i].p_memsz);
        } else if (headers[i].p_type == PT_GNU_EH_FRAME) {
            out->header = (const unsigned char *)start;
        }
    }
    out->identity = 1;
    return address >= out->start && address < out->end;
}

#ifdef DLFO_EH_SEGMENT_TYPE
/* Weak: glibc has it from 2.35 on, and a static program only if it uses it itself. */
extern __attribute__((weak)) int _dl_find_object(void *address, struct dl_find_object *result);

bool module_find(uintptr_t address, struct module *out) {
    if (&_dl_find_object == NULL) {
        return find_program(address, out);
    }
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) != 0) {
        return false;
    }
    *out = (struct module){.start = (uintptr_t)found.dlfo_map_start,
                           .end = (uintptr_t)found.dlfo_map_end,
                           .header = found.dlfo_eh_frame};
    out->identity = identity_of(out, found.dlfo_link_map);
    return true;
}
#else
bool module_find(uintptr_t address, struct module *out) {
    (void)identity_of;
    return find_program(address, out);
}
#endif
