"""HAKMEM for the command line: runs programs on the allocator and compares it with libc's."""
