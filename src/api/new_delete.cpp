// operator new and delete in all their forms, on top of hak_malloc and hak_free.
//
// Promises what the C++ standard asks: the new-handler is called until memory is found, bad_alloc is
// thrown by the forms that may throw, and where a program replaces only some forms, the others call these.
// The shared library must not depend on a C++ runtime, because it is preloaded into C programs, too: it looks
// for the runtime when it needs it.

#include "hakmem.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef HAKMEM_NO_CXX_RUNTIME
#include <dlfcn.h>
#include <link.h>

#include "os/report.h"

// Where the library begins and ends: the linker's names.
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char _end[] __attribute__((visibility("hidden")));
#endif

namespace {

using Handler = void (*)();

#ifdef HAKMEM_NO_CXX_RUNTIME

// The runtime may be a plug-in's, which global look-up does not find, or linked into the program or a
// plug-in; and there may be several, of which each unwinds its own code only. An object that is loaded: the
// one that holds `address` or, if that is null, the one behind `left` others; and its name, copied while the
// loader keeps it.
struct Loaded {
    const void *address;
    std::size_t left;
    char name[4096];
};

__attribute__((cold)) bool holds(const dl_phdr_info *info, const void *address) {
    auto offset = reinterpret_cast<std::uintptr_t>(address) - info->dlpi_addr;
    for (std::size_t i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && offset - part.p_vaddr < part.p_memsz) {
            return true;
        }
    }
    return false;
}

__attribute__((cold)) int look_at(dl_phdr_info *info, std::size_t, void *wanted) {
    auto *loaded = static_cast<Loaded *>(wanted);
    bool found = loaded->address != nullptr ? holds(info, loaded->address) : loaded->left-- == 0;
    std::size_t length = found ? std::strlen(info->dlpi_name) : 0;
    if (found && length < sizeof loaded->name) {
        std::memcpy(loaded->name, info->dlpi_name, length + 1);
    }
    return found ? 1 : 0;
}

// Whether it is this library's: global look-up finds its forms of operator new before the runtime's.
__attribute__((cold)) bool is_own(const void *symbol) {
    auto address = reinterpret_cast<std::uintptr_t>(symbol);
    return address >= reinterpret_cast<std::uintptr_t>(__ehdr_start) &&
           address < reinterpret_cast<std::uintptr_t>(_end);
}

