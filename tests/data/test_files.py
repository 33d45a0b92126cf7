"""Files arrive whole, are known by their content, and are decoded safely."""

import gzip
import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from untwine.data import files
from untwine.data.cache import cached_arrays, checksum, digest_of_files, offline
from untwine.data.files import File, obtain
from untwine.errors import DataError

CONTENT = np.random.default_rng(0).bytes(300_000)
SUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def fetch(name, url, known):
    return obtain(name, [File(url.rpartition("/")[2], url, known)])[0]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Server(ThreadingHTTPServer):
    """Serves CONTENT at every address but /missing, and notes which ranges it was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.ranges = True  # whether it can send a part of a file
        self.cut = []  # after how many bytes to break off, request by request
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/data.bin"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        start = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        if self.path == "/missing" or start >= len(CONTENT):
            self.send_error(404 if self.path == "/missing" else 416)
            return
        self.send_response(206 if start else 200)
        if start:
            last = len(CONTENT) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        stop = start + self.server.cut.pop(0) if self.server.cut else len(CONTENT)
        self.wfile.write(CONTENT[start:stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def parts(cache):
    return list(cache.rglob("*.part"))


def test_a_file_is_downloaded_once_and_checked(server, cache):
    path = fetch("thing", server.url, SUM)
    assert path == cache / "data.bin" and path.read_bytes() == CONTENT
    assert fetch("thing", server.url, SUM) == path
    assert server.asked == [None] and not parts(cache)


def test_an_interrupted_transfer_goes_on_where_it_broke_off(server):
    server.cut = [100_000, 50_000]
    assert fetch("thing", server.url, SUM).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_transfer_goes_on_in_another_session(server, cache):
    server.cut = [10_000] * 4
    with pytest.raises(DataError, match=r"broke off: 40,000 of 300,000 .*put data.bin into"):
        fetch("thing", server.url, SUM)
    assert [part.stat().st_size for part in parts(cache)] == [40_000]
    assert fetch("thing", server.url, SUM).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=40000-" and not parts(cache)


def test_a_server_without_ranges_sends_the_file_again(server):
    server.ranges, server.cut = False, [100_000]
    assert fetch("thing", server.url, SUM).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]


@pytest.mark.parametrize("left", [b"of another version", b"x" * len(CONTENT), b"x" * 400_000])
def test_a_part_that_does_not_belong_is_thrown_away(server, cache, left):
    cache.mkdir()
    (cache / "data.bin.part").write_bytes(left)
    assert fetch("thing", server.url, SUM).read_bytes() == CONTENT


def test_without_a_checksum_nothing_is_pieced_together(server, cache):
    cache.mkdir()
    (cache / "data.bin.part").write_bytes(b"of another version")
    assert fetch("thing", server.url, "").read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, cache):
    with pytest.raises(DataError, match="wrong checksum"):
        fetch("thing", server.url, "md5:" + 32 * "0")
    assert not parts(cache) and not (cache / "data.bin").exists()


def test_an_address_that_is_gone_is_told_at_once(server):
    with pytest.raises(DataError, match=r"Not Found.*put missing into .*thing.path=FILE"):
        fetch("thing", server.url.replace("data.bin", "missing"), SUM)
    assert len(server.asked) == 1


def test_a_file_address_works(tmp_path):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    assert fetch("thing", (tmp_path / "data.bin").as_uri(), SUM).read_bytes() == CONTENT


def test_offline_the_sentence_names_files_places_and_the_stand_in(cache):
    files = [File(f"mnist/{name}", "http://127.0.0.1:9/x") for name in "abc"]
    with pytest.raises(DataError) as refusal:
        obtain("mnist", files)
    text = str(refusal.value)
    assert f"put a, b and c into {cache / 'mnist'}" in text and "\n" not in text
    assert "--set mnist.path=FOLDER" in text and "stand-in digits" in text


def test_a_file_without_an_address_is_placed_by_hand(cache):
    with pytest.raises(DataError, match=r"by hand: put a\.npz into"):
        obtain("thing", [File("a.npz")])
    cache.mkdir()
    (cache / "a.npz").write_bytes(b"here")
    assert obtain("thing", [File("a.npz")]) == [cache / "a.npz"]
    with pytest.raises(DataError, match="not the published file"):
        obtain("thing", [File("a.npz", size=5)])


def test_a_placed_file_that_is_another_is_named_and_kept(cache):
    cache.mkdir()
    (cache / "data.bin").write_bytes(b"mine")
    with pytest.raises(
        DataError, match=r"data\.bin is not the published file of thing .*delete it"
    ):
        fetch("thing", "http://127.0.0.1:9/data.bin", SUM)
    assert (cache / "data.bin").read_bytes() == b"mine"


def test_a_repacked_gz_counts_by_its_content(cache):
    cache.mkdir()
    for level in (1, 9):
        (cache / "a.gz").write_bytes(gzip.compress(CONTENT, level))
        assert obtain("thing", [File("a.gz", hash=SUM)])
    (cache / "a.gz").write_bytes(gzip.compress(CONTENT)[:-20])
    with pytest.raises(DataError, match="not the published file"):
        obtain("thing", [File("a.gz", hash=SUM)])


def test_a_file_from_a_package_saves_the_download(tmp_path):
    (tmp_path / "there.bin").write_bytes(CONTENT)
    file = File("data.bin", "http://127.0.0.1:9/x", SUM, packaged=str(tmp_path / "there.bin"))
    assert obtain("thing", [file]) == [tmp_path / "there.bin"]


def test_checksums_follow_the_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"one")
    first, named = checksum(path), digest_of_files([path])
    assert first == hashlib.sha256(b"one").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", None)
        assert checksum(path) == first  # remembered
    path.write_bytes(b"other")
    assert checksum(path) != first and digest_of_files([path]) != named


def test_arrays_are_made_once_and_mapped(cache):
    made = []
    make = lambda: made.append(1) or {"x": np.arange(5), "y": np.ones((2, 3))}  # noqa: E731
    for _ in range(2):
        arrays = cached_arrays("thing", "d1", make)
    assert made == [1] and isinstance(arrays["x"], np.memmap) and arrays["y"].shape == (2, 3)
    cached_arrays("thing", "d2", make)
    assert made == [1, 1]


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: os.truncate(folder / "x.npy", 1000),
        lambda folder: os.truncate(folder / "x.npy", 0),
        lambda folder: (folder / "x.npy").unlink(),
        lambda folder: (folder / "arrays.json").write_text('["x"'),
        lambda folder: (folder / "arrays.json").unlink(),
    ],
)
def test_a_damaged_cache_is_noticed_and_made_again(cache, harm):
    make = lambda: {"x": np.arange(1000)}  # noqa: E731
    cached_arrays("thing", "d", make)
    harm(cache / "thing-d")
    assert (cached_arrays("thing", "d", make)["x"] == np.arange(1000)).all()


def test_nothing_is_downloaded_or_decoded_where_that_is_not_wanted(server):
    with offline(idle=True):
        with pytest.raises(DataError, match="not on this machine: write untwine data fetch thing"):
            fetch("thing", server.url, SUM)
        with pytest.raises(DataError, match="not been decoded yet"):
            cached_arrays("thing", "d", dict)
    assert cached_arrays("thing", "d", dict) == {} and not server.asked


def test_a_failed_decoding_leaves_no_cache(cache):
    def fail():
        raise DataError("odd file")

    with pytest.raises(DataError, match="odd file"):
        cached_arrays("thing", "d", fail)
    assert cached_arrays("thing", "d", lambda: {"x": np.zeros(1)})["x"] == 0


RACE = """
import sys, time
import numpy as np
from pathlib import Path
from untwine.data.cache import cached_arrays
from untwine.data.files import File, obtain

