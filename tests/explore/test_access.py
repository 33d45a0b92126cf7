"""Who is let in, and what one client can take from the others."""

import io
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from PIL import Image

from untwine.explore import connections, security
from untwine.explore.connections import TerminalLog, max_connections
from untwine.explore.gallery import Gallery
from untwine.explore.server import application

TOKEN = "a-token"
GET_RUNS = b"GET /api/runs?token=a-token HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def place(explored):
    out, paths = explored
    return Gallery.find([str(paths["plain"])], out)


@pytest.fixture
def address(place, serving):
    with serving(application(place, token=TOKEN, one_time_tokens=["once"])) as address:
        yield address


@pytest.fixture
def client(address):
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


def status(response):
    if response.status_code >= 400:
        assert list(response.json()) == ["detail"]
    return response.status_code


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_what_another_site_makes_the_browser_send_is_refused(client, explored, site):
    run = f"/api/runs/{explored[1]['plain'].name}"
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    for path in ("/", "/page/api.js", "/api/runs", f"{run}/image.png?index=0"):
        assert status(client.get(path, headers=headers)) == 403
    assert status(client.post(f"{run}/start", content=b"x", headers=headers)) == 403
    frame = {**headers, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert status(client.get("/", headers=frame)) == 403
    link = {**frame, "sec-fetch-dest": "document"}
    assert status(client.get("/api/runs", headers=link)) == 403
    assert status(client.post("/", headers=link)) == 403
    assert status(client.get("/", headers=link)) == 200  # a link to the page


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "file://", "http://localhost", "http://localhost:1", "",
     "https://evil.example:443", "http://[", "http://localhost.evil.example"],
)  # fmt: skip
def test_other_origins_are_refused(client, explored, origin):
    for headers in ({"origin": origin}, {"origin": origin, "sec-fetch-site": "same-origin"}):
        assert status(client.get("/api/runs", headers=headers)) == 403
        start = f"/api/runs/{explored[1]['plain'].name}/start"
        assert status(client.post(start, content=b"x", headers=headers)) == 403


def test_the_page_itself_is_let_in(client, address, explored):
    own = {"origin": address.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert status(client.get("/api/runs", headers=own)) == 200
    start = f"/api/runs/{explored[1]['plain'].name}/start"
    assert status(client.post(start, content=picture(20, 20), headers=own)) == 200
    assert status(client.get("/", headers={"sec-fetch-site": "none"})) == 200


def test_a_one_time_token_opens_the_page_once(address):
    with httpx.Client(base_url=address, trust_env=False) as browser:
        assert status(browser.get("/api/runs?token=once")) == 401  # only the page
        first = browser.get("/?token=once")
        assert first.status_code == 200 and "HttpOnly" in first.headers["set-cookie"]
        assert status(browser.get("/api/runs")) == 200  # by the cookie
    with httpx.Client(base_url=address, trust_env=False) as other:
        assert status(other.get("/?token=once")) == 401


def test_a_one_time_token_expires(place, serving, monkeypatch):
    monkeypatch.setattr(security, "ONE_TIME_PERIOD", 0.0)
    with serving(application(place, token=TOKEN, one_time_tokens=["once"])) as address:
        assert httpx.get(f"{address}?token=once", trust_env=False).status_code == 401


def test_a_browser_without_the_token_is_told_in_a_page(address):
    answer = httpx.get(address, headers={"sec-fetch-dest": "document"}, trust_env=False)
    assert answer.status_code == 401 and "text/html" in answer.headers["content-type"]
    assert "?token=" in answer.text


def connect(address):
    url = httpx.URL(address)
    return socket.create_connection((url.host, url.port), timeout=20)


def read_all(line):
    """What comes until the server closes the connection."""
    parts = []
    try:
        while part := line.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize("length", [b"100000000000000", b"9" * 400, b"10000001"])
def test_too_large_a_body_is_refused_before_it_is_sent(address, length, monkeypatch):
    monkeypatch.setattr(security, "LINGER", 0.2)
    with connect(address) as line:
        request = GET_RUNS.replace(b"GET", b"POST")
        line.sendall(request + b"Content-Length: " + length + b"\r\n\r\n")
        answer = line.recv(65536)  # at once, before anything else is sent
        assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
        assert b"connection: close" in answer.lower()
        read_all(line)  # ends: the server closes


def test_a_refusal_is_received_by_a_client_that_still_sends(client, explored):
    start = f"/api/runs/{explored[1]['plain'].name}/start"
    for content in (bytes(security.MAX_UPLOAD + 1), iter([bytes(4_000_000)] * 5)):
        answer = client.post(start, content=content)
        assert answer.status_code == 413 and answer.headers["connection"] == "close"
    foreign = {"origin": "http://evil.example"}
    assert status(client.post(start, content=bytes(5_000_000), headers=foreign)) == 403
    assert status(client.get("/api/runs")) == 200


def test_a_client_that_hangs_up_leaves_no_traceback(address, client, caplog, explored):
    start = f"/api/runs/{explored[1]['plain'].name}/start?token={TOKEN}"
    with caplog.at_level(logging.WARNING):
        for target in (start, start.replace("/start", "/selection")):
            with connect(address) as line:
                head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n"
                line.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + bytes(9000))
                time.sleep(0.1)
        assert status(client.get("/api/runs")) == 200
        time.sleep(0.2)
    assert not caplog.records


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", GET_RUNS, GET_RUNS.replace(b"GET", b"POST") + b"Content-Length: 9\r\n\r\nx"],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
def test_slow_clients_are_cut_off(address, client, monkeypatch, sent):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.3)
    monkeypatch.setattr(connections, "BODY_TIMEOUT", 0.3)
    monkeypatch.setattr(security, "LINGER", 0.1)
    with connect(address) as line:
        line.sendall(sent)
        answer = read_all(line)  # ends: the server closes
    assert not answer or answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 405"))
    assert status(client.get("/api/runs")) == 200


