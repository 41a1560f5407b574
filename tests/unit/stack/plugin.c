/* A library to be loaded and unloaded. Its builds differ in nothing but the size of a frame, so that one lies
 * exactly where the other was. */
#include <string.h>

#ifndef HAKMEM_TEST_ROOM_BYTES
#error "CMakeLists.txt says how large the frame is"
#endif

void plugin_call(void (*function)(void *), void *context);

void plugin_call(void (*function)(void *), void *context) {
    volatile char room[HAKMEM_TEST_ROOM_BYTES];
    room[0] = 1;
    function(context);
    room[1] = room[0];
}
