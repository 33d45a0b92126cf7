"""What is compiled is kept for other processes, and said when it takes time."""

import os
import subprocess
import sys

import numpy as np
import pytest

from untwine.tools import compiling

BINS = """
import numpy as np
from untwine.estimators.information import discretise
print(discretise(np.arange(4.0)[:, None], 2)[:, 0].tolist())
"""


def discretise(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", BINS], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[0, 0, 1, 1]"
    return done.stderr


def test_the_first_process_says_that_it_compiles_and_the_next_finds_it(tmp_path):
    assert discretise(tmp_path).count("compiling numerical code") == 1
    assert discretise(tmp_path) == ""


def test_code_that_cannot_be_kept_is_compiled_all_the_same(monkeypatch):
    def njit(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiling, "njit", njit)
    assert compiling.compile_once()(np.square)(3) == 9


@pytest.mark.parametrize("name", ["trees", "linear", "counting"])
def test_every_compiled_function_is_kept(name):
    module = __import__(f"untwine.estimators.{name}", fromlist=["*"])
    functions = [f for f in vars(module).values() if hasattr(f, "py_func")]
    assert functions and all(type(f._cache).__name__ == "FunctionCache" for f in functions)
