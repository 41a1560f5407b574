"""Run as a script: the values of a library's options, as one JSON object, by variable.

Arguments are the library's path and the options' names. A process for itself, because the library reads its
environment once; and without site-packages, so that it starts fast.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hakmem.errors import HakmemError
from hakmem.library import Library

_, path, *names = sys.argv
try:
    options = {option.name: option for option in Library(Path(path)).options()}
except HakmemError as error:
    sys.exit(f"hakmem: {error}")
print(json.dumps({options[name].environment: options[name].value for name in names}))
