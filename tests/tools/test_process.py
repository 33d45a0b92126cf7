"""Locks and signals."""

import os
import signal
import socket
import threading

import pytest

from untwine.tools import process as module
from untwine.tools.process import (
    RunLocked,
    ignore_interrupts,
    is_running,
    lock_directory,
    raise_on_signals,
    stop_requested,
)


def test_the_lock_is_free_after_use(tmp_path):
    with lock_directory(tmp_path):
        pass
    with lock_directory(tmp_path):
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


def test_a_locked_directory_names_its_owner(tmp_path):
    with lock_directory(tmp_path):
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(RunLocked, match=owner), lock_directory(tmp_path):
            pass


def test_a_directory_of_another_machine_counts_as_running(tmp_path):
    (tmp_path / ".owner").write_text("process 1 on elsewhere")
    assert is_running(tmp_path)


def test_temporary_files_of_a_dead_process_are_removed(tmp_path):
    (tmp_path / ".run.json.1234.tmp").touch()
    with lock_directory(tmp_path):
        assert sorted(os.listdir(tmp_path)) == [".lock", ".owner"]


def test_a_finished_run_keeps_no_lock_file(tmp_path):
    with lock_directory(tmp_path):
        (tmp_path / "done.json").touch()
    assert os.listdir(tmp_path) == ["done.json"]
    with lock_directory(tmp_path), pytest.raises(RunLocked), lock_directory(tmp_path):
        pass
    assert os.listdir(tmp_path) == ["done.json"]


def test_a_lock_that_its_holder_removed_is_not_taken(tmp_path, monkeypatch):
    acquire, removed = module.filelock.BaseFileLock.acquire, []

    def acquire_late(lock, *args, **kwargs):
        """Acquire a file that disappears between opening and locking."""
        proxy = acquire(lock, *args, **kwargs)
        if not removed:
            os.unlink(lock.lock_file)
            removed.append(lock)
        return proxy

    monkeypatch.setattr(module.filelock.BaseFileLock, "acquire", acquire_late)
    with lock_directory(tmp_path):
        assert (tmp_path / ".lock").exists() and len(removed) == 1 and not removed[0].is_locked


def test_the_first_signal_is_a_request_and_the_handler_is_restored():
    before = signal.getsignal(signal.SIGTERM)
    with stop_requested() as requested:
        assert not requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert requested() and signal.getsignal(signal.SIGTERM) == before
    assert signal.getsignal(signal.SIGTERM) == before


def test_other_threads_never_see_a_request():
    seen = []

    def work():
        with stop_requested() as requested:
            seen.append(requested())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_interrupts_are_ignored_or_raised_inside_a_block():
    with ignore_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), raise_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
