"""Optional libraries: loaded where they are used, and named where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from untwine.errors import MissingLibraryError


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Turn a failed import of an optional library into a sentence that names the extra.

    >>> with needs_extra("onnx", "export"):
    ...     import no_such_library
    Traceback (most recent call last):
    untwine.errors.MissingLibraryError: export needs no_such_library; pip install 'untwine[onnx]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingLibraryError(
            f"{purpose} needs {error.name}; pip install 'untwine[{extra}]'"
        ) from None
