"""The labels of digit datasets, for data that is made of one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from untwine.data import Dataset
from untwine.errors import DataError

LABELS = ("digit", "class")  # how the factor may be called


def labels(data: Dataset, of: str) -> tuple[str, int, NDArray[np.int64]]:
    """The name of the factor that says what is shown, its number of levels, and (N,) levels."""
    names = data.factors.names if data.factors else ()
    for name in LABELS:
        if data.factors and name in names:
            k = names.index(name)
            return name, data.factors.sizes[k], data.factors.of(np.arange(len(data)))[:, k]
    raise DataError(f"{of} has no factor named digit or class; choose mnist, digits or the like")
