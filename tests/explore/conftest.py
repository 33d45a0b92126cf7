"""A real server for the explorer's tests."""

import threading
from contextlib import contextmanager

import pytest
import uvicorn

from untwine.explore.server import MAX_REQUEST_LINE
from untwine.explore.serving import open_socket


@contextmanager
def serving(app):
    """Run an app on loopback, in a thread; its address."""
    config = uvicorn.Config(app, log_level="error", h11_max_incomplete_event_size=MAX_REQUEST_LINE)
    server = uvicorn.Server(config)
    with open_socket("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://localhost:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="session", name="serving")
def serving_fixture():
    """The context manager that runs an app: `with serving(app) as address`."""
    return serving
