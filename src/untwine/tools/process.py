"""Locks, signals, and processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock

from untwine.errors import RunLocked

OWNER = re.compile(r"process (?P<process>\d+) on (?P<host>.*)")


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Lock a run directory, or raise `RunLocked`; the system releases it when the process dies."""
    lock = filelock.FileLock(path / ".lock", timeout=0)
    owner = path / ".owner"
    try:
        lock.acquire()
    except filelock.Timeout:
        who = owner.read_text() if owner.exists() else "another process"
        raise RunLocked(f"{path} is locked by {who}; wait for it or stop it") from None
    try:
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        for leftover in path.rglob(".*.tmp"):  # of a process that died while writing
            leftover.unlink()
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def is_running(path: Path) -> bool:
    """Whether a live process on this machine, or any on another machine, holds the directory."""
    try:
        owner = (path / ".owner").read_text()
    except FileNotFoundError:
        return False
    match = OWNER.fullmatch(owner)
    if match is None or match["host"] != socket.gethostname():
        return True
    try:
        os.kill(int(match["process"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C or SIGTERM arrived; a second one acts at once."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def request(number: int, frame: object) -> None:
        requested.set()
        restore()

    for number in before:
        signal.signal(number, request)
    try:
        yield requested.is_set
    finally:
        restore()


def end_with_parent() -> None:
    """Send this process SIGTERM, so that it saves and ends, when its parent has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def handle_signals(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Install a signal handler inside a `with` block; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def raise_on_signals() -> contextlib.AbstractContextManager[None]:
    """Raise KeyboardInterrupt on Ctrl-C and on SIGTERM."""
    return handle_signals(signal.default_int_handler, signal.SIGINT, signal.SIGTERM)


def ignore_interrupts() -> contextlib.AbstractContextManager[None]:
    return handle_signals(signal.SIG_IGN, signal.SIGINT)
