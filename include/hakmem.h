/* hakmem.h: the public interface of HAKMEM, a drop-in malloc for Linux.
 *
 * Preloading or linking the library replaces the whole malloc family and operator new/delete; this
 * header adds the same allocator under its own names, and what the standard names cannot say.
 *
 * Unless a function says otherwise: sizes are in bytes; any thread may call it at any time, before
 * main, inside atexit handlers and after fork included (but not in a child that `_Fork` or clone made of a
 * process with threads, nor in an ifunc resolver); it must not be called from a signal handler; it never
 * allocates through itself. Blocks are aligned to 16 bytes (8 bytes for requests of 8 bytes or less) and may
 * be passed between the hak_ names and the standard names freely, where these are the library's: in a program
 * that preloads or links it, not in one that only loads a plugin which is linked with it.
 *
 * Until version 1.0 structures may get more members at their ends, with any minor version, and the library
 * fills in all of its own: build with the header of the library that the program will run on.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0

#define HAK_EXPORT __attribute__((visibility("default")))

/* "major.minor.patch" of the library that is running, a constant string. */
HAK_EXPORT const char *hak_version(void);

/* Allocation */

/* As malloc: a block of at least `size` bytes, or NULL with errno ENOMEM. `size` 0 gives a unique
 * block that must be freed. Sizes over PTRDIFF_MAX fail. Cost: 16 instructions when the thread's
 * magazine for the size has a block, 36 above 1 KiB. */
HAK_EXPORT void *hak_malloc(size_t size);

/* As calloc: zeroed; an overflowing product fails with ENOMEM. Memory fresh from the OS is not
 * written again in the large and huge lanes. */
HAK_EXPORT void *hak_calloc(size_t count, size_t size);

/* As realloc: NULL `ptr` allocates; `size` 0 frees `ptr` and returns NULL (as glibc). NULL with errno
 * ENOMEM on failure, and the old block is untouched; never where it could hold `size`. In place where the
 * block, or its run, can hold `size`, which is of the same lane, and more than half of it stays in use; huge
 * blocks move by mremap, not by copying. A block that grows by a sixteenth at most, to 64 KiB, gets room for
 * up to a quarter more than `size`, above 16 KiB for up to half, so that it is not copied each time. */
HAK_EXPORT void *hak_realloc(void *ptr, size_t size);

/* `alignment` must be a power of two (any, beyond a page too), else NULL and EINVAL; ENOMEM as malloc. */
HAK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size);

/* As free: NULL is ignored, errno is kept. A pointer that is not a live block aborts with one line
 * naming the misuse, at once or when the magazine is flushed; a block of libc's goes to libc. */
HAK_EXPORT void hak_free(void *ptr);

/* Bytes usable at `ptr` (at least what was asked for); 0 for NULL. What is seen not to be a live block aborts
 * as in hak_free; of a block of libc's it is what libc says. */
HAK_EXPORT size_t hak_usable_size(const void *ptr);

/* Bytes that a request of `size` would get at least, as of now; 0 if none of that size can be had. (From 2
 * KiB on it may get a free block of a larger class, before a new page is touched.) Later it may be less, when
 * the program has got classes of its own: ask for what this says, or ask hak_usable_size of the block. */
HAK_EXPORT size_t hak_good_size(size_t size);

/* Size classes */

/* Requests up to 1 KiB (tiny) and up to 64 KiB (mid) are rounded up to a size class; larger ones
 * have none. Classes are numbered from 0, tiny first, in the order of their block size. A program that
 * fills the first slabs of a class with mid blocks of one size gets blocks of that size instead of the
 * class's; hak_good_size says what a request gets at least, and hak_usable_size what it got. */
HAK_EXPORT int hak_size_class_count(void);                   /* tiny and mid classes together */
HAK_EXPORT int hak_tiny_class_count(void);                   /* tiny classes, which are the first ones */
HAK_EXPORT int hak_size_class_of(size_t size);               /* -1 and EINVAL above the mid lane */
HAK_EXPORT size_t hak_size_class_bytes(int size_class);      /* block size; 0 and EINVAL if none */
HAK_EXPORT size_t hak_size_class_slab_bytes(int size_class); /* of the slab run; 0 and EINVAL if none */

/* Giving memory back */

/* Returns to their slabs what the calling thread caches of one tiny class: its magazine, and its stock (what
 * the magazine had no room for). Gives the number of blocks returned, or -1 with EINVAL if `size_class` is
 * not a tiny class. Cost: one atomic operation for each bitmap word touched. */
HAK_EXPORT int hak_tiny_magazine_flush(int size_class);

