#include "profile/leaks.h"

#include "base/floating.h"
#include "os/sink.h"
#include "profile/modules.h"
#include "profile/snapshot.h"

#define STACKS_MOST 50

static void write_amount(struct sink *out, double bytes, double blocks, uint64_t samples) {
    sink_string(out, "about ");
    sink_bytes(out, (uint64_t)(bytes + 0.5));
    sink_string(out, " in ");
    uint64_t whole_blocks = (uint64_t)(blocks + 0.5);
    sink_decimal(out, whole_blocks);
    sink_string(out, whole_blocks == 1 ? " block (" : " blocks (");
    sink_decimal(out, samples);
    sink_string(out, samples == 1 ? " sample)" : " samples)");
}

/* Writes one frame. It is the address behind a call; the byte before it belongs to the call. */
static void write_frame(struct sink *out, const struct modules *modules, uintptr_t frame) {
    uintptr_t call = frame - 1;
    const struct module *module = modules_find(modules, call);
    sink_string(out, "    ");
    sink_hex(out, call);
    if (module != NULL) {
        sink_string(out, "  ");
        sink_string(out, module->path);
        sink_char(out, '+');
        sink_hex(out, call - module->load_address);
    }
    sink_char(out, '\n');
}

static void write_shares(struct sink *out, const struct shares *shares, const struct modules *modules) {
    struct share sum = {0}, rest = {0};
    for (size_t i = 0; i < shares->count; i++) {
        struct share *into = i < STACKS_MOST ? &sum : &rest;
        into->bytes += shares->share[i].bytes;
        into->blocks += shares->share[i].blocks;
        into->samples += shares->share[i].samples;
    }
    write_amount(out, sum.bytes + rest.bytes, sum.blocks + rest.blocks, sum.samples + rest.samples);
    sink_string(out, ", from ");
    sink_decimal(out, shares->count);
    sink_string(out, shares->count == 1 ? " call stack\n" : " call stacks\n");
    for (size_t i = 0; i < shares->count && i < STACKS_MOST; i++) {
        const struct share *share = &shares->share[i];
        sink_char(out, '\n');
        sink_decimal(out, i + 1);
        sink_string(out, ". ");
        write_amount(out, share->bytes, share->blocks, share->samples);
        sink_string(out, "\n");
        if (share->origin->depth == 0) {
            sink_string(out, "    call stack unknown\n");
        }
        for (size_t f = 0; f < share->origin->depth; f++) {
            write_frame(out, modules, share->origin->frames[f]);
        }
    }
    if (rest.samples > 0) {
        sink_string(out, "\nand ");
        sink_decimal(out, shares->count - STACKS_MOST);
        sink_string(out, " more call stacks: ");
        write_amount(out, rest.bytes, rest.blocks, rest.samples);
        sink_char(out, '\n');
    }
}

static int write_report(int fd, const struct shares *shares) {
    struct modules *modules = modules_load();
    struct sink out;
    sink_begin(&out, fd);
    sink_string(&out, "hakmem: in use and sampled (one sample for ");
    sink_bytes(&out, shares->interval);
    sink_string(&out, "; an estimate, and what is in use need not be lost): ");
    if (shares->count == 0) {
        sink_string(&out, "nothing\n");
    } else {
        write_shares(&out, shares, modules);
    }
    modules_end(modules);
    return sink_end(&out);
}

static int write_leaks(int fd) {
    struct snapshot *snapshot = snapshot_take(true);
    struct shares *shares = snapshot == NULL ? NULL : shares_of_live(snapshot);
    if (snapshot != NULL) {
        snapshot_end(snapshot);
    }
    if (shares == NULL) {
        return -1;
    }
    int result = write_report(fd, shares);
    shares_end(shares);
    return result;
}

int leaks_write(int fd) {
    struct floating held = floating_hold();
    int result = write_leaks(fd);
    floating_restore(held);
    return result;
}
