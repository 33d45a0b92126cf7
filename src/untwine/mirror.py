"""Run directories at an fsspec address, such as a bucket: worked on here, kept there.

Files go up in an order that keeps the promise of a run's directory: `done.json` last.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from untwine.errors import DataError
from untwine.jobs import Job

PUSHED_EVERY = 20.0  # seconds between two copies of what has changed
SMALL = ("run.json", "done.json", "scores.json", "failed.json", "codes.npz", "history.csv")
LAST = ("done.json", "scores.json")


def is_address(text: str) -> bool:
    """Whether this is an address such as s3://bucket/runs, not a directory."""
    return "://" in text


@contextmanager
def mirrored(address: str, job: Job) -> Iterator[Job]:
    """The job in a directory of its own, with what is at the address; all is copied back.

    While the job runs, what has changed is copied now and then, so that a lost machine costs
    little.
    """
    there = f"{address.rstrip('/')}/{job.spec.directory}"
    system, root = _system(there)
    with tempfile.TemporaryDirectory(prefix="untwine-") as scratch:
        here = replace(job, out=scratch)
        _download(system, root, here.path)
        ended = threading.Event()
        sent: dict[str, tuple[int, int]] = {}
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
            state = files[name].stat()
            mark = (state.st_size, state.st_mtime_ns)
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


def pull(address: str, jobs: Iterable[Job]) -> None:
    """Copy what says how runs ended into the jobs' own directories, so that they can be read."""
    for job in jobs:
        system, root = _system(f"{address.rstrip('/')}/{job.spec.directory}")
        for name in SMALL:
            if system.exists(f"{root}/{name}") and not (job.path / name).exists():
                job.path.mkdir(parents=True, exist_ok=True)
                system.get_file(f"{root}/{name}", str(job.path / name))


def _download(system: Any, root: str, path: Path) -> None:
    """Everything that is at an address."""
    path.mkdir(parents=True)
    if not system.exists(root):
        return
    for found in system.find(root):
        file = path / found[len(root) :].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(found, str(file))


def _system(address: str) -> tuple[Any, str]:
    import fsspec

    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise DataError(f"{address} cannot be opened: {error}") from error
