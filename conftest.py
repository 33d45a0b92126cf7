"""One thread and one configuration for each test process and for those that it starts.

The tests run on all cores already; more threads would only wait for each other. The user's own
configuration is left alone. This file is read before any library counts the cores.
"""

import os
import sys
import tempfile

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Tests rewritten by pytest are compiled once, also where Python is told to write no bytecode.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_CONFIG = tempfile.TemporaryDirectory(prefix="untwine-config-")
os.environ["UNTWINE_CONFIG"] = _CONFIG.name

collect_ignore = ["tests/corpus"]  # files for tests and the fuzzer, with imports of their own
