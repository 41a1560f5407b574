/* report_line for new_delete.cpp, which has no other way to it. */
#include "os/report.h"

void hak_cxx_report(const char *message);

void hak_cxx_report(const char *message) {
    report_line(message);
}
