/* What was counted for each call site, as text.
 *
 * Promises to print what a site points to only where that is a text of the form "file:line". Relies on
 * sites.h, and on some memory of the OS while it sorts; without that no site is written.
 */
#ifndef HAKMEM_OBSERVE_SITES_TEXT_H
#define HAKMEM_OBSERVE_SITES_TEXT_H

#include "observe/output.h"

/* A few lines about the sites that hold most; nothing where none was ever used. */
void sites_write_top(struct output *out);
/* All sites, as a table; what cannot be written is not reported. */
void sites_print(int fd);
/* All sites, as JSON: 0, or -1 with errno. */
int sites_print_json(int fd);

#endif
