"""Your own data, given in Python."""

from __future__ import annotations

from untwine.data.cache import check_digest
from untwine.data.dataset import Dataset
from untwine.data.files import existing_path
from untwine.data.in_memory import held_data, identify, read_stored
from untwine.errors import DataError
from untwine.registry import dataset


@dataset(title="Data given in Python", paper="your own data")
def memory(*, path: str = "", digest: str = "") -> Dataset:
    """Arrays, frames and datasets given to `untwine.train_run` or `untwine.plan`; your own data.

    A run refers to them by their digest. They are read from a file that the run stored, or must be
    given again.

    Args:
        path: the file that a run stored; empty for data that was not stored.
        digest: of the data, filled in by a run.
    """
    if path:
        data = identify(read_stored(existing_path(path, "file")))
        check_digest(path, digest, data.digest)
        return data
    if not digest:
        raise DataError(
            "memory stands for data given in Python, as in untwine.train_run(model, data); name a "
            "dataset, a folder or a file"
        )
    return held_data(digest)
