#include "observe/live_page.h"

#include "base/bits.h"
#include "observe/counters.h"
#include "observe/document.h"
#include "os/clock.h"
#include "os/credentials.h"
#include "os/os.h"
#include "os/shared_page.h"
#include "os/signal.h"
#include "profile/sample.h"

#include <string.h>

_Static_assert(offsetof(struct live_page, current) == 24 && offsetof(struct live_page, length) == 32 &&
                   offsetof(struct live_page, sequence) == 48 &&
                   offsetof(struct live_page, request_sequence) == 64 &&
                   offsetof(struct live_page, request_argument) == 72 &&
                   offsetof(struct live_page, done_errno) == 84 &&
                   offsetof(struct live_page, interval_before) == 88 &&
                   offsetof(struct live_page, sampling_run) == 104 &&
                   offsetof(struct live_page, given_up) == 112 &&
                   offsetof(struct live_page, request_path) == 128,
               "other programs know these");
_Static_assert(sizeof(struct live_page) <= LIVE_TEXTS_OFFSET, "the header has one page");

static struct {
    struct live_page *page; /* NULL: not made */
    uint64_t credentials;   /* what os_credentials said when the page was made */
    uint32_t text_bytes;    /* so much of each of the two texts is usable */
    struct shared_file file;
} own;

OFTEN struct live_page *live_page_now(void) { /* every program comes here when it ends */
    return own.page;
}

static char *text_of(unsigned number) {
    return (char *)own.page + LIVE_TEXTS_OFFSET + (size_t)number * LIVE_TEXT_BYTES;
}

/* Makes `bytes` of each of the two texts usable; false if there is no memory. */
static bool extend_texts(size_t bytes) {
    size_t wanted = min_size(round_up(bytes, OS_PAGE_BYTES), LIVE_TEXT_BYTES);
    for (size_t i = 0; i < 2; i++) {
        if (!shared_extend(&own.file, LIVE_TEXTS_OFFSET + i * LIVE_TEXT_BYTES + own.text_bytes,
                           wanted - own.text_bytes)) {
            return false;
        }
    }
    own.text_bytes = (uint32_t)wanted;
    return true;
}

/* Makes the page; the caller has blocked signals. */
static bool make_page_undisturbed(void) {
    own.text_bytes = 0;
    own.page = shared_make(&own.file, LIVE_FILE_BYTES);
    if (own.page == NULL) {
        return false;
    }
    if (!shared_extend(&own.file, 0, LIVE_TEXTS_OFFSET) || !extend_texts(1)) {
        shared_remove(&own.file);
        shared_unmap(own.page, LIVE_FILE_BYTES);
        own.page = NULL;
        return false;
    }
    struct live_page *page = own.page;
    own.credentials = os_credentials(os_thread_id());
    page->pid = (uint32_t)os_process_id();
    page->buffer_bytes = LIVE_TEXT_BYTES;
    page->start_ticks = os_start_ticks();
    memcpy(page->magic, "HAKLIVE1", sizeof page->magic);
    return true;
}

bool live_page_make(void) {
    uint64_t signals;
    os_block_signals(&signals);
    bool made = make_page_undisturbed();
    os_restore_signals(&signals);
    return made;
}

/* Signals are blocked because a handler might fork, and a child that shares the open /proc file would read
 * a part of it away. */
COLD bool live_page_credentials_changed(void) {
    uint64_t signals;
    os_block_signals(&signals);
    bool changed = os_credentials(os_thread_id()) != own.credentials;
    os_restore_signals(&signals);
    return changed;
}

void live_page_forget(void) {
    uint64_t signals;
    os_block_signals(&signals);
    if (own.page != NULL) {
        shared_unmap(own.page, LIVE_FILE_BYTES);
    }
    own.page = NULL;
    os_restore_signals(&signals);
}

void live_page_remove(void) {
    atomic_store_explicit(&own.page->given_up, 1, memory_order_relaxed);
    shared_remove(&own.file);
}

COLD void live_page_make_private(void) {
    if (own.page != NULL) {
        shared_make_private(own.page, LIVE_FILE_BYTES);
    }
}

static size_t write_text(char *text, const struct census *census, bool with_classes) {
    struct output out = output_to_buffer(text, own.text_bytes);
    document_write(&out, census, with_classes);
    return out.total;
}

uint64_t live_page_note_sampling(void) {
    struct live_page *page = own.page;
    page->sampling_run = atomic_load_explicit(&profile_switch.run, memory_order_acquire);
    page->interval = atomic_load_explicit(&profile_switch.interval, memory_order_relaxed);
    return page->interval;
}

void live_page_publish(const struct census *census) {
    struct live_page *page = own.page;
    uint32_t next = 1 - (atomic_load_explicit(&page->current, memory_order_relaxed) & 1);
    /* relaxed above: only the holder writes it. The fence pairs with the reader's acquire before it looks at
     * the sequence again: a reader that is still in the older text, which is overwritten here, and meets a
     * byte of the new one, then sees that the sequence has grown since. */
    atomic_thread_fence(memory_order_release);
    size_t length = write_text(text_of(next), census, true);
    if (length >= own.text_bytes) {
        bool room = length < LIVE_TEXT_BYTES && extend_texts(length + length / 4);
        length = write_text(text_of(next), census, room);
    }
    if (length >= own.text_bytes) {
        return; /* not even without the classes: what was published before stays */
    }
    page->length[next] = length;
    page->published_ms = os_real_ms();
    (void)live_page_note_sampling();
    /* release, both: each pairs with the reader's acquire, which may see `current` before it
     * sees the sequence */
    atomic_store_explicit(&page->current, next, memory_order_release);
    atomic_fetch_add_explicit(&page->sequence, 1, memory_order_release);
    counters_note_publication();
}
