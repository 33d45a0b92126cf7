"""Locks, signals, and processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock

from untwine.errors import RunError, RunLocked
from untwine.tools.files import WRITE_FLAGS, read_bytes

OWNER = re.compile(r"process (?P<process>\d{1,9}) on (?P<host>.*)")
MAX_OWNER_BYTES = 400


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Lock a run directory, or raise `RunLocked`; the system releases it when the process dies.

    A finished run keeps no lock file. Nothing is written through a link: neither the directory nor
    the lock may be one, nor a file that has another name elsewhere.
    """
    lock, owner = path / ".lock", path / ".owner"
    for place, is_wrong in ((path, _is_not_a_directory(path)), (lock, _is_not_own_file(lock))):
        if is_wrong:
            raise RunError(f"{place} is a link or no regular file; remove it, or copy the run")
    try:
        held = _acquire(lock)
    except filelock.Timeout:
        who = _read_owner(path) or "another process"
        raise RunLocked(f"{path} is locked by {who}; wait for it or stop it") from None
    try:
        owner.unlink(missing_ok=True)
        with os.fdopen(os.open(owner, WRITE_FLAGS, 0o666), "w") as stream:
            stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        for leftover in path.rglob(".*.tmp"):  # of a process that died while writing
            leftover.unlink()
        yield
    finally:
        owner.unlink(missing_ok=True)
        if (path / "done.json").exists():
            with contextlib.suppress(OSError):  # where open files cannot be removed
                lock.unlink()
        held.release()


def _is_not_a_directory(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not path.is_dir())


def _is_not_own_file(lock: Path) -> bool:
    """Whether what is there may be someone else's file; some versions of filelock empty it."""
    try:
        state = os.lstat(lock)
    except OSError:  # none is there
        return False
    return not stat.S_ISREG(state.st_mode) or state.st_nlink > 1


def _acquire(lock: Path) -> filelock.BaseFileLock:
    """Lock a file at once, or raise `Timeout`; not one that its holder has just removed."""
    while True:
        held = filelock.FileLock(lock, timeout=0)
        held.acquire()
        descriptor = held._context.lock_file_fd
        with contextlib.suppress(FileNotFoundError):
            if descriptor is None or os.path.samestat(os.fstat(descriptor), lock.stat()):
                return held
        held.release()


def _read_owner(path: Path) -> str | None:
    """Which process holds the directory; empty while it is being written, None without one."""
    try:
        return read_bytes(path / ".owner", MAX_OWNER_BYTES).decode(errors="replace")
    except (FileNotFoundError, RunError):
        return None


def is_running(path: Path) -> bool:
    """Whether a live process on this machine, or any on another machine, holds the directory."""
    owner = _read_owner(path)
    if owner is None:
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
