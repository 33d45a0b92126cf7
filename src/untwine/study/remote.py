"""Run directories on remote storage (an fsspec URL): computed here, stored there.

Files go up in an order that keeps the promise of a run's directory: `done.json` last.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from untwine.errors import DataError
from untwine.study.job import Job

PUSHED_EVERY = 20.0  # seconds between two copies of what has changed
SMALL = ("run.json", "done.json", "scores.json", "failed.json", "codes.npz", "history.csv")
LAST = ("done.json", "scores.json")


def is_url(text: str) -> bool:
    """Whether this is an address such as s3://bucket/runs, not a directory."""
    return "://" in text


@contextmanager
def synced(address: str, job: Job) -> Iterator[Job]:
    """The job in a directory of its own, with what is at the address; all is copied back.

    While the job runs, what has changed is copied now and then, so that a lost machine costs
    little.
    """
    url = f"{address.rstrip('/')}/{job.spec.directory}"
    system, root = _system(url)
    with tempfile.TemporaryDirectory(prefix="untwine-") as scratch:
        here = replace(job, out=scratch)
        sent = _download(system, root, here.path)
        ended = threading.Event()
        keeper = threading.Thread(
            target=_keep_pushing, args=(system, root, here.path, sent, ended), daemon=True
        )
        keeper.start()
        try:
            yield here
        finally:
            ended.set()
            keeper.join()
            push(system, root, here.path, sent)


def _keep_pushing(
    system: Any, root: str, path: Path, sent: dict[str, tuple[int, int]], ended: threading.Event
) -> None:
    while not ended.wait(PUSHED_EVERY):
        push(system, root, path, sent)


def push(system: Any, root: str, path: Path, sent: dict[str, tuple[int, int]]) -> None:
    """Copy what is new or has changed up, and remove there what is gone here."""
    files = {
        str(file.relative_to(path)): file
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }
    for name in sorted(files, key=lambda name: (name in LAST, name)):
        try:
            mark = _mark(files[name])
            if sent.get(name) != mark:
                system.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
                system.put_file(str(files[name]), f"{root}/{name}")
                sent[name] = mark
        except FileNotFoundError:  # an old state, removed in the meantime
            continue
    for name in set(sent) - set(files):
        if system.exists(f"{root}/{name}"):
            system.rm_file(f"{root}/{name}")
        del sent[name]


def send(address: str, job: Job, name: str) -> None:
    """Copy one file of the job's own directory up."""
    system, root = _system(f"{address.rstrip('/')}/{job.spec.directory}")
    system.makedirs(root, exist_ok=True)
    system.put_file(str(job.path / name), f"{root}/{name}")


def pull(address: str, jobs: Iterable[Job]) -> None:
    """Copy what says how runs ended into the jobs' own directories, so that they can be read.

    What has changed there is copied again; a failure that is gone there is forgotten here.
    """
    system, root = _system(address)
    system.invalidate_cache()  # others write there
    remote_files: dict[str, dict[str, Any]] = system.find(root, detail=True)
    for job in jobs:
        for name in SMALL:
            key = f"{root.rstrip('/')}/{job.spec.directory}/{name}"
            if key in remote_files:
                _fetch(system, key, job.path / name, remote_files[key])
            elif name == "failed.json":
                (job.path / name).unlink(missing_ok=True)


def _fetch(system: Any, key: str, file: Path, facts: dict[str, Any]) -> None:
    """Copy a file that is not here as it is there: of the same size and time."""
    time = _time(facts)
    if file.exists() and time is not None:
        here = file.stat()
        if here.st_size == facts.get("size") and abs(here.st_mtime - time) < 1e-3:
            return
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    system.get_file(key, str(temporary))
    if time is not None:
        os.utime(temporary, (time, time))
    os.replace(temporary, file)


def _time(facts: dict[str, Any]) -> float | None:
    """When a file was changed, in seconds; file systems call it by different names."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None


def _download(system: Any, root: str, path: Path) -> dict[str, tuple[int, int]]:
    """Everything that is at an address; the files as they are here now."""
    path.mkdir(parents=True)
    system.invalidate_cache()
    sent: dict[str, tuple[int, int]] = {}
    for file in system.find(root) if system.exists(root) else ():
        name = file[len(root) :].lstrip("/")
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        system.get_file(file, str(path / name))
        sent[name] = _mark(path / name)
    return sent


def _mark(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def _system(address: str) -> tuple[Any, str]:
    import fsspec

    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise DataError(f"{address} cannot be opened: {error}") from error
