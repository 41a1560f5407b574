#include "os/signal.h"

#include <signal.h>
#include <string.h>

bool os_on_signal(int number, void (*handler)(int number)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    return sigaction(number, &action, NULL) == 0;
}
