#include "observe/sites_text.h"

#include "base/bits.h"
#include "base/sort.h"
#include "observe/json.h"
#include "observe/sites.h"
#include "os/pages.h"
#include "os/resident.h"

#define TOP_SITES 8
#define PLACE_BYTES 128

struct listing {
    hak_site_stats_t *sites;
    size_t count;
    size_t room; /* how many sites there is memory for */
};

/* Whether `a` is listed before `b`. */
static bool before(const void *one, const void *other) {
    const hak_site_stats_t *a = one;
    const hak_site_stats_t *b = other;
    return a->live_bytes != b->live_bytes ? a->live_bytes > b->live_bytes : a->total_bytes > b->total_bytes;
}

/* All sites in order; none if there is no memory. */
static struct listing list_sites(void) {
    struct listing listing = {.room = sites_list(NULL, 0)};
    if (listing.room > 0) {
        listing.sites = pages_take(listing.room * sizeof *listing.sites);
    }
    if (listing.sites != NULL) {
        listing.count = min_size(sites_list(listing.sites, listing.room), listing.room);
        sort_items(listing.sites, listing.count, sizeof *listing.sites, before);
    }
    return listing;
}

static void end_listing(const struct listing *listing) {
    pages_give(listing->sites, listing->room * sizeof *listing->sites);
}

/* Copies the text that the site points to; whether it is one like "file:line". A site may be any number. */
static bool place_of(hak_site_t site, char place[PLACE_BYTES]) {
    size_t n = os_read_own_memory(site, place, PLACE_BYTES);
    size_t length = 0;
    while (length < n && place[length] >= ' ' && place[length] <= '~') {
        length++;
    }
    if (length == n || place[length] != '\0') {
        return false;
    }
    size_t digits = 0;
    while (digits < length && place[length - 1 - digits] >= '0' && place[length - 1 - digits] <= '9') {
        digits++;
    }
    return digits > 0 && length > digits + 1 && place[length - 1 - digits] == ':';
}

static void write_line(struct output *out, const hak_site_stats_t *s) {
    char place[PLACE_BYTES];
    out_string(out, "  ");
    out_bytes_column(out, s->live_bytes, 10);
    out_decimal_column(out, s->live_blocks, 12);
    out_bytes_column(out, s->peak_bytes, 12);
    out_decimal_column(out, s->total_blocks, 14);
    out_decimal_column(out, s->blocks_per_second, 12);
    out_decimal_column(out, s->mean_lifetime_ms, 12);
    out_string(out, "  ");
    if (place_of(s->site, place)) {
        out_string(out, place);
    } else if (s->site == 0) {
        out_string(out, "unknown");
    } else {
        out_hex(out, s->site);
    }
    out_char(out, '\n');
}

static void write_table(struct output *out, size_t most) {
    struct listing listing = list_sites();
    if (listing.count > 0) {
        out_string(out, "call sites");
        out_string(out, "  live blocks        peak    all blocks    a second lifetime ms  place\n");
    }
    for (size_t i = 0; i < min_size(listing.count, most); i++) {
        write_line(out, &listing.sites[i]);
    }
    end_listing(&listing);
}

void sites_write_top(struct output *out) {
    write_table(out, TOP_SITES);
}

void sites_print(int fd) {
    struct sink sink;
    sink_begin(&sink, fd);
    struct output out = output_to_sink(&sink);
    write_table(&out, SIZE_MAX);
    (void)sink_end(&sink); /* the caller is not told of errors */
}

static void write_json(struct json *json, const hak_site_stats_t *s) {
    char place[PLACE_BYTES];
    json_open(json, NULL, '{');
    json_address(json, "site", s->site);
    if (place_of(s->site, place)) {
        json_string(json, "place", place);
    } else {
        json_null(json, "place");
    }
    json_number(json, "live_blocks", s->live_blocks);
    json_number(json, "live_bytes", s->live_bytes);
    json_number(json, "peak_bytes", s->peak_bytes);
    json_number(json, "total_blocks", s->total_blocks);
    json_number(json, "total_bytes", s->total_bytes);
    json_number(json, "blocks_per_second", s->blocks_per_second);
    json_number(json, "mean_lifetime_ms", s->mean_lifetime_ms);
    json_close(json, '}');
}

int sites_print_json(int fd) {
    struct sink sink;
    sink_begin(&sink, fd);
    struct output out = output_to_sink(&sink);
    struct json json = {.out = &out, .needs_comma = false};
    struct listing listing = list_sites();
    json_open(&json, NULL, '{');
    json_number(&json, "schema", 1);
    json_open(&json, "sites", '[');
    for (size_t i = 0; i < listing.count; i++) {
        write_json(&json, &listing.sites[i]);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    out_char(&out, '\n');
    end_listing(&listing);
    return sink_end(&sink);
}
