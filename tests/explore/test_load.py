"""Many users and large uploads at once, in a server process of its own."""

import io
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from PIL import Image

MAX_BYTES = 1.5e9
USERS, UPLOADS = 50, 12
SIDE = 6000  # pixels of a large upload, within the limit


@pytest.fixture
def server(explored):
    """The process of `untwine explore`, and its address."""
    words = ["explore", str(explored[1]["plain"]), "--port", "0", "--no-browser", "--no-token"]
    command = [sys.executable, "-m", "untwine", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)


def peak_bytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_fifty_users_and_twelve_large_uploads_take_little_memory(server, explored):
    process, address = server
    base = f"{address}api/runs/{explored[1]['plain'].name}"
    stream = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), (200, 30, 60)).save(stream, "PNG")
    ended = threading.Event()

    def move(user):
        """Move a slider until the uploads are answered."""
        statuses = []
        with httpx.Client(timeout=120, trust_env=False) as client:
            while not ended.is_set():
                code = f"{user / USERS:.3f},{len(statuses) / 100:.2f},0,0,0"
                statuses.append(client.get(f"{base}/decode.png?code={code}").status_code)
        return statuses

    def upload(_):
        answer = httpx.post(
            f"{base}/start", content=stream.getvalue(), timeout=300, trust_env=False
        )
        return answer.status_code

    with ThreadPoolExecutor(USERS + UPLOADS) as pool:
        users = [pool.submit(move, user) for user in range(USERS)]
        uploads = list(pool.map(upload, range(2 * UPLOADS)))
        ended.set()
        moves = [status for user in users for status in user.result()]
    peak = peak_bytes(process)
    print(f"{len(moves)} moves, uploads {uploads}, peak {peak / 2**20:.0f} MiB")
    assert set(uploads) <= {200, 503} and uploads.count(200) >= UPLOADS
    assert len(moves) >= USERS and set(moves) == {200}
    assert peak < MAX_BYTES and process.poll() is None