/* Returns all that the calling thread caches, not of the tiny lane alone: magazines and stocks of all
 * classes, its buffer of remote frees, what others have freed of its blocks, and the runs of large blocks
 * that it keeps. Gives the number of blocks and runs returned. */
HAK_EXPORT size_t hak_tiny_magazine_flush_all(void);

/* Gives back to the OS all that can be: takes what the caches of the calling thread, of sleeping threads and
 * of threads that have ended hold, returns empty slabs of any thread, and purges every page that is resident
 * but free, in slabs that are in use, too. Returns the bytes purged meanwhile that may have been resident,
 * those by other threads included. Magazines of running threads are left alone. Cost: system calls in
 * proportion to the number of free ranges. */
HAK_EXPORT size_t hak_collect(void);

/* Call sites */

/* A call site: any stable value, for example a pointer to a string or a hash. 0 means unknown. */
typedef uintptr_t hak_site_t;

#define HAK_SITE_STRING_(x) #x
#define HAK_SITE_STRING(x) HAK_SITE_STRING_(x)
/* The place in the source where HAK_SITE() stands: a pointer to "file:line". */
#define HAK_SITE() HAK_SITE_OF_(__FILE__ ":" HAK_SITE_STRING(__LINE__))
#ifdef __cplusplus
#define HAK_SITE_OF_(text) reinterpret_cast<hak_site_t>(static_cast<const void *>(text))
#else
#define HAK_SITE_OF_(text) ((hak_site_t)(const void *)(text))
#endif

/* hak_malloc, counted for `site`. Cost: with hak_free_at some 15 times that of hak_malloc and hak_free from a
 * magazine, for nine atomic additions and two looks at the clock; more where threads share a site. */
HAK_EXPORT void *hak_alloc_at(size_t size, hak_site_t site);

/* hak_free of a block from hak_alloc_at: `size` and `site` must be those it was allocated with, also where it
 * was reallocated since, or the figures of the site are wrong (but never below 0, and the heap never is).
 * NULL is ignored and not counted. */
HAK_EXPORT void hak_free_at(void *ptr, size_t size, hak_site_t site);

typedef struct hak_site_stats {
    hak_site_t site;
    uint64_t live_blocks;
    uint64_t live_bytes; /* as requested */
    uint64_t total_blocks;
    uint64_t total_bytes;
    uint64_t peak_bytes;        /* highest live_bytes */
    uint64_t blocks_per_second; /* allocated, on average since the first one */
    uint64_t mean_lifetime_ms;  /* of all blocks; those that live count with their age. Good to some ms */
} hak_site_stats_t;

/* Figures of one site: 0, or -1 with ENOENT if nothing was ever allocated there, or it is beyond the 16,384
 * for which there is room: what those allocate counts for site 0. */
HAK_EXPORT int hak_site_get(hak_site_t site, hak_site_stats_t *out);

/* Copies the figures of up to `capacity` sites into `out` (NULL with 0 is allowed) and returns how
 * many sites there are. Exact when no other thread allocates at a site meanwhile. */
HAK_EXPORT size_t hak_site_list(hak_site_stats_t *out, size_t capacity);

/* All sites, most live bytes first, as a table written to `fd`. */
HAK_EXPORT void hak_sites_print(int fd);
/* All sites, most live bytes first, as JSON (docs/statistics.md) written to `fd`: 0, or -1 with errno. */
HAK_EXPORT int hak_sites_json(int fd);

/* Profiles */

/* Sampling: an allocation's chance to be looked at is in proportion to its bytes; what was sampled stands for
 * the rest. Costs about a microsecond for each sample, and nothing more for other blocks. The functions that
 * write return 0, or -1 with errno: ENOMEM or what write says. They hold no lock while they write. */

/* Samples one block for every `interval_bytes` from now on, and forgets what was sampled before; where that
 * is what happens already, nothing changes, nor does with 0 while any sampling is on. Otherwise with 0 the
 * interval is what the option prof_interval says, by default 512 KiB, which grows once there are more than
 * 4096 samples a second (docs/profiling.md). Other threads follow after at most a MiB of their own
 * allocations. Returns 0, or -1 with EINVAL (more than 1 TiB) or ENOTSUP (libc's allocator is in force). */
HAK_EXPORT int hak_profile_start(size_t interval_bytes);

/* Ends sampling; the blocks that were sampled are still followed until they are freed. Returns 0. */
HAK_EXPORT int hak_profile_stop(void);

/* The heap profile in the text format heap_v2, which `go tool pprof`, jeprof and Pyroscope read: what is live
 * and what was allocated since the start, by call stack. */
HAK_EXPORT int hak_profile_dump(int fd);

