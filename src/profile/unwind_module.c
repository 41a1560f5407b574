#define _GNU_SOURCE
#include "profile/unwind_module.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/stack_probe.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

/* The program headers of a file in memory, and what to add to the addresses in them. */
typedef ElfW(Phdr) program_header;
struct headers {
    const program_header *at;
    size_t count;
    uintptr_t base;
};

static struct headers with_base(const program_header *at, size_t count, uintptr_t start) {
    struct headers headers = {0};
    for (size_t i = 0; i < count; i++) {
        if (at[i].p_type == PT_LOAD && at[i].p_offset == 0) {
            headers = (struct headers){at, count, start - at[i].p_vaddr};
            break;
        }
    }
    return headers;
}

/* Those of the file whose first byte is at `start`; none if there is no such file, or if the program has
 * hidden its first page. */
static struct headers headers_at(uintptr_t start) {
    if (!os_readable(start)) {
        return (struct headers){0};
    }
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)start;
    size_t room = (OS_PAGE_BYTES - sizeof *file) / sizeof(program_header); /* one page is known to be there */
    if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phoff != sizeof *file ||
        file->e_phnum > room) {
        return (struct headers){0};
    }
    return with_base((const program_header *)(start + file->e_phoff), file->e_phnum, start);
}

/* Those of the program itself, which the kernel tells of. */
static struct headers headers_of_program(void) {
    int saved_errno = errno;
    uintptr_t first = getauxval(AT_PHDR);
    size_t count = os_readable(first) ? getauxval(AT_PHNUM) : 0;
    errno = saved_errno;
    /* They stand right behind the ELF header, at the beginning of the file. */
    return with_base((const program_header *)first, count, first - sizeof(ElfW(Ehdr)));
}

static uintptr_t part_end(struct headers headers, uintptr_t address) {
    for (size_t i = 0; i < headers.count; i++) {
        const program_header *part = &headers.at[i];
        uintptr_t into = address - (headers.base + part->p_vaddr);
        if (part->p_type == PT_LOAD && (part->p_flags & PF_R) != 0 && into < part->p_filesz) {
            return address - into + part->p_filesz;
        }
    }
    return 0;
}

uintptr_t module_part_end(const struct module *module, uintptr_t address) {
    struct headers headers = headers_at(module->start);
    uintptr_t end = part_end(headers, address);
    if (end == 0) { /* a program whose parts are far from each other is known by one of them alone */
        end = part_end(headers_of_program(), address);
    }
    bool inside = address >= module->start && address < module->end;
    return end == 0 && headers.count == 0 && inside ? module->end : end;
}

/* The first words of the id that linkers put into a file, a hash of its contents; 0 if there is none. */
static uint64_t build_id(uintptr_t start, uintptr_t end) {
    struct headers headers = headers_at(start);
    for (size_t i = 0; i < headers.count; i++) {
        uintptr_t at = headers.base + headers.at[i].p_vaddr;
        if (headers.at[i].p_type == PT_NOTE && at >= start && at < end) {
            uintptr_t notes_end = at + min_size(headers.at[i].p_filesz, end - at);
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

/* A hash of where the module is, of libc's handle of it, and, if it may be unloaded, of its build id; 0 if it
 * then has none. What stays is known by its place, and its header need not be looked at in each walk. */
static uint64_t identity_of(const struct module *m, const void *handle, bool stays) {
    uint64_t id = stays ? 0 : build_id(m->start, m->end);
    if (id == 0 && !stays) {
        return 0;
    }
    uint64_t words[] = {m->start, m->end, (uintptr_t)handle, (uintptr_t)m->header, id};
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
    struct headers headers = headers_of_program();
    *out = (struct module){.start = UINTPTR_MAX};
    for (size_t i = 0; i < headers.count; i++) {
        uintptr_t start = headers.base + headers.at[i].p_vaddr;
        if (headers.at[i].p_type == PT_LOAD) {
            out->start = min_size(out->start, start);
            out->end = max_size(out->end, start + headers.at[i].p_memsz);
        } else if (headers.at[i].p_type == PT_GNU_EH_FRAME) {
            out->header = (const unsigned char *)start;
        }
    }
    out->identity = 1;
    return address >= out->start && address < out->end;
}

#ifdef DLFO_EH_SEGMENT_TYPE
/* Weak: glibc has it from 2.35 on, and a static program only if it uses it itself. */
extern __attribute__((weak)) int _dl_find_object(void *address, struct dl_find_object *result);

/* Whether the C library is ready to be asked: a static one allocates before. relaxed everywhere: where it is
 * seen late, the program's own tables serve */
static _Atomic bool libc_is_ready;

__attribute__((constructor)) static OFTEN void note_libc_is_ready(void) {
    atomic_store_explicit(&libc_is_ready, true, memory_order_relaxed);
}

/* Entries of the loader's list of which `stays` remembers its answer. */
#define ANSWERS_LOG2 10
#define ANSWERS (1 << ANSWERS_LOG2)

/* The loader's own entry in its list. */
static const struct link_map *map_of_loader(void) {
    static const struct link_map *_Atomic known;
    /* relaxed both times: the entry was complete before any thread began */
    const struct link_map *map = atomic_load_explicit(&known, memory_order_relaxed);
    struct dl_find_object found;
    if (map == NULL && _dl_find_object((void *)(uintptr_t)&_dl_find_object, &found) == 0) {
        map = found.dlfo_link_map;
        atomic_store_explicit(&known, map, memory_order_relaxed);
    }
    return map;
}

static bool is_listed_up_to_loader(const struct link_map *map) {
    for (const struct link_map *m = map_of_loader(); m != NULL; m = m->l_prev) {
        if (m == map) {
            return true;
        }
    }
    return false;
}

/* Whether a module cannot be unloaded: the loader, or one that it has listed before itself, as the program
 * and most libraries that the program needs. What is loaded while the program runs comes behind, so that this
 * part of the list does not change, and an answer holds for good, for whatever comes to have its entry at the
 * same place, too. */
static bool stays(const struct link_map *map) {
    /* The address of an entry, and in its lowest bit the answer. relaxed everywhere: each says all by itself
     */
    static _Atomic uintptr_t answers[ANSWERS];
    uintptr_t entry = (uintptr_t)map;
    _Atomic uintptr_t *place = &answers[entry * GOLDEN_64 >> (64 - ANSWERS_LOG2)];
    uintptr_t answer = atomic_load_explicit(place, memory_order_relaxed);
    if (UNLIKELY((answer & ~(uintptr_t)1) != entry)) {
        answer = entry | is_listed_up_to_loader(map);
        atomic_store_explicit(place, answer, memory_order_relaxed);
    }
    return (answer & 1) != 0;
}

bool module_find(uintptr_t address, bool running, struct module *out) {
    if (&_dl_find_object == NULL || !atomic_load_explicit(&libc_is_ready, memory_order_relaxed)) {
        return find_program(address, out);
    }
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) != 0) {
        return false;
    }
    bool it_stays = stays(found.dlfo_link_map);
    if (!running && !it_stays) {
        return false;
    }
    *out = (struct module){.start = (uintptr_t)found.dlfo_map_start,
                           .end = (uintptr_t)found.dlfo_map_end,
                           .header = found.dlfo_eh_frame};
    out->identity = identity_of(out, found.dlfo_link_map, it_stays);
    return true;
}
#else
bool module_find(uintptr_t address, bool running, struct module *out) {
    (void)identity_of;
    (void)running; /* the program stays */
    return find_program(address, out);
}
#endif
