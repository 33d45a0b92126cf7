"""A real server and a real browser for the explorer's tests."""

import shutil
import threading
from urllib.parse import urlsplit

import pytest

from untwine.explore import measuring
from untwine.explore.serving import serve_in_thread


@pytest.fixture(scope="session", autouse=True)
def few_measured():
    """Measure few examples of large data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "N_AT_ONCE", 300)
        yield


@pytest.fixture(autouse=True)
def nothing_goes_on():
    """Wait for examples that are still measured, which use the process's random numbers."""
    yield
    for thread in threading.enumerate():
        if thread.name == measuring.THREAD_NAME:
            thread.join(60)


@pytest.fixture(scope="session")
def serving():
    """The context manager that runs an app: `with serving(app) as address`."""
    return serve_in_thread


@pytest.fixture(scope="module")
def browser():
    """Chromium; tests that need it are skipped where it is not installed.

    Its driver runs an event loop in this thread, so it ends with its module.
    """
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("Chromium is not installed, so the page is not tested")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Open addresses in a browser that notes what goes wrong and where requests go."""
    contexts, wrong, asked = [], [], []

    def opened(address, **settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        opened.ready(page)
        return page

    def ready(page):
        """Wait until the page has opened, and refuse one that reports a problem."""
        page.locator("#busy").wait_for(state="hidden")
        page.locator("#content > *").first.wait_for()
        assert page.locator("#problem").is_hidden(), page.locator("#problem").inner_text()

    def close():
        """Close all pages, before their server ends: they ask it for news."""
        while contexts:
            contexts.pop().close()

    opened.wrong, opened.asked, opened.ready, opened.close = wrong, asked, ready, close
    yield opened
    close()
    assert not wrong
    places = {(urlsplit(url).scheme, urlsplit(url).hostname) for url in asked}
    assert places <= {("http", "localhost"), ("file", None), ("data", None), ("blob", None)}