/* Whose blocks keep free memory from being returned, as JSON: see docs/profiling.md. */
HAK_EXPORT int hak_profile_fragmentation(int fd);

/* What is in use, by call stack, as text: estimates from the samples. */
HAK_EXPORT int hak_profile_leaks(int fd);

/* Options */

/* Every option has a name (`stats`), an environment variable (`HAKMEM_STATS`) and a default; the
 * order of precedence is API, environment, the program's `hakmem_conf`, `HAKMEM_PROFILE`, default. */
typedef struct hak_option_info {
    const char *name;
    const char *environment;
    const char *type; /* "bool", "size" (K, M, G, T suffix allowed), "int", "string", "choice" */
    const char *default_value;
    const char *description;
    const char *source; /* "default", "profile", "hakmem_conf", "environment" or "api" */
    char value[128];    /* in force now; the first 127 characters of a longer one */
} hak_option_info_t;

/* The number of options, which have the indices from 0 on. */
HAK_EXPORT int hak_option_count(void);
/* Describes the option with this index: 0, or -1 with EINVAL if there is none. */
HAK_EXPORT int hak_option_info(int index, hak_option_info_t *out);
/* Sets an option: 0, or -1 with ENOENT (no such option), EINVAL (bad value) or EPERM (can be
 * set only at start). */
HAK_EXPORT int hak_option_set(const char *name, const char *value);

/* A program may define this, to set options: "name=value,name=value". The library sees it only where it is
 * exported, which it is by default and, where this header is included, with -fvisibility=hidden, too. */
HAK_EXPORT extern const char *hakmem_conf;

/* Seeing inside */

/* docs/statistics.md explains every figure. The functions below, but for hak_stats_reset, and mallinfo,
 * mallinfo2, malloc_info and malloc_stats cost a walk over all slabs, a few superslabs at a time, and one
 * system call for each 8 MiB; no thread waits for longer than one step of it. Not for signal handlers. */

/* One readable screen of statistics, written to `fd`. */
HAK_EXPORT void hak_stats_print(int fd);

/* All statistics as one JSON object, into `buffer`, ended with NUL and cut off if `capacity` is too small (0
 * with NULL is allowed). Returns the length of the whole text, without the NUL. */
HAK_EXPORT size_t hak_stats_json(char *buffer, size_t capacity);

/* Lets all counters begin at zero again, for all readers. */
HAK_EXPORT void hak_stats_reset(void);

typedef struct hak_stats {
    uint64_t live_bytes; /* in blocks that the program holds, rounded up to their class */
    uint64_t live_blocks;
    uint64_t cached_bytes; /* in magazines, stocks, parcels and remote buffers */
    uint64_t cached_blocks;
    uint64_t free_in_slab_bytes; /* resident, in slabs that are in use */
    uint64_t slab_tail_bytes;    /* resident, but no block fits */
    uint64_t retained_bytes;     /* resident but in no slab */
    uint64_t metadata_bytes;     /* resident */
    uint64_t untouched_bytes;    /* of the live and cached ones: not resident, because never written */
    /* live + cached + free_in_slab + slab_tail + retained + metadata - untouched, as the kernel says */
    uint64_t heap_resident_bytes;
    uint64_t reserved_bytes; /* address space */
    uint64_t resident_bytes; /* of the whole process, as the kernel says; 0 where /proc cannot be read */
    uint64_t slabs_in_use;
    uint64_t heaps_active, heaps_abandoned;
    uint64_t refills, refilled_blocks, flushes, flushed_blocks, remote_frees, remote_flushes;
    uint64_t slabs_created, slabs_released, slabs_adopted;
    uint64_t large_allocs, large_frees, huge_allocs, huge_frees, huge_remaps;
    uint64_t purges, purged_bytes, system_calls;
    uint64_t decayed_bytes;   /* part of purged_bytes: not because of the bound, but because they lay idle */
    uint64_t populated_bytes; /* slab runs faulted in ahead of use, because they will be filled */
    /* Pages that came so, and where realloc copies, less one for each call: the faults that the program is
     * spared if it uses all of them. */
    uint64_t page_faults_avoided;
    uint64_t heaps_reclaimed; /* taken from threads that slept */
    uint64_t exact_classes;   /* size classes made for this program */
    uint64_t fallbacks;       /* all reasons together; hak_stats_print names them */
} hak_stats_t;

HAK_EXPORT void hak_stats_get(hak_stats_t *out);

/* Where every slab is and how full it is, as JSON (docs/statistics.md) written to `fd`: 0,
 * or -1 with errno. */
HAK_EXPORT int hak_slab_map_json(int fd);

#ifdef __cplusplus
}
#endif
#endif
