"""The explorer in the frame of a notebook, which is on another port, in a real browser."""

import http.server
import shutil
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import untwine
from untwine.errors import ParameterError, RunError

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    data = untwine.dataset("sprites", size=16)
    model = untwine.build("beta-vae", data, latent=3, network="mlp", width=8)
    untwine.fit(model, data, steps=20, batch=8, quiet=True)
    return model, data


@contextmanager
def notebook_server():
    """A server of pages that stand for notebooks; yields its origin and the pages by path."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}", pages
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


def framed_page(browser, address):
    """The page inside the frame of a notebook's page."""
    page = browser.new_context().new_page()
    page.goto(address)
    return page, page.frame_locator("iframe")


def test_the_notebook_shows_the_explorer_and_its_sliders(browser, trained):
    with notebook_server() as (origin, pages):
        with untwine.open_explorer(*trained, origin=origin) as explorer:
            pages["/"] = f"<!doctype html>{explorer._repr_html_()}"
            _, frame = framed_page(browser, origin)
            frame.locator("#content canvas").first.wait_for(timeout=60_000)
            sliders = frame.locator("input[type=range]")
            sliders.first.wait_for(timeout=60_000)
            sliders.first.focus()
            before = sliders.first.input_value()
            sliders.first.press("ArrowRight")
            assert sliders.first.input_value() != before


def test_another_origin_may_not_frame_it_and_the_token_works_once(browser, trained):
    with notebook_server() as (origin, pages), notebook_server() as (other, foreign):
        with untwine.open_explorer(*trained, origin=origin) as explorer:
            frame_html = explorer._repr_html_()
            foreign["/"] = pages["/"] = f"<!doctype html>{frame_html}"
            page, _ = framed_page(browser, other)
            page.wait_for_timeout(1500)
            assert not page.frames[1].url.startswith("http")  # the browser shows an error page
            _, frame = framed_page(browser, origin)  # the token is used up by the first attempt
            frame.get_by_text("open the address").wait_for(timeout=30_000)


def test_only_this_server_lets_a_page_frame_it(trained):
    import httpx

    from untwine.explore.security import HEADERS

    with untwine.open_explorer(*trained, origin="http://localhost:8888") as explorer:
        policy = httpx.get(explorer.address).headers["content-security-policy"]
        assert "frame-ancestors http://localhost:8888" in policy
        wrong = httpx.get(explorer.address)  # the second time
        assert wrong.status_code == 401
        inner = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}
        address = explorer.address.partition("?")[0] + "api/runs"
        assert httpx.get(address, headers={**inner, "sec-fetch-dest": "iframe"}).status_code == 403
    assert "frame-ancestors 'none'" in HEADERS["content-security-policy"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(explorer.address)


def test_a_run_and_arrays_open_too(tmp_path):
    import httpx

    images = np.random.default_rng(0).random((30, 16, 16))
    data = untwine.from_arrays(images)
    model = untwine.build("vae", data, latent=2, network="mlp", width=8)
    run = untwine.train_run(
        "vae", "circle", out=tmp_path, steps=5, batch=8, latent=2, network="mlp-toy", quiet=True
    )
    for arguments, name in (((model, data), "vae-array"), ((run,), "vae-circle")):
        with untwine.open_explorer(*arguments) as explorer, httpx.Client() as client:
            client.get(explorer.address)
            base = explorer.address.partition("?")[0]
            (line,) = client.get(f"{base}api/runs").json()
            assert line["name"].startswith(name) and line["state"] == "finished"
            assert client.get(f"{base}api/runs/{line['name']}").status_code == 200


@pytest.mark.parametrize("origin", ["", "localhost:8888", "http://localhost:8888/lab", "ftp://x:1"])
def test_what_is_no_origin_is_refused(trained, origin):
    with pytest.raises(ParameterError, match="origin must be"):
        untwine.open_explorer(*trained, origin=origin)


def test_a_notebook_elsewhere_and_a_model_without_data_are_refused(trained):
    with pytest.raises(ParameterError, match="from this machine alone"):
        untwine.open_explorer(*trained, origin="https://hub.example.org:443")
    with pytest.raises(ParameterError, match="name the data"):
        untwine.open_explorer(trained[0])
    model = untwine.build("vae", trained[1], width=8)
    model.card = None
    with pytest.raises(RunError, match="no names"):
        untwine.open_explorer(model, trained[1])
