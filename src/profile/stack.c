#include "profile/stack.h"

#include "base/bits.h"
#include "profile/stack_extent.h"

#if defined(__x86_64__)
#include "profile/unwind_cache.h"
#include "profile/unwind_module.h"
#include "profile/unwind_table.h"
#define HAVE_UNWIND_TABLES 1
#else
#define HAVE_UNWIND_TABLES 0
#endif

#define WORD ((uintptr_t)sizeof(uintptr_t))
/* A frame pointer that is further above the stack pointer is not believed: a frame so large is rarer than a
 * register used for something else. Where there are no unwind tables, larger frames have to be believed. */
#define POINTER_BYTES_MOST ((uintptr_t)(HAVE_UNWIND_TABLES ? 64 << 10 : 8 << 20))
/* Most frames that are left out: the library's own, and those that the caller wants skipped. */
#define FRAMES_LEFT_OUT_MOST ((size_t)64)
/* Frames beyond those of a sample that are passed over to find the top of a thread's stack. */
#define FURTHER_FRAMES_MOST ((size_t)10000)
/* Code is neither in the first pages nor beyond the addresses of user space. */
#define CODE_LOWEST ((uintptr_t)1 << 12)
#define CODE_HIGHEST (((uintptr_t)1 << 56) - 1)

/* How many of the modules that a walk has met it remembers. */
#define MODULES 4

struct walk {
    uintptr_t code;          /* address of an instruction in the frame */
    uintptr_t stack_pointer; /* the stack pointer at that instruction */
    uintptr_t frame_pointer; /* the frame pointer at that instruction */
    bool interrupted;        /* a signal came at `code`; else it is the address behind a call */
    struct extent extent;
    bool switched; /* the walk has gone over to another stack than it began on */
    bool guessed;  /* it has believed a frame pointer, so that `code` need not be running */
#if HAVE_UNWIND_TABLES
    unsigned latest, modules_met; /* index of the module met last, and how many were met */
    struct module modules[MODULES];
#endif
};

#ifdef HAKMEM_SHARED
/* The linker's names for where this shared library begins and where its code ends (sections.ld). */
extern INTERNAL const char __ehdr_start[], hakmem_code_end[];
#define OWN_START __ehdr_start
#define OWN_END hakmem_code_end
#else
/* The linker's names for where the section begins and ends that CMakeLists.txt puts all code of a static
 * library into. Weak: without it, the library's frames are not told from the program's. */
extern INTERNAL __attribute__((weak)) const char __start_hakmem_text[], __stop_hakmem_text[];
#define OWN_START __start_hakmem_text
#define OWN_END __stop_hakmem_text
#endif

/* Whether `code` is in the library's own code. */
static inline bool is_own(uintptr_t code) {
    return code - (uintptr_t)OWN_START < (uintptr_t)OWN_END - (uintptr_t)OWN_START;
}

/* Whether `code` may be an address of code: one of user space, and not on the stack. */
static bool is_plausible(const struct walk *w, uintptr_t code) {
    return code >= CODE_LOWEST && code <= CODE_HIGHEST && !(code >= w->extent.low && code < w->extent.high);
}

/* `code` without the authentication code that pointers of aarch64 may have. */
static inline uintptr_t plain_address(uintptr_t code) {
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = code;
    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
#else
    return code;
#endif
}

/* Goes to the frame's caller by its frame pointer; false if that cannot be one. */
static bool step_by_pointer(struct walk *w) {
    uintptr_t at = w->frame_pointer;
    uintptr_t above, code;
    if (at < w->stack_pointer || at - w->stack_pointer > POINTER_BYTES_MOST ||
        !extent_word(&w->extent, at, &above) || !extent_word(&w->extent, at + WORD, &code)) {
        return false;
    }
    w->code = plain_address(code);
    w->interrupted = false;
    w->stack_pointer = at + 2 * WORD;
    w->frame_pointer = above;
    return is_plausible(w, w->code);
}

#if HAVE_UNWIND_TABLES
static const struct module *find_module(struct walk *w, uintptr_t code) {
    for (unsigned i = 0; i < MODULES; i++) {
        if (code - w->modules[i].start < w->modules[i].end - w->modules[i].start) {
            w->latest = i;
            return &w->modules[i];
        }
    }
    struct module found;
    if (!module_find(code, !w->guessed, &found)) {
        return NULL;
    }
    w->latest = w->modules_met++ % MODULES;
    w->modules[w->latest] = found;
    return &w->modules[w->latest];
}

