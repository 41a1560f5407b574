#include "observe/sites.h"

#include "base/bits.h"
#include "observe/census.h"
#include "os/clock.h"
#include "os/pages.h"
#include "os/report.h"

#include <errno.h>
#include <stdatomic.h>

#define SITES 16384
#define TABLE_BYTES (SITES * sizeof(struct site))
/* Places tried before the table counts as full. */
#define PROBES_MAX 64

/* relaxed everywhere, except where the key is set and looked for: each figure is a number of its own, and
 * those that are read together may be of different moments while other threads change them. */
struct site {
    _Atomic hak_site_t key; /* 0: unused; set once, acq_rel in find, which pairs with the acquire there */
    _Atomic uint64_t used;  /* allocations counted; 0: none, which the key of the unknown site cannot tell */
    /* Of the live ones each may be below 0, modulo 2^64, where blocks are freed with another site or size
     * than they were allocated with. */
    _Atomic uint64_t live_blocks, live_bytes, total_blocks, total_bytes, peak_bytes;
    _Atomic uint64_t first_ms; /* when the first block was allocated */
    /* Sum of the times of all frees less that of all allocations, modulo 2^64: see mean_lifetime. */
    _Atomic uint64_t time_balance_ms;
};

/* The table, made at the first use; &unknown if there was no memory for it. release in make_table pairs with
 * the acquire in table_now. */
static struct site *_Atomic sites;
static struct site unknown; /* site 0, and every site for which there was no room */

static size_t hash(hak_site_t key) {
    return (size_t)((key * GOLDEN_64) >> 40) % SITES;
}

/* Makes the table, or takes the one that another thread has made; &unknown if there is no memory. Without a
 * lock, which a fork might leave held in the child for ever. */
static COLD struct site *make_table(void) {
    int saved_errno = errno; /* hak_free_at, which keeps errno, may be the first to need the table */
    struct site *made = pages_take(TABLE_BYTES);
    errno = saved_errno;
    struct site *table = NULL;
    /* acq_rel: release pairs with the acquire in table_now, and acquire with the release of another thread
     * that has made the table. If there is no memory now, no table is made later either: what is counted for
     * a site must not be divided between two lines. */
    if (atomic_compare_exchange_strong_explicit(&sites, &table, made != NULL ? made : &unknown,
                                                memory_order_acq_rel, memory_order_acquire)) {
        if (made != NULL) {
            census_add_table(made, TABLE_BYTES);
        }
        return made != NULL ? made : &unknown;
    }
    pages_give(made, TABLE_BYTES);
    return table;
}

/* The table, made if need be and wanted; NULL if there is none. */
static struct site *table_now(bool make) {
    struct site *table = atomic_load_explicit(&sites, memory_order_acquire);
    if (table == NULL && make) {
        table = make_table();
    }
    return table == &unknown ? NULL : table;
}

/* The line of a site, taken if need be and wanted; NULL if it has none, or there is no room. */
static struct site *find(hak_site_t key, bool make) {
    if (key == 0) {
        return &unknown;
    }
    struct site *table = table_now(make);
    if (table == NULL) {
        return NULL;
    }
    for (size_t i = 0, at = hash(key); i < PROBES_MAX; i++, at = (at + 1) % SITES) {
        struct site *site = &table[at];
        hak_site_t found = atomic_load_explicit(&site->key, memory_order_acquire);
        if (found == 0 && make) {
            /* acq_rel: pairs with the acquire load above in other threads */
            if (atomic_compare_exchange_strong_explicit(&site->key, &found, key, memory_order_acq_rel,
                                                        memory_order_acquire)) {
                return site;
            }
        }
        if (found == key) {
            return site;
        }
        if (found == 0) {
            return NULL;
        }
    }
    return NULL;
}

/* The line of a site; that of the unknown site if there is no room for another. */
static struct site *find_to_count(hak_site_t key) {
    struct site *site = find(key, true);
    if (site == NULL) {
        report_fallback(FALLBACK_SITE_TABLE_FULL, 0);
        site = &unknown;
    }
    return site;
}

