/* What was counted for each call site, as text.
 *
 * Promises to print what a site points to only where that is a text of the form "file:line". Relies on the
 * counts of sites.c, and on some memory of the OS while it sorts; without that no site is written.
 */
#ifndef HAKMEM_OBSERVE_SITES_H
#define HAKMEM_OBSERVE_SITES_H

#include "observe/output.h"

/* A few lines about the sites that hold most; nothing where none was ever used. */
void sites_write_top(struct output *out);

#endif