static NOINLINE struct rule make_rule(const struct module *module, uintptr_t code, uint64_t key) {
    struct rule rule = table_rule(module, code);
    if (module->identity != 0) { /* else the next module at its place would be taken for it */
        cache_put(key, rule);
    }
    return rule;
}

static inline struct rule rule_at(struct walk *w, uintptr_t code) {
    const struct module *module = &w->modules[w->latest];
    if (UNLIKELY(code - module->start >= module->end - module->start)) {
        module = find_module(w, code);
        if (module == NULL) {
            return rule_of_verdict(RULE_UNTOLD);
        }
    }
    uint64_t key = cache_key(code, module->identity);
    struct rule rule;
    return LIKELY(cache_get(key, &rule)) ? rule : make_rule(module, code, key);
}

static inline uintptr_t base_value(const struct walk *w, unsigned base, uintptr_t frame) {
    return base == BASE_FRAME ? frame : base == BASE_STACK_POINTER ? w->stack_pointer : w->frame_pointer;
}

static inline uintptr_t in_bytes(int words) {
    return (uintptr_t)(intptr_t)words * WORD;
}

/* Goes over to the stack of `frame`, on which a signal interrupted the code: the handler
 * has one of its own. */
static NOINLINE bool switch_stack(struct walk *w, uintptr_t frame) {
    w->switched = true;
    return extent_elsewhere(&w->extent, frame);
}

/* Goes to the frame's caller by a rule; false if the stack ends here or cannot be read. */
static inline bool step_by_rule(struct walk *w, struct rule rule) {
    uintptr_t frame = (rule.frame_by_pointer != 0 ? w->frame_pointer : w->stack_pointer);
    frame += in_bytes(rule_frame_words(rule));
    if (UNLIKELY(rule.frame_loaded != 0) && !extent_word(&w->extent, frame, &frame)) {
        return false;
    }
    uintptr_t code;
    uintptr_t pointer = rule.pointer_kept != 0 ? w->frame_pointer : 0;
    uintptr_t at = base_value(w, rule.return_base, frame) + in_bytes(rule.return_words);
    if (!extent_word(&w->extent, at, &code)) {
        return false;
    }
    if (rule.pointer_base != BASE_NONE) {
        at = base_value(w, rule.pointer_base, frame) + in_bytes(rule.pointer_words);
        if (!extent_word(&w->extent, at, &pointer)) {
            return false;
        }
    }
    bool upward = frame > w->stack_pointer;
    if (UNLIKELY(rule.signal != 0)) {
        bool here = upward && frame < w->extent.high;
        if (!here && !switch_stack(w, frame)) {
            return false;
        }
    } else if (UNLIKELY(!upward)) {
        return false;
    }
    w->code = code;
    w->interrupted = rule.signal != 0;
    w->stack_pointer = frame;
    w->frame_pointer = pointer;
    return is_plausible(w, code);
}

static inline bool step(struct walk *w) {
    struct rule rule = rule_at(w, w->interrupted ? w->code : w->code - 1);
    if (LIKELY(rule.return_base != BASE_NONE)) {
        return step_by_rule(w, rule);
    }
    if (rule.return_words != RULE_UNTOLD) {
        return false;
    }
    w->guessed = true;
    return step_by_pointer(w);
}
#else
static inline bool step(struct walk *w) {
    return step_by_pointer(w);
}
#endif

/* Begins with its own frame pointer, which tells its caller's frame. */
NOINLINE size_t stack_capture(uintptr_t *frames, size_t most, unsigned skip) {
    struct walk w;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    extent_here(&w.extent, here);
    w.switched = w.guessed = false;
    w.stack_pointer = here;
    w.frame_pointer = here;
#if HAVE_UNWIND_TABLES
    w.latest = w.modules_met = 0;
    for (unsigned i = 0; i < MODULES; i++) {
        w.modules[i].start = w.modules[i].end = 0;
    }
#endif
    size_t count = 0;
    size_t left_out = 0;
    bool more = step_by_pointer(&w);
    while (more && count < most && left_out < FRAMES_LEFT_OUT_MOST) {
        if (is_own(w.interrupted ? w.code : w.code - 1)) {
            left_out++;
        } else if (skip > 0) {
            skip--;
            left_out++;
        } else {
            frames[count++] = w.code + w.interrupted;
        }
        more = step(&w);
    }
    for (size_t further = 0;
         UNLIKELY(more) && further < FURTHER_FRAMES_MOST && extent_wants_more_frames(w.stack_pointer);
         further++) {
        more = step(&w);
    }
    if (!w.switched && !w.guessed) { /* else its frames may be those of several stacks */
        extent_keep(&w.extent, w.stack_pointer);
    }
    return count;
}
