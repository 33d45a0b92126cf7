"""A real server for the explorer's tests."""

import pytest

from untwine.explore.serving import serve_in_thread


@pytest.fixture(scope="session")
def serving():
    """The context manager that runs an app: `with serving(app) as address`."""
    return serve_in_thread
