"""Old names that keep working for one more version."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed_keywords(**names: str) -> Callable[[Function], Function]:
    """Let a function take keywords by their old names, with a warning.

    >>> @renamed_keywords(n="n_examples")
    ... def double(*, n_examples): return 2 * n_examples
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     double(n=3), str(caught[0].message)
    (6, 'double(n=...) is now called n_examples; the old name goes in version 0.3')
    """

    def decorate(function: Function) -> Function:
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in kwargs.keys() & names.keys():
                warnings.warn(
                    f"{name}({old}=...) is now called {names[old]}; "
                    "the old name goes in version 0.3",
                    FutureWarning,
                    stacklevel=2,
                )
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