def test_a_client_that_reads_nothing_is_cut_off(place, serving, monkeypatch):
    from fastapi import FastAPI
    from fastapi.responses import Response

    monkeypatch.setattr(connections, "WRITE_TIMEOUT", 0.3)
    app = FastAPI()
    app.get("/")(lambda: Response(bytes(20_000_000)))
    with serving(app) as address, connect(address) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1)
        assert len(read_all(line)) < 20_000_000


def test_idle_connections_give_way_to_new_ones(address, client, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    idle = [connect(address) for _ in range(40)]
    began = time.monotonic()
    for _ in range(3):
        assert httpx.get(f"{address}?token={TOKEN}", trust_env=False, timeout=20).status_code == 200
    assert time.monotonic() - began < connections.HEADER_TIMEOUT
    time.sleep(0.1)
    closed = [line for line in idle if line.setblocking(False) or is_closed(line)]
    assert 30 <= len(closed) < 40
    for line in idle:
        line.close()


def is_closed(line):
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False


def test_when_all_are_busy_a_new_connection_is_refused_in_a_sentence(address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    head = GET_RUNS.replace(b"GET", b"POST") + b"Content-Length: 9\r\n\r\nx"
    busy = [connect(address) for _ in range(8)]
    for line in busy:
        line.sendall(head)
    time.sleep(0.3)
    with connect(address) as line:
        assert read_all(line).startswith(b"HTTP/1.1 503")
    for line in busy:
        line.close()


def test_another_machine_has_a_share_of_the_connections(address, monkeypatch):
    monkeypatch.setattr(connections.LimitedConnection, "is_local", False)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS_PER_PEER", 4)
    lines = [connect(address) for _ in range(10)]
    time.sleep(0.3)
    assert sum(line.setblocking(False) or is_closed(line) for line in lines) == 6
    for line in lines:
        line.close()


def test_connections_leave_half_of_the_files_free(monkeypatch):
    import resource

    for files, most in ((128, 64), (10**6, connections.MAX_CONNECTIONS), (-1, 512), (4, 8)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, files=files: (files, files))
        assert max_connections() == most


def test_the_log_is_limited_and_text(monkeypatch, capsys):
    log, now = TerminalLog(), [1000.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: now[0])
    for _ in range(5000):
        log.emit(logging.makeLogRecord({"msg": "\x1b]0;x\x07" + "y" * 10_000}))
    now[0] += connections.LOG_PERIOD
    log.emit(logging.makeLogRecord({"msg": "later"}))
    err = capsys.readouterr().err
    assert len(err) < 100_000 and "\x1b" not in err
    assert err.splitlines()[-2:] == ["4980 more messages were not shown", "later"]


def picture(width, height):
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 60)).save(stream, "PNG")
    return stream.getvalue()


def test_uploads_at_once_are_decoded_two_at_a_time(address, explored, monkeypatch):
    from untwine.explore.view import RunView

    running, most = [], []

    def decode(self, content, levels=()):
        running.append(None)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()
        return self.start_from_prior(0)

    monkeypatch.setattr(RunView, "start_from_upload", decode)
    monkeypatch.setattr(security, "MAX_UPLOADS_AT_ONCE", 5)
    path = f"{address}api/runs/{explored[1]['plain'].name}/start?token={TOKEN}"

    def upload(_):
        return status(httpx.post(path, content=bytes(200_000), timeout=60, trust_env=False))

    with ThreadPoolExecutor(12) as users:
        answers = list(users.map(upload, range(12)))
    assert max(most) == 2 and answers.count(200) >= 5 and set(answers) <= {200, 503}
    assert upload(0) == 200