static uint64_t add(_Atomic uint64_t *figure, uint64_t n) {
    return atomic_fetch_add_explicit(figure, n, memory_order_relaxed) + n;
}

static uint64_t at_least_0(uint64_t live) {
    return (int64_t)live < 0 ? 0 : live;
}

void site_count_allocation(hak_site_t key, size_t size) {
    struct site *site = find_to_count(key);
    uint64_t now = os_now_ms();
    uint64_t none = 0;
    if (add(&site->used, 1) == 1) {
        atomic_compare_exchange_strong_explicit(&site->first_ms, &none, now, memory_order_relaxed,
                                                memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&site->time_balance_ms, now, memory_order_relaxed);
    add(&site->live_blocks, 1);
    add(&site->total_blocks, 1);
    add(&site->total_bytes, size);
    uint64_t live = at_least_0(add(&site->live_bytes, size));
    uint64_t peak = atomic_load_explicit(&site->peak_bytes, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak_explicit(
                              &site->peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void site_count_free(hak_site_t key, size_t size) {
    struct site *site = find_to_count(key);
    atomic_fetch_sub_explicit(&site->live_blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&site->live_bytes, size, memory_order_relaxed);
    add(&site->time_balance_ms, os_now_ms());
}

/* The lifetimes of all blocks add up to the integral of the live blocks over time, which is
 *   (sum of the times of frees) - (sum of those of allocations) + live_blocks * now
 * with the blocks that live counted up to now. Modulo 2^64 in every step, the result is right. */
static uint64_t mean_lifetime(uint64_t balance, uint64_t live, uint64_t total, uint64_t now) {
    uint64_t integral = balance + live * now;
    /* Beyond half the range it is below 0: an allocation is just being counted, and only a
     * part of it is seen. */
    return total == 0 || integral > UINT64_MAX / 2 ? 0 : integral / total;
}

static void read_site(struct site *site, hak_site_stats_t *out) {
    uint64_t now = os_now_ms();
    uint64_t first = atomic_load_explicit(&site->first_ms, memory_order_relaxed);
    uint64_t balance = atomic_load_explicit(&site->time_balance_ms, memory_order_relaxed);
    out->site = atomic_load_explicit(&site->key, memory_order_relaxed);
    uint64_t live = atomic_load_explicit(&site->live_blocks, memory_order_relaxed);
    out->live_blocks = at_least_0(live);
    out->live_bytes = at_least_0(atomic_load_explicit(&site->live_bytes, memory_order_relaxed));
    out->total_blocks = atomic_load_explicit(&site->total_blocks, memory_order_relaxed);
    out->total_bytes = atomic_load_explicit(&site->total_bytes, memory_order_relaxed);
    out->peak_bytes = atomic_load_explicit(&site->peak_bytes, memory_order_relaxed);
    out->blocks_per_second = out->total_blocks * 1000 / (now > first ? now - first : 1);
    out->mean_lifetime_ms = mean_lifetime(balance, live, out->total_blocks, now);
}

static bool is_used(struct site *site) {
    return atomic_load_explicit(&site->used, memory_order_relaxed) != 0;
}

int site_get(hak_site_t key, hak_site_stats_t *out) {
    struct site *site = find(key, false);
    if (site == NULL || !is_used(site)) {
        errno = ENOENT;
        return -1;
    }
    read_site(site, out);
    return 0;
}

size_t sites_list(hak_site_stats_t *out, size_t capacity) {
    size_t n = 0;
    struct site *table = table_now(false);
    for (size_t i = 0; i <= (table == NULL ? 0 : SITES); i++) {
        struct site *site = i == 0 ? &unknown : &table[i - 1];
        if (is_used(site)) {
            if (n < capacity) {
                read_site(site, &out[n]);
            }
            n++;
        }
    }
    return n;
}