// What the object, or one that it depends on, has by this name, but for this library's; the name of the
// program is empty.
__attribute__((cold)) void *symbol_in(const char *object, const char *name) {
    void *library = dlopen(object[0] == '\0' ? nullptr : object, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library == nullptr ? nullptr : dlsym(library, name);
    if (library != nullptr) {
        dlclose(library);
    }
    return found != nullptr && is_own(found) ? nullptr : found;
}

// The address of a symbol of the C++ runtime: the caller's, or whichever is loaded; null if none is.
__attribute__((cold)) void *runtime_symbol(const char *name, const void *caller) {
    Loaded object{caller, 0, {}};
    void *found = dl_iterate_phdr(look_at, &object) == 0 ? nullptr : symbol_in(object.name, name);
    if (found == nullptr) {
        found = dlsym(RTLD_NEXT, name);
    }
    object.address = nullptr;
    for (std::size_t i = 0; found == nullptr; i++) {
        object.left = i;
        if (dl_iterate_phdr(look_at, &object) == 0) {
            break;
        }
        found = symbol_in(object.name, name);
    }
    return found;
}

__attribute__((cold)) Handler current_handler(const void *caller) {
    using Getter = Handler (*)();
    auto get = reinterpret_cast<Getter>(runtime_symbol("_ZSt15get_new_handlerv", caller));
    return get == nullptr ? nullptr : get();
}

// As the runtime's own function for this does, which is not in every program that has linked the runtime
// statically: what a handler for bad_alloc needs is in each that has one.
[[noreturn]] __attribute__((cold)) void throw_bad_alloc(const void *caller) {
    using Allocate = void *(*)(std::size_t);
    using Throw = void (*)(void *, void *, void *);
    auto allocate_exception = reinterpret_cast<Allocate>(runtime_symbol("__cxa_allocate_exception", caller));
    auto raise = reinterpret_cast<Throw>(runtime_symbol("__cxa_throw", caller));
    void *type = runtime_symbol("_ZTISt9bad_alloc", caller);
    auto *table = static_cast<void **>(runtime_symbol("_ZTVSt9bad_alloc", caller));
    void *destructor = runtime_symbol("_ZNSt9bad_allocD1Ev", caller);
    if (allocate_exception != nullptr && raise != nullptr && type != nullptr && table != nullptr) {
        auto **exception = static_cast<void **>(allocate_exception(sizeof(void *)));
        *exception = table + 2; // where the vtable's functions begin, in the Itanium ABI
        raise(exception, type, destructor);
    }
    report_line("operator new: out of memory, and no C++ runtime to throw std::bad_alloc; aborting");
    std::abort();
}

#else

Handler current_handler(const void *) {
    return std::get_new_handler();
}

[[noreturn]] void throw_bad_alloc(const void *) {
    throw std::bad_alloc();
}

#endif

void *attempt(std::size_t size, std::size_t alignment) {
    return alignment == 0 ? hak_malloc(size) : hak_aligned_alloc(alignment, size);
}

// Calls the new-handler until there is memory; throws bad_alloc if there is no handler. Both are those of the
// runtime that the caller of operator new was linked with: the operators end in calls of this and of
// insist_quietly, whose return address so is theirs.
__attribute__((cold, noinline)) void *insist(std::size_t size, std::size_t alignment) {
    const void *caller = __builtin_return_address(0);
    for (;;) {
        Handler handler = current_handler(caller);
        if (handler == nullptr) {
            throw_bad_alloc(caller);
        }
        handler();
        if (void *p = attempt(size, alignment)) {
            return p;
        }
    }
}

inline void *allocate(std::size_t size, std::size_t alignment) {
    void *p = attempt(size, alignment);
    return __builtin_expect(p != nullptr, 1) ? p : insist(size, alignment);
}

// For the forms that must not throw, which still call the new-handler, and that may throw. Without a runtime
// of its own the library cannot catch that: the runtime's nothrow forms do just this around the throwing
// form, which is the library's, or the program's if it has one.
#ifdef HAKMEM_NO_CXX_RUNTIME
__attribute__((cold, noinline)) void *insist_quietly(std::size_t size, std::size_t alignment,
                                                     bool array) noexcept {
    const void *caller = __builtin_return_address(0);
    using Plain = void *(*)(std::size_t, const std::nothrow_t &);
    using Aligned = void *(*)(std::size_t, std::align_val_t, const std::nothrow_t &);
    static const std::nothrow_t quietly{};
    if (alignment == 0) {
        auto next = reinterpret_cast<Plain>(
            runtime_symbol(array ? "_ZnamRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t", caller));
        return next == nullptr ? nullptr : next(size, quietly);
    }
    auto next = reinterpret_cast<Aligned>(runtime_symbol(
        array ? "_ZnamSt11align_val_tRKSt9nothrow_t" : "_ZnwmSt11align_val_tRKSt9nothrow_t", caller));
    return next == nullptr ? nullptr : next(size, std::align_val_t(alignment), quietly);
}
#else
__attribute__((cold, noinline)) void *insist_quietly(std::size_t size, std::size_t alignment,
                                                     bool array) noexcept {
    try {
        if (alignment == 0) {
            return array ? operator new[](size) : operator new(size);
        }
        std::align_val_t aligned{alignment};
        return array ? operator new[](size, aligned) : operator new(size, aligned);
    } catch (...) {
        return nullptr;
    }
}
#endif

} // namespace

// Weak in a static library: a form that the program defines itself would otherwise be there twice.
#ifdef HAKMEM_STATIC
#define PUBLIC __attribute__((visibility("default"), weak))
#else
#define PUBLIC __attribute__((visibility("default")))
#endif
// For forms that few programs call, so that they lie apart from what every program calls.
#define PUBLIC_SELDOM PUBLIC __attribute__((cold))

