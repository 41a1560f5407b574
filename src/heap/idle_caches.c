#include "heap/idle_caches.h"

#include "heap/magazine.h"
#include "heap/relief.h"
#include "options/options.h"
#include "os/program.h"

/* Magazines that one call empties, because each may bring a look. */
#define EMPTIED_AT_ONCE 4

COLD void idle_caches_empty(struct heap *self) {
    int64_t resident = slack_resident();
    self->slack_then = resident < self->slack_then ? resident : self->slack_then;
    heap_enter(self);
    self->emptying = true;
    if (self->full_classes == 0 && resident - self->slack_then > (int64_t)option_number(OPTION_RETAIN_MIN) &&
        !os_program_has_threads() && relief_kept_by(self) != KEPT_LITTLE) {
        self->full_classes = TINY_CLASSES;
    }
    for (unsigned i = 0; i < EMPTIED_AT_ONCE && self->full_classes > 0; i++) {
        (void)heap_flush_magazine(self, self->full_classes - 1u, FLUSH_IDLE);
        self->full_classes--;
        self->slack_then = slack_resident();
    }
    self->emptying = false;
    heap_leave(self);
}
