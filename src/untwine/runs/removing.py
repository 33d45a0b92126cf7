"""Remove runs, whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from untwine.errors import RunError, RunLocked
from untwine.runs.directory import REMOVED
from untwine.tools.process import is_running, lock_directory


def require_removable(path: Path) -> None:
    """Refuse a directory that is not a run, and a run that a process is working on."""
    if path.is_symlink():
        raise RunError(f"{path} is a link; name the directory it leads to: {os.readlink(path)}")
    if not os.path.lexists(path / "run.json"):
        raise RunError(f"{path} is not a run: it has no run.json; nothing is removed")
    if is_running(path):
        raise RunLocked(f"{path} is being trained; stop that first, then remove it")


def remove_run(path: Path) -> None:
    """Remove the directory of a run.

    It is renamed first, so that a removal that is interrupted leaves no part of a run to be found;
    the next removal beside it clears what is left.
    """
    require_removable(path)
    path = path.absolute()
    with lock_directory(path):
        path.rename(path.with_name(f"{REMOVED}{secrets.token_hex(4)}"))
    for leftover in path.parent.glob(f"{REMOVED}*"):
        shutil.rmtree(leftover)
