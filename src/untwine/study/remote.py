"""Run directories on remote storage (an fsspec URL): computed here, stored there.

A file is sent under a temporary name and then moved, so that it is there whole or not at all. Files
go up in an order that keeps the promise of a run's directory: the scores, then `done.json` last. A
damaged file that was there before is dropped and made again.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from untwine.data.incoming.bounds import refuse_unreadable
from untwine.errors import RunError, UntwineError
from untwine.runs.directory import (
    check_weights,
    is_finished,
    read_done,
    read_history,
    read_scores,
)
from untwine.runs.training import require_same
from untwine.study.job import Job, has_codes
from untwine.tools.sealed import read_json
from untwine.tools.terminal import warn

PUSHED_EVERY = 20.0  # seconds between two copies of what has changed
SMALL = ("run.json", "done.json", "scores.json", "failed.json", "codes.npz", "history.csv")
SMALL += ("progress.json",)
ORDER = ("run.json", "", "scores.json", "done.json")  # of sending; "" for all other files
ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az"})  # whose uploads appear whole
PART = re.compile(r"\..+\.part")  # the temporary name of a file that is being sent


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
        sent = _download(system, root, here)
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
        if not is_finished(path):  # scores come before done.json, so they are sent together
            push(system, root, path, sent)


def push(system: Any, root: str, path: Path, sent: dict[str, tuple[int, int]]) -> None:
    """Copy what is new or has changed up, and remove there what is gone here."""
    files = {
        str(file.relative_to(path)): file
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }
    for name in sorted(files, key=lambda name: (ORDER.index(name if name in ORDER else ""), name)):
        try:
            mark = _mark(files[name])
            if sent.get(name) != mark:
                _put(system, files[name], f"{root}/{name}")
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
    _put(system, job.path / name, f"{root}/{name}")


def _put(system: Any, file: Path, target: str) -> None:
    """Copy a file up, whole or not at all."""
    folder, _, name = target.rpartition("/")
    system.makedirs(folder, exist_ok=True)
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if protocols & ATOMIC:
        system.put_file(str(file), target)
        return
    part = f"{folder}/.{name}.part"
    system.put_file(str(file), part)
    system.mv(part, target)


def pull(address: str, jobs: Iterable[Job]) -> None:
    """Copy what says how runs ended into the jobs' own directories, so that they can be read.

    What has changed there is copied again; a failure that is gone there is forgotten here.
    """
    system, root = _system(address)
    with refuse_unreadable(f"{address} cannot be listed"):
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


def _download(system: Any, root: str, job: Job) -> dict[str, tuple[int, int]]:
    """Copy everything at an address into the job's directory; the intact files, as they are now.

    Damaged files are removed here. Those that are made again replace them there; others are
    removed there too, by the next push.
    """
    path = job.path
    path.mkdir(parents=True)
    system.invalidate_cache()
    sent: dict[str, tuple[int, int]] = {}
    for file in system.find(root) if system.exists(root) else ():
        name = file[len(root) :].lstrip("/")
        if PART.fullmatch(PurePosixPath(name).name):
            system.rm_file(file)
        elif ".." not in PurePosixPath(name).parts:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            system.get_file(file, str(path / name))
            sent[name] = _mark(path / name)
    drop_damaged(job)
    return sent


def drop_damaged(job: Job) -> None:
    """Remove what is damaged in a job's directory, and what depends on it."""
    checks: list[tuple[Callable[[Path], object], tuple[str, ...]]] = [
        (lambda path: read_json(path / "failed.json"), ("failed.json",)),
        (_check_weights, ("done.json",)),
        (lambda path: require_same(path, job.spec), ("run.json", "done.json")),
        (read_scores, ("scores.json",)),
        (_check_codes, ("codes.npz",)),
    ]
    for check, names in checks:
        if not (job.path / names[0]).exists():
            continue
        try:
            check(job.path)
        except UntwineError as error:
            warn(f"{error}; {names[0]} is made again")
            for name in names:
                (job.path / name).unlink(missing_ok=True)


def _check_weights(path: Path) -> None:
    """Refuse a finished run whose weights or history are damaged."""
    check_weights(path)
    read_history(path, read_done(path))


def _check_codes(path: Path) -> None:
    if not has_codes(path):
        raise RunError(f"{path / 'codes.npz'} is damaged")


def _mark(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def _system(address: str) -> tuple[Any, str]:
    import fsspec

    with refuse_unreadable(f"{address} cannot be opened"):
        return fsspec.core.url_to_fs(address)
