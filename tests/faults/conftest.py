"""A disk that fails, or a process that is killed, at the n-th change of a file."""

import builtins
import errno
import gc
import io
import os
from pathlib import Path

import pytest

OPERATIONS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "symlink", "link")
FAULTS = ("kill", "torn", "ENOSPC", "EIO")


class Killed(BaseException):
    """Ends everything, as SIGKILL does; nothing is written or tidied up after it."""


class Disk:
    """Counts the changes below a directory, and fails at the n-th.

    kill     the process ends before the change; no later change happens
    torn     as kill, but half of what was being written is there
    ENOSPC   writing fails from then on, removing and renaming work
    EIO      this change fails, later ones work
    """

    def __init__(self, root):
        self.root = str(root)
        self.reset()

    def reset(self, at=0, fault=""):
        self.count, self.at, self.fault, self.dead = 0, at, fault, False

    def step(self, path, write=None):
        """Count a change, which happens unless this raises."""
        if not str(path).startswith(self.root):
            return
        if self.dead:
            raise Killed
        self.count += 1
        if self.fault == "ENOSPC" and write and 0 < self.at <= self.count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if self.count != self.at:
            return
        if self.fault == "EIO":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if self.fault in ("kill", "torn"):
            self.dead = True
            if self.fault == "torn" and callable(write):
                write()
            raise Killed

    def install(self, patch):
        for name in OPERATIONS:
            patch.setattr(os, name, self._counting(getattr(os, name)))
        fsync, opened = os.fsync, builtins.open

        def counting_fsync(handle):
            self.step(os.readlink(f"/proc/self/fd/{handle}"), write=True)
            return fsync(handle)

        def counting_open(file, mode="r", *args, **keywords):
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return opened(file, mode, *args, **keywords)
            self.step(os.path.abspath(file), write=True)
            return File(opened(file, mode, *args, **keywords), os.path.abspath(file), self)

        patch.setattr(os, "fsync", counting_fsync)
        patch.setattr(builtins, "open", counting_open)
        patch.setattr(io, "open", counting_open)

    def _counting(self, operation):
        def counted(path, *args, **keywords):
            folder = keywords.get("dir_fd")
            base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
            self.step(os.path.join(base, os.fspath(path)), write=operation.__name__ == "mkdir")
            return operation(path, *args, **keywords)

        return counted


class File:
    """A file that is open for writing."""

    def __init__(self, stream, path, disk):
        self._stream, self._path, self._disk = stream, path, disk

    def write(self, content):
        def half():
            self._stream.write(content[: len(content) // 2])
            self._stream.flush()

        self._disk.step(self._path, write=half)
        return self._stream.write(content)

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stream.close()


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """The disk below the test's directory."""
    disk = Disk(tmp_path)
    disk.install(monkeypatch)
    return disk


@pytest.fixture
def at_every_change(disk):
    """Do work once for each change it makes, failing there; `after` looks at what is left.

    `prepare` makes a fresh place by name and returns it with the function that works there. With
    `points`, so many changes are tried, spread over all of them and others for each fault.
    """

    def repeat(prepare, after, fault, points=None):
        place, work = prepare("undisturbed")
        disk.reset()
        work()
        total = disk.count
        after(place, None)
        struck, every = 0, max(1, total // (points or total))
        for at in range(1 + FAULTS.index(fault) % every, total + 1, every):
            place, work = prepare(f"{fault}-{at}")
            disk.reset(at, fault)
            error = strike(work)
            struck += error is not None
            disk.reset()
            after(place, error)
            work()
            after(place, None)
            assert leftovers(place) == [], f"{fault} at change {at} of {total}"
        assert struck

    return repeat


def strike(work):
    """How work ended: the kind of its error, or nothing."""
    from untwine.errors import UntwineError

    try:
        work()
    except (Killed, OSError, UntwineError) as error:
        return type(error).__name__
    finally:
        gc.collect(1)  # releases the locks of what was killed
    return None


def leftovers(place):
    """Temporary files; those of a study are left for an hour, as another driver may write one."""
    files = (path for path in Path(place).rglob("*") if path.name.endswith((".tmp", ".part")))
    return [file.name for file in files if not (file.parent / "study.json").exists()]
