"""One thread for each test process and for those that it starts; bytecode is kept.

The tests run on all cores already; more threads would only wait for each other. This file is read
before any library counts the cores.
"""

import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Tests rewritten by pytest are compiled once, also where Python is told to write no bytecode.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
