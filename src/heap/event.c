#include "heap/event.h"

heap_event_listener_function *_Atomic heap_event_listener;
void (*heap_child_listener)(bool alone);
