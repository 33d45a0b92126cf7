"""What a run is guarded by while it is computed: a lock, signals, a number of threads."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import torch

from untwine.errors import RunError

OWNER = re.compile(r"process (?P<process>\d+) on (?P<host>.*)")


class Busy(RunError):
    """Another process works on a run."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a run directory alone, or raise `Busy`; the system frees it when a process dies."""
    lock = filelock.FileLock(path / ".lock", timeout=0)
    owner = path / ".owner"
    try:
        lock.acquire()
    except filelock.Timeout:
        who = owner.read_text() if owner.exists() else "another process"
        raise Busy(f"{path} is being worked on by {who}; wait for it or stop it") from None
    try:
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        for leftover in path.rglob(".*.tmp"):  # of a process that died while writing
            leftover.unlink()
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def is_running(path: Path) -> bool:
    """Whether a living process of this machine, or any of another, holds the directory."""
    try:
        owner = (path / ".owner").read_text()
    except FileNotFoundError:
        return False
    known = OWNER.fullmatch(owner)
    if known is None or known["host"] != socket.gethostname():
        return True
    try:
        os.kill(int(known["process"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a question the loop asks; the second acts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: object) -> None:
        asked.set()
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        restore()


@contextmanager
def computing_threads(count: int) -> Iterator[None]:
    """Compute with this many threads inside a `with` block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
