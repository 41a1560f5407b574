"""What programs of c/ that include resident.h are told: how long to wait, and what may stay."""

from __future__ import annotations

# Long enough on a busy machine for what takes about a second on an idle one.
PATIENCE_S = 30
MIB_KB = 1024
# The default of HAKMEM_MAGAZINE_BYTES.
MAGAZINE_KB = 384
# What may stay over the start when nothing is needed: caches of threads, what is not worth giving back.
MAY_STAY_KB = 4 * MIB_KB

IDLE_FLAGS = [
    f"-D{name}={value}"
    for name, value in {
        "PATIENCE_S": PATIENCE_S,
        "MAY_STAY_KB": MAY_STAY_KB,
        "MAGAZINE_KB": MAGAZINE_KB,
    }.items()
]
