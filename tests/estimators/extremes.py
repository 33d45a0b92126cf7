"""Feed extreme numbers to everything compiled, with bounds checks; a program of its own.

Every metric, and every public function that leads to a compiled loop, gives finite scores or
refuses in a sentence. Run as `NUMBA_BOUNDSCHECK=1 python tests/estimators/extremes.py`.
"""

import math
import sys
import warnings

import numpy as np

from untwine.errors import UntwineError
from untwine.estimators.arrays import Split
from untwine.estimators.information import (
    binned_information,
    discretise,
    entropy,
    mutual_information,
)
from untwine.estimators.linear import fit_each_logistic, logistic_inputs, svm_accuracies
from untwine.estimators.trees import fit_boosted_trees
from untwine.registry import metrics
from untwine.scoring.arrays import CodeArrays
from untwine.scoring.latents import factor_shares
from untwine.scoring.scores import metric_needs

N = 60
RNG = np.random.default_rng(0)
PLAIN = RNG.standard_normal((N, 3))
LEVELS = RNG.integers((2, 3), size=(N, 2))
NEEDS = {"codes", "factors", "test_codes", "test_factors", "sampled_codes"}


def with_one(value, kind=np.float64):
    codes = PLAIN.astype(kind)
    codes[N // 2, 1] = value
    return codes


CODES = {
    "NaN": np.full((N, 3), np.nan),
    **{f"one {value}": with_one(value) for value in (np.nan, np.inf, -np.inf, 1e308, -1e308)},
    **{f"single {value}": with_one(value, np.float32) for value in (np.nan, np.inf, 3.4e38)},
    **{f"times {scale}": PLAIN * scale for scale in (1e300, 1e31, 1e-160, 1e-310)},
    "single times 1e31": (PLAIN * 1e31).astype(np.float32),
    "far from 0": PLAIN + 1e31,
    "ends": np.where(PLAIN > 0, 1.7e308, -1.7e308),
    "mixed": PLAIN * [1e-200, 1.0, 1e31],
    "one differs": np.where(np.arange(N)[:, None] == 3, [1e-300, 1.0, 1e32], 0.0),
    "whole numbers": np.full((N, 3), np.iinfo(np.int64).min),
}
FACTORS = {
    "whole": LEVELS,
    "far apart": LEVELS * (2**62) - 2**62,
    "ends": np.where(LEVELS > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "unsigned": LEVELS.astype(np.uint64) + np.uint64(2**63),
    "bytes": np.where(LEVELS > 0, 127, -128).astype(np.int8),
    "floats": LEVELS * 1e300,
}
FUNCTIONS = {
    "discretise": lambda z, f: discretise(z, 20),
    "binned_information": lambda z, f: binned_information(z, f, 20),
    "mutual_information": lambda z, f: mutual_information(f, f[:, ::-1]),
    "entropy": lambda z, f: entropy(f),
    "factor_shares": factor_shares,
    "svm": lambda z, f: svm_accuracies(halves(z, f), 0.01),
    "logistic": lambda z, f: fit_each_logistic(logistic_inputs(halves(z, f))[0], f[:40], "2019"),
    "trees": lambda z, f: fit_boosted_trees(z[:40], f[:40], z[40:], stages=3).importances,
}


def halves(z, f):
    return Split(z[:40], f[:40], z[40:], f[40:], np.arange(2))


def problem(function):
    """What a call did wrong: anything but finite numbers or a sentence."""
    try:
        result = function()
    except UntwineError as error:
        return None if len(str(error)) > 15 else f"no sentence: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    values = result if isinstance(result, dict) else {"": result} if result is not None else {}
    numbers = [v for v in values.values() if isinstance(v, float)]
    return None if all(map(math.isfinite, numbers)) else f"not finite: {values}"


def cases():
    names = [n for n in metrics if set(metric_needs(metrics[n])) <= NEEDS]
    for kind, codes in CODES.items():
        for name, function in FUNCTIONS.items():
            yield f"{name} of {kind}", lambda c=codes, f=function: f(c, LEVELS)
        for name in names:
            needs = [n for n in metric_needs(metrics[name]) if n in NEEDS - {"test_codes"}]
            given = {"codes": codes, "sampled_codes": codes, "factors": LEVELS}
            arguments = [given[n] for n in needs if n in given]
            yield f"{name} of {kind}", lambda n=name, a=arguments: metrics[n].function(*a)
    for kind, factors in FACTORS.items():
        for name in ("mutual_information", "entropy", "binned_information", "svm", "trees"):
            function = FUNCTIONS[name]
            yield f"{name} of levels {kind}", lambda c=factors, f=function: f(PLAIN, c)
        for name in ("mig", "dci", "sap"):
            yield (
                f"{name} of levels {kind}",
                lambda n=name, c=factors: metrics[n].function(PLAIN, c),
            )


if __name__ == "__main__":
    warnings.simplefilter("error")
    assert CodeArrays  # the subject of these metrics
    problems = [(name, text) for name, call in cases() if (text := problem(call))]
    for name, text in problems:
        print(f"{name}: {text}")
    sys.exit(bool(problems))