PUBLIC void *operator new(std::size_t size) {
    return allocate(size, 0);
}
PUBLIC void *operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
PUBLIC void operator delete(void *p) noexcept {
    hak_free(p);
}
PUBLIC void operator delete(void *p, std::align_val_t) noexcept {
    hak_free(p);
}

PUBLIC void *operator new[](std::size_t size) {
    return operator new(size);
}
PUBLIC void *operator new[](std::size_t size, std::align_val_t alignment) {
    return operator new(size, alignment);
}

namespace {

// This library's throwing forms, whether or not the program has some of its own.
#define OWN __attribute__((malloc, alloc_size(1)))
OWN void *own_new(std::size_t size) __attribute__((alias("_Znwm")));
OWN void *own_new(std::size_t size, std::align_val_t alignment)
    __attribute__((alias("_ZnwmSt11align_val_t")));
OWN void *own_array_new(std::size_t size) __attribute__((alias("_Znam")));
OWN void *own_array_new(std::size_t size, std::align_val_t alignment)
    __attribute__((alias("_ZnamSt11align_val_t")));

using Plain = void *(*)(std::size_t);
using Aligned = void *(*)(std::size_t, std::align_val_t);

// Whether the program has a throwing operator new of its own, which the nothrow one must then call.
inline bool is_replaced(std::size_t alignment) {
    return alignment == 0 ? static_cast<Plain>(::operator new) != static_cast<Plain>(own_new)
                          : static_cast<Aligned>(::operator new) != static_cast<Aligned>(own_new);
}

// Whether the program has a throwing operator new[] of its own, or the operator new that this library's
// calls.
inline bool is_array_replaced(std::size_t alignment) {
    return is_replaced(alignment) ||
           (alignment == 0 ? static_cast<Plain>(::operator new[]) != static_cast<Plain>(own_array_new)
                           : static_cast<Aligned>(::operator new[]) != static_cast<Aligned>(own_array_new));
}

inline void *allocate_quietly(std::size_t size, std::size_t alignment, bool array) noexcept {
    bool replaced = array ? is_array_replaced(alignment) : is_replaced(alignment);
    void *p = replaced ? nullptr : attempt(size, alignment);
    return __builtin_expect(p != nullptr, 1) ? p : insist_quietly(size, alignment, array);
}

} // namespace

PUBLIC void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return allocate_quietly(size, 0, false);
}
PUBLIC_SELDOM void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return allocate_quietly(size, 0, true);
}
PUBLIC_SELDOM void *operator new(std::size_t size, std::align_val_t alignment,
                                 const std::nothrow_t &) noexcept {
    return allocate_quietly(size, static_cast<std::size_t>(alignment), false);
}
PUBLIC_SELDOM void *operator new[](std::size_t size, std::align_val_t alignment,
                                   const std::nothrow_t &) noexcept {
    return allocate_quietly(size, static_cast<std::size_t>(alignment), true);
}

PUBLIC void operator delete[](void *p) noexcept {
    operator delete(p);
}
PUBLIC void operator delete(void *p, const std::nothrow_t &) noexcept {
    operator delete(p);
}
PUBLIC void operator delete[](void *p, const std::nothrow_t &) noexcept {
    operator delete[](p);
}
PUBLIC void operator delete(void *p, std::size_t) noexcept {
    operator delete(p);
}
PUBLIC void operator delete[](void *p, std::size_t) noexcept {
    operator delete[](p);
}
PUBLIC void operator delete[](void *p, std::align_val_t alignment) noexcept {
    operator delete(p, alignment);
}
PUBLIC void operator delete(void *p, std::size_t, std::align_val_t alignment) noexcept {
    operator delete(p, alignment);
}
PUBLIC void operator delete[](void *p, std::size_t, std::align_val_t alignment) noexcept {
    operator delete[](p, alignment);
}
PUBLIC void operator delete(void *p, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    operator delete(p, alignment);
}
PUBLIC void operator delete[](void *p, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    operator delete[](p, alignment);
}