def make():
    Path(sys.argv[1]).open("a").write("made\\n")
    time.sleep(0.3)
    return {"x": np.arange(200_000)}

start = Path(sys.argv[3])
Path(sys.argv[4]).touch()
while not start.exists():
    time.sleep(0.005)
assert (cached_arrays("thing", "d", make)["x"] == np.arange(200_000)).all()
print(len(obtain("thing", [File("data.bin", sys.argv[2], sys.argv[5])])[0].read_bytes()))
"""


def test_two_processes_make_and_fetch_a_thing_once(tmp_path, server):
    log, start = tmp_path / "log", tmp_path / "start"
    ready = [tmp_path / "ready1", tmp_path / "ready2"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, log, server.url, start, mine, SUM],
            stdout=subprocess.PIPE,
            text=True,
        )
        for mine in ready
    ]
    while not all(mine.exists() for mine in ready):
        assert all(process.poll() is None for process in processes)
        threading.Event().wait(0.02)
    start.touch()
    assert [process.communicate(timeout=60)[0] for process in processes] == ["300000\n"] * 2
    assert log.read_text() == "made\n" and server.asked == [None]


def test_progress_is_shown_while_a_file_arrives(server, monkeypatch):
    seen = []

    def copy(source, target, done, show):
        plain(source, target, done, lambda n, note: seen.append(n) or show(n, note))

    plain = files._copy
    monkeypatch.setattr(files, "_copy", copy)
    server.cut = [100_000]
    fetch("thing", server.url, SUM)
    assert seen == sorted(seen) and seen[-1] == len(CONTENT)
